// What a cut flush leaves behind, and what becomes of it.
//
// A dataset directory below .scr is in one of three states:
//   begun      flush.scr (whose it is) and a plan in rank2file; data under temporary names
//   committed  summary.scr is there: all data is durable, some of it perhaps not renamed yet
//   indexed    in the index, flush.scr gone
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/hash_file.hpp"
#include "flush/summary.hpp"
#include "flush/supersede.hpp"

namespace scr::flush {

class Index;
struct IndexEntry;

// Whose flush a dataset directory is for, and how the data will be laid out there.
struct Intent {
  DatasetDescriptor dataset;
  std::string layout;
  std::int64_t attempt = 1;  // goes up when another run takes the flush up: copies for an earlier
                             // one are not wanted any more
  bool keep_newer = false;   // as in FlushOptions
  std::vector<Superseded> superseded;  // known when the flush is committed

  Hash to_hash() const;
  // kCorrupt if it names no dataset, or to be superseded what is no dataset directory.
  static Result<Intent> from_hash(const Hash& hash);
};
Result<Intent> read_intent(FileSystem& fs, const std::string& directory);
Status write_intent(FileSystem& fs, const std::string& directory, const Intent& intent,
                    Durability durability);
Result<bool> has_intent(FileSystem& fs, const std::string& directory);
// Makes durable what was written without being.
Status sync_intent(FileSystem& fs, const std::string& directory);
// The directory of a flush of this very dataset that was begun and not committed; empty if there is
// none.
Result<std::string> find_intent(FileSystem& fs, const std::string& prefix,
                                const DatasetDescriptor& dataset);

// Makes such a directory ready to go on with, as the next attempt. If its data is laid out in
// another way it cannot be used; then it is removed with all it has written: no intent.
Result<std::optional<Intent>> take_up(FileSystem& fs, const std::string& prefix,
                                      const std::string& directory_name, const std::string& layout,
                                      bool keep_newer = false);
// What a scavenge that was cut said of its copies there is not true any more, because a flush lays
// them out anew: removes its lists, and what it needed besides the data.
Status forget_scavenged(FileSystem& fs, const std::string& prefix,
                        const std::string& directory_name, const DatasetDescriptor& dataset);
// Ends a flush of this very dataset that was committed and not indexed. False if there is none.
Result<bool> roll_forward_dataset(FileSystem& fs, const std::string& prefix,
                                  const DatasetDescriptor& dataset);

// A flush that was committed and is not in the index: it was cut there, or failed.
struct Unended {
  std::string directory;  // below .scr
  DatasetDescriptor dataset;
};
// All of them, the newest first.
Result<std::vector<Unended>> find_unended(FileSystem& fs, const std::string& prefix,
                                          const Index& index);
// Ends one: gives its files their names, adds it to the index. Where a newer dataset of the index
// has the same names, that one's files stay, and this dataset goes as if it had been ended before:
// false. It is not called complete if one of its files is not there.
Result<bool> roll_forward_directory(FileSystem& fs, const std::string& prefix,
                                    const std::string& directory_name);

// Ends a committed flush whose files have their names: adds the dataset to the index, removes what
// is left of those it supersedes, and the intent. Where the intent is gone already another process
// has ended the flush; the index stays as it is then, for the dataset may have left it since.
Status end_flush(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                 const Summary& summary, const std::vector<Superseded>& superseded);
// What the flush of a dataset of the index has left to do, if it was cut, or failed, at the very
// last step. To be done before the dataset leaves the index: with its intent, a later start would
// take it for one to be ended, and bring it back.
Status end_last_step(FileSystem& fs, const std::string& prefix, const IndexEntry& entry);

// Ends all that flushes of datasets which are about to leave the index have left to do, so that
// they do not come back: those that were committed and did not reach the index, too.
Status end_flushes_of(FileSystem& fs, const std::string& prefix,
                      const std::function<bool(const DatasetDescriptor&)>& leaving);

// Adds a dataset that is whole in the prefix directory to the index, and makes it current if it is
// complete and not older than the current one.
Status add_to_index(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const Summary& summary);

// Removes our own files of a dataset directory (summary, rank2file, containers, temporary ones),
// then the directory; what else is in it stays, and is named in the error.
Status remove_dataset_directory(FileSystem& fs, const std::string& prefix,
                                const std::string& directory_name);

}  // namespace scr::flush
