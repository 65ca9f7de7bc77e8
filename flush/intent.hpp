// The intent: whose flush a dataset directory below .scr is for (flush.scr).
//
// Such a directory is in one of three states:
//   begun      flush.scr (whose it is) and a plan in rank2file; data under temporary names
//   committed  summary.scr is there: all data is durable, some of it perhaps not renamed yet
//   indexed    in the index, flush.scr gone
// What becomes of those that were cut is in clean_up.hpp (begun) and roll_forward.hpp (committed).
#pragma once

#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/hash_file.hpp"
#include "flush/supersede.hpp"

namespace scr::flush {

inline constexpr std::string_view kIntentName = "flush.scr";

// Whose flush it is, and how the data will be laid out there.
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
Status remove_intent(FileSystem& fs, const std::string& directory);

// Directories of flushes of this very dataset, begun or committed.
Result<std::vector<std::string>> directories_of(FileSystem& fs, const std::string& prefix,
                                                const DatasetDescriptor& dataset);
// The directory of a flush of this very dataset that was begun and not committed; empty if there is
// none.
Result<std::string> find_intent(FileSystem& fs, const std::string& prefix,
                                const DatasetDescriptor& dataset);

}  // namespace scr::flush
