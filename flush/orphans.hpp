// Orphans: temporary files in the prefix directory that nobody lists any more.
//
// A dataset that goes past the cache (SCR_CACHE_BYPASS) is written to the prefix directory under
// temporary names, which only the node of each rank knows. When a node dies in the middle of it,
// the names of its files die with it; they lie beside those of other ranks.
#pragma once

#include <set>
#include <string>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"

namespace scr::flush {

// Removes the temporary files of this very dataset from directories of the prefix directory ("."
// is the prefix directory itself), unless the dataset is committed: then they are its data, and
// roll_forward() gives them their names. Not collective: one process, since directories may be
// large.
Status remove_orphans(FileSystem& fs, const std::string& prefix,
                      const std::set<std::string>& directories, const DatasetDescriptor& dataset);

}  // namespace scr::flush
