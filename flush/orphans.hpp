// Orphans: temporary files in the prefix directory that nobody lists any more.
//
// A dataset that goes past the cache (SCR_CACHE_BYPASS) is written to the prefix directory under
// temporary names, which only the node of each rank knows. When a node dies in the middle of it,
// the names of its files die with it; they lie beside those of other ranks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "flush/clean_up.hpp"

namespace scr::flush {

// Removes the temporary files of this very dataset from directories of the prefix directory ("."
// is the prefix directory itself), unless the dataset is committed: then they are its data, and
// roll_forward() gives them their names. Not collective: one process, since directories may be
// large.
Status remove_orphans(FileSystem& fs, const std::string& prefix,
                      const std::set<std::string>& directories, const DatasetDescriptor& dataset);

// A temporary file of a dataset that is neither committed nor to be flushed on.
struct StrayFile {
  std::string file;  // below the prefix directory
  std::uint64_t size = 0;
};

// Looks for them in the whole prefix directory, however many files it has: remove_orphans() knows
// only where ranks of nodes that are left wrote to. Nobody may be writing there (flush/save.hpp,
// lock_prefix): a dataset that bypasses the cache has no other name while it is written. No
// symbolic link is followed.
//
// Those of flushes that were cut are somebody's, unless the caller gives them up: these are `cut`.
Result<std::vector<StrayFile>> find_strays(FileSystem& fs, const std::string& prefix,
                                           std::span<const CutFlush> cut = {});

// Removes them, and the directories that we made for them. `removed` gets those that are gone.
Status remove_strays(FileSystem& fs, const std::string& prefix,
                     const std::vector<StrayFile>& strays, std::vector<StrayFile>& removed);

}  // namespace scr::flush
