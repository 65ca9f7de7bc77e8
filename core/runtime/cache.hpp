// Cache: this process's part of the cached datasets, and its filemap file on disk.
//
// Every change reaches the filemap file before a file is created and after one is deleted, so that
// a run killed at any instant leaves no file that is not listed. Not collective, except start().
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/filemap_journal.hpp"
#include "core/runtime/context.hpp"

namespace scr {

// Ok if a file is there with the size that is recorded for it, and has a checksum.
Status check_cached_file(FileSystem& fs, const Directory& directory, const FileMeta& meta);

class Cache {
 public:
  explicit Cache(Context& context) : context_(context) {}

  // Collective. Reads the filemaps that earlier runs left on this node and deals them out to the
  // processes of the node: what a rank wrote goes to the process with that rank, if it is here, the
  // rest evenly. Every process then has a filemap file of its own under a new name; the master
  // filemap, replaced atomically, switches from the old ones to the new, so no instant loses an
  // entry.
  Status start();

  const Filemap& filemap() const { return filemap_; }

  // Changes the entry by `change(entry)` and writes the filemap; on failure the entry is as before.
  template <typename Change>
  Status update(int rank, int dataset, Change change) {
    std::optional<FilemapEntry> before;
    if (const FilemapEntry* entry = filemap_.get(rank, dataset)) before = *entry;
    change(filemap_.at(rank, dataset));
    Status status = save();
    if (status.ok()) return status;
    if (before) {
      filemap_.at(rank, dataset) = *std::move(before);
    } else {
      filemap_.remove(rank, dataset);
    }
    return status;
  }

  // Lists one more file in an entry that exists; one that is listed already is fine. The cost does
  // not grow with the number of files: the file goes to the filemap's journal.
  Status add_file(int rank, int dataset, FileMeta meta);

  // Deletes the listed files of all hosted ranks in a dataset, then forgets them. What cannot be
  // deleted stays listed. Empty directories go too.
  Status remove_dataset(int dataset);
  // The same for one rank.
  Status remove_entry(int rank, int dataset);
  // Forgets an entry, but not its files: another process of this node has taken them over.
  Status forget(int rank, int dataset);

  // Ok if every listed file is there with its size and checksum known, and none is missing. A
  // failure that may_hide_sound_data() says that nobody knows.
  Status check_whole(int rank, int dataset) const;

  // Collective: not ok, on all ranks, if start() could not read some filemap of some node. Datasets
  // that only it lists are not known then.
  Status unreadable_filemap() const;
  // The user wants to do without what the cache holds.
  void give_up_unreadable() { unreadable_ = {}; }

 private:
  Status save();
  Status append(int rank, int dataset, const FileMeta& meta);
  Result<Filemap> read_node_filemaps(std::vector<std::string>& old_names,
                                     std::vector<std::string>& kept_names);
  Filemap deal_out(const Filemap& node_filemap);

  Context& context_;
  Filemap filemap_;
  Status unreadable_;  // the first filemap that could not be read; on the first process of a node
  std::string name_;   // of the filemap file in the control directory
  FilemapJournal journal_;
  // Names that the entry of the last add_file() lists; of no entry after a save().
  std::unordered_set<std::string> added_names_;
  std::pair<int, int> added_to_ = {-1, -1};  // rank, dataset
};

}  // namespace scr
