// The index of a prefix directory: `.scr/index.scr` lists every dataset that was brought there,
// whether it is complete, when it was flushed and fetched, which fetches failed, and which one is
// current. Beside it the link `scr.current` in the prefix directory names the current one; moved by
// hand, it wins. Format: docs/formats/index.md.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"

namespace scr::flush {

inline constexpr std::string_view kCurrentLinkName = "scr.current";

struct IndexEntry {
  std::string directory;  // below .scr, e.g. "scr.dataset.6" or "scr.dataset.6.1"
  DatasetDescriptor dataset;
  bool complete = false;
  std::string flushed;               // time, e.g. 2011-02-28T12:37:36; empty if not
  std::vector<std::string> fetched;  // times
  std::vector<std::string> failed;   // times of fetches that failed; not tried again

  int id() const { return dataset.id; }
  bool operator==(const IndexEntry&) const = default;
};

class Index {
 public:
  const std::vector<IndexEntry>& entries() const { return entries_; }  // newest first
  const IndexEntry* find_directory(const std::string& directory) const;
  IndexEntry* find_directory(const std::string& directory);
  // The newest copy of that name.
  const IndexEntry* find_name(const std::string& name) const;
  IndexEntry* find_name(const std::string& name);
  // Adds, or replaces one of the same directory.
  void put(IndexEntry entry);
  void remove(const std::string& directory);
  // A complete copy of this very dataset: its id alone may be that of another one.
  const IndexEntry* find_dataset(const DatasetDescriptor& dataset) const;
  // It was an entry, and was removed: deleted, dropped or superseded. An index that somebody wiped
  // out knows of none. The last thousand are remembered.
  bool has_left(const DatasetDescriptor& dataset) const;
  // Directories whose files are being deleted: none of them is an entry (flush/delete_dataset.hpp).
  const std::vector<std::string>& deletions() const { return deletions_; }
  void begin_deletion(const std::string& directory);
  void end_deletion(const std::string& directory);
  const std::string& current() const { return current_; }  // directory; empty if none
  void set_current(const std::string& directory);
  // A user's choice, made at that time (microseconds since the epoch): no dataset that was created
  // before becomes current by being flushed or scavenged.
  void choose_current(const std::string& directory, std::int64_t when);
  std::int64_t chosen() const { return chosen_; }  // 0: the current one is no choice of a user
  std::uint64_t generation() const { return generation_; }
  void next_generation() { ++generation_; }

  int last_id() const;
  // Checkpoints to try at a restart, in order: from the current one backwards; without a current
  // one that is a complete checkpoint from the newest. Complete ones whose fetch has not failed.
  std::vector<const IndexEntry*> restart_candidates() const;

  Hash to_hash() const;
  static Result<Index> from_hash(const Hash& hash);
  bool operator==(const Index&) const = default;

 private:
  void erase(const std::string& directory);

  std::vector<IndexEntry> entries_;
  std::vector<std::string> deletions_;
  std::set<std::pair<std::int64_t, int>> left_;  // times of creation and ids
  std::string current_;
  std::int64_t chosen_ = 0;
  std::uint64_t generation_ = 0;
};

// The present time as the index writes it (UTC).
std::string timestamp_now();

// The time of a choice that is made now: no dataset of the index is newer.
std::int64_t choice_time(const Index& index);

// kFailedPrecondition if no restart can begin with it.
Status check_restartable(const IndexEntry& entry);

// Reads the index of a prefix directory; one that is missing is empty. If the link scr.current was
// moved to another dataset of the index, that one is current.
Result<Index> read_index(FileSystem& fs, const std::string& prefix);

// Read, change, write under the lock `.scr/index.scr.lock`, durably; updates the link scr.current.
// A generation number guards against file systems whose locks do nothing: if someone else wrote in
// between, the change is made anew on what they wrote.
Status update_index(FileSystem& fs, const std::string& prefix,
                    const std::function<Status(Index&)>& change);

// The directory that the link scr.current names; empty if there is no such link.
std::string linked_dataset(FileSystem& fs, const std::string& prefix);

// Whether a user made a checkpoint current that is not the newest one, and did so after `since`
// (microseconds since the epoch): what was written later counts for more.
bool made_current_since(FileSystem& fs, const std::string& prefix, const Index& index,
                        std::int64_t since);

// If the index is damaged, gives it another name (index.scr.corrupt.<n>), so that a new one can be
// made; returns that name, empty if the index is sound or missing.
Result<std::string> set_damaged_index_aside(FileSystem& fs, const std::string& prefix);

// Takes a new directory `.scr/scr.dataset.<id>[.<n>]` by an exclusive mkdir; returns its name.
Result<std::string> make_dataset_directory(FileSystem& fs, const std::string& prefix, int id);

}  // namespace scr::flush
