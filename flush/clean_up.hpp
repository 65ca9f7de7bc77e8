// Flushes and scavenges that were cut before their summary was written: taken up again, or removed
// with all they have written. Not collective.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "flush/intent.hpp"

namespace scr::flush {

// A flush, or scavenge, that was cut before its summary.
struct CutFlush {
  std::string directory;  // below .scr
  DatasetDescriptor dataset;
};
// Those of datasets that nobody wants them of any more, but for scavenges that have all that is
// needed: these stay for `scr_index --add`, as long as no newer checkpoint is complete, and a
// warning says so.
Result<std::vector<CutFlush>> find_cut(
    FileSystem& fs, const std::string& prefix,
    const std::function<bool(const DatasetDescriptor&)>& is_unwanted);
// Removes all that they have written. What was copied must be copied again if the dataset is
// flushed once more: only copies are lost.
Status remove_cut(FileSystem& fs, const std::string& prefix, std::span<const CutFlush> flushes);
// The same for what there is of this very dataset.
Status remove_cut_of(FileSystem& fs, const std::string& prefix, const DatasetDescriptor& dataset);

// Removes what flushes left that were cut before their summary, but for those of the datasets
// `keep` (by creation time), which will be taken up again, and those that find_cut() spares.
Status clean_up(FileSystem& fs, const std::string& prefix, std::span<const std::int64_t> keep);

// Makes the directory of a flush that was begun ready to go on with, as the next attempt. If its
// data is laid out in another way it cannot be used; then it is removed with all it has written: no
// intent.
Result<std::optional<Intent>> take_up(FileSystem& fs, const std::string& prefix,
                                      const std::string& directory_name, const std::string& layout,
                                      bool keep_newer = false);

// Removes what a scavenge needed besides the data: logs of shared files, then the rank filemaps,
// which list them, and redundancy files, but for those that its dataset lists once it is
// `committed`. Also for a scavenge that was cut, when a flush lays its copies out anew: what its
// lists say of them is not true any more.
Status remove_scavenge_files(FileSystem& fs, const std::string& prefix,
                             const std::string& directory_name, const DatasetDescriptor& dataset,
                             bool committed);

}  // namespace scr::flush
