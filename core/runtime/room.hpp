// How much may still be written to a store: free space of its device, the capacity the
// administrator gave it, and for a store in memory (/dev/shm) the memory limit of the job, since
// its files are the job's own memory.
#pragma once

#include <cstdint>

#include "core/base/filesystem.hpp"

namespace scr {

// `capacity` 0: no limit but the device's. `used` is what we already hold there.
Result<std::uint64_t> available_bytes(FileSystem& fs, const Directory& directory,
                                      std::uint64_t capacity, std::uint64_t used);

// Memory this process's control group may still take, if it has a limit. `root` is where control
// groups are mounted, `self` the file that names this process's group; parameters for tests.
std::optional<std::uint64_t> memory_left(FileSystem& fs, const std::string& root = "/sys/fs/cgroup",
                                         const std::string& self = "/proc/self/cgroup");

}  // namespace scr
