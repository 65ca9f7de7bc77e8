// Fuzzes the small files that hold a number, behind the checksum of a hash file: the top of
// rank2file and the nodes file. What is accepted is a number that others may count to.
#include <cstdlib>

#include "core/base/nodes_file.hpp"
#include "flush/rank2file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  if (const auto ranks = scr::flush::rank_count_from_hash(*hash); ranks.ok()) {
    if (*ranks < 1) std::abort();
    const int blocks = scr::flush::rank2file_block_count(*ranks);
    if (blocks < 1 || (blocks - 1) > *ranks / scr::flush::kRanksPerBlock) std::abort();
  }
  if (const auto nodes = scr::nodes_from_hash(*hash); nodes.ok() && *nodes < 1) std::abort();
  return 0;
}
