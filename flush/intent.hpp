// What a cut flush leaves behind, and what becomes of it.
//
// A dataset directory below .scr is in one of three states:
//   begun      flush.scr (whose it is) and a plan in rank2file; data under temporary names
//   committed  summary.scr is there: all data is durable, some of it perhaps not renamed yet
//   indexed    in the index, flush.scr gone
#pragma once

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
Status remove_intent(FileSystem& fs, const std::string& directory);
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

// Adds a committed dataset to the index, makes it current if it is complete and not older than the
// current one, removes what is left of those it supersedes, and ends its flush.
Status add_to_index(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const Summary& summary, const std::vector<Superseded>& superseded = {});

// Removes our own files of a dataset directory (summary, rank2file, containers, temporary ones),
// then the directory; what else is in it stays, and is named in the error.
Status remove_dataset_directory(FileSystem& fs, const std::string& prefix,
                                const std::string& directory_name);

}  // namespace scr::flush
