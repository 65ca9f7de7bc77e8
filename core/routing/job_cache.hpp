// Reading another process's cached files on this node, without being part of its job: a serial
// program that was killed and starts again, or a command that looks into the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"

namespace scr::routing {

struct CachedFile {
  DatasetDescriptor dataset;
  std::string path;
  std::uint64_t size = 0;
  std::optional<std::uint32_t> crc = {};  // none: closed, but not sealed yet
  bool flushed = false;                   // its dataset is in the prefix directory, too
};

// Names of the jobs of a user on this node whose id is `job_id`, or begins with it and a dot (the
// slots of processes that work alone).
std::vector<std::string> jobs_on_node(FileSystem& fs, const std::string& control_base,
                                      const std::string& user, const std::string& job_id);

// The file of that relative name in the newest complete dataset of a job, or in the one that was
// created at `unsealed` (microseconds, 0: none), which need not be complete. Nothing if there is
// none. Trusts only directories that are this user's own.
Result<std::optional<CachedFile>> find_cached_file(FileSystem& fs, const std::string& control_base,
                                                   const std::string& user,
                                                   const std::string& job_id,
                                                   const std::string& relative,
                                                   std::int64_t unsealed = 0);

// Reads it in full, once a process, and compares its checksum; kCorrupt names the file.
Status verify_cached_file(FileSystem& fs, const CachedFile& file);

}  // namespace scr::routing
