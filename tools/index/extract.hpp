// Copies the files of a dataset out of containers, cache or prefix directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/index/dataset_files.hpp"

namespace scr::tools {

struct Extracted {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// kFailedPrecondition, with the ranks and what to do, if the dataset is only in the cache and this
// node has not the files of all ranks.
Status check_all_ranks(const DatasetRow& row);

// Makes the directory `to`, which must not exist yet or be empty, with the files at their relative
// paths. Every checksum is compared on the way. On failure there is nothing left of it.
Result<Extracted> extract_files(FileSystem& fs, const std::string& prefix,
                                const std::vector<DatasetFile>& files, const std::string& to,
                                const std::function<void(std::uint64_t files)>& progress);

}  // namespace scr::tools
