// The summary of a dataset in the prefix directory: `.scr/scr.dataset.<id>[.<n>]/summary.scr`.
// Written when all data is in place under temporary names; from then on the flush can be finished
// by anyone (docs/formats/summary.md).
#pragma once

#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"

namespace scr::flush {

inline constexpr std::string_view kSummaryName = "summary.scr";

// More is refused, by the writer and by readers: a number in a file is no reason to loop for ever.
inline constexpr std::uint64_t kMaxContainers = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxContainerParity = 128;

struct Summary {
  DatasetDescriptor dataset;
  bool complete = false;  // every file of every rank is there
  bool containers = false;
  std::uint64_t container_size = 0;  // bytes of each container but the last
  std::uint64_t container_count = 0;
  std::uint64_t container_parity = 0;      // parity containers for each group
  std::uint64_t stream_size = 0;           // bytes in all containers
  std::vector<std::uint32_t> parity_crcs;  // of each parity container

  Hash to_hash() const;
  static Result<Summary> from_hash(const Hash& hash);
  bool operator==(const Summary&) const = default;
};

Result<Summary> read_summary(FileSystem& fs, const std::string& directory);
Status write_summary(FileSystem& fs, const std::string& directory, const Summary& summary);

}  // namespace scr::flush
