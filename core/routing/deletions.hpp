// Files that a program deleted while they were only in the cache, and that a flush has brought to
// their names after all: by a run that did not live to see it, or by a command that saves the
// datasets of one (scr_postrun). Not collective; no program may be at work in the prefix directory.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "core/routing/marker.hpp"

namespace scr::routing {

// The program has deleted this file of the dataset, last changed at `written`, or has renamed
// another one to its name.
Result<bool> is_deleted(FileSystem& fs, const std::string& prefix, const std::string& relative,
                        const DatasetDescriptor& dataset, std::int64_t written);

// A file of the one time can be the copy, by a flush, of one that was last changed at `written`.
bool is_time_of_copy(std::int64_t mtime_ns, std::int64_t written);

// Takes the file of a note away, if it is at its name: another one, older or newer, stays there.
Status take_away(FileSystem& fs, const std::string& prefix, const Marker& deleted);

// The same for all files of these datasets (id and time of creation) that notes call deleted. In
// containers they stay, and so do the notes, by which nobody finds them.
Status take_away_deleted(FileSystem& fs, const std::string& prefix,
                         const std::set<std::pair<int, std::int64_t>>& flushed);

// Gives a file a time after all that was written before: what has been deleted under its name, or
// will be when the flush ends, is not taken for it.
Status make_newest(File& file, std::int64_t than);
Status make_newest(FileSystem& fs, const std::string& path);
// The same for all files of the directory `from` (absolute) that will have names, below `to`
// (relative), of files that were deleted.
Status outlive_deleted(FileSystem& fs, const std::string& prefix, const std::string& from,
                       const std::string& to);

}  // namespace scr::routing
