// Scavenge: makes a dataset of the prefix directory out of what scr_copy has brought there from the
// nodes. One process, without MPI.
//
//   begin     takes a dataset directory below .scr, or that of a flush or scavenge that was cut
//   (scr_copy on every node, scan: scan.hpp)
//   rebuild   makes the files of ranks that are missing, from redundancy data
//   commit    writes rank2file and summary, gives the files their names, adds the dataset to the
//             index
// Killed at any instant, the same can be done again and goes on where it was; from the summary on
// the next run, or scavenge, ends it (intent.hpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flush/scan.hpp"

namespace scr::flush {

// The name of the directory, below .scr; nothing if the dataset is in the index already, or an
// earlier flush of it had only to be ended. `keep_newer` as in FlushOptions.
Result<std::optional<std::string>> begin_scavenge(FileSystem& fs, const std::string& prefix,
                                                  const DatasetDescriptor& dataset,
                                                  const Layout& layout, bool keep_newer = false);

struct RebuildOptions {
  // Only sets of this scheme, or with this id.
  std::optional<redundancy::Scheme> scheme = {};
  std::optional<int> set = {};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

// Rebuilds the files of all ranks that are missing, or of those that the options tell; returns
// these ranks. kUnrecoverable if not all of what is missing can be; nothing is written then.
Result<std::vector<int>> rebuild_missing(FileSystem& fs, const std::string& prefix,
                                         const std::string& name, const Scan& scan,
                                         const RebuildOptions& options = {});

// kFailedPrecondition, and nothing is done, if ranks are missing.
Status commit_scavenge(FileSystem& fs, const std::string& prefix, const std::string& name);

}  // namespace scr::flush
