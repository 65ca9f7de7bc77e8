// Fetch: brings a dataset from the prefix directory to the cache, verified as it is read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/file_meta.hpp"
#include "core/mpi/communicator.hpp"
#include "flush/index.hpp"
#include "flush/rank2file.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

// Reads the files of one rank to `cache_directory`, whose filemap lists them already. From
// containers only the segments that are needed are read. kCorrupt names the file that is damaged.
// `progress`, if given, is called with the bytes read so far.
Status fetch_files(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                   const RankFiles& files, const std::string& cache_directory,
                   std::size_t buffer_size,
                   const std::function<void(std::uint64_t)>& progress = nullptr);
// Reads and verifies the files of one rank where they are.
Status verify_files(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const RankFiles& files, std::size_t buffer_size,
                    const std::function<void(std::uint64_t)>& progress = nullptr);

// Reads a dataset's files and compares every checksum, without writing anything. `progress`, if
// given, is called with the bytes read so far. The first damage of each file is added to
// `problems`.
Status verify_dataset(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                      const std::function<void(std::uint64_t)>& progress,
                      std::vector<std::string>& problems);

// Reads a whole file: its size and checksum.
Result<std::pair<std::uint64_t, std::uint32_t>> checksum_file(FileSystem& fs,
                                                              const std::string& path);
// Whether the plain file at `path` is the one that was flushed there. The time tells without
// reading that nobody has touched it since; a copy, or a file system that does not keep times,
// makes it worth a look at every byte.
Result<bool> is_flushed_file(FileSystem& fs, const std::string& path, const StoredFile& file);
// Reads a whole file and compares its checksum.
Result<bool> has_checksum(FileSystem& fs, const std::string& path, std::uint64_t size,
                          std::uint32_t crc);

}  // namespace scr::flush
