// Fuzzes summaries behind the checksum of their file: what is accepted comes back from its own
// hash, its containers fit its size, and no number in it makes us count for ever.
#include <cstdlib>

#include "flush/parity.hpp"
#include "flush/summary.hpp"

namespace {

void check_containers(const scr::flush::Summary& summary) {
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < summary.container_count; ++i) {
    const std::uint64_t length = scr::flush::container_length(summary, i);
    if (length == 0 || length > summary.container_size) std::abort();
    total += length;
  }
  if (total != summary.stream_size) std::abort();
  if (summary.parity_crcs.size() != scr::flush::parity_container_count(summary)) std::abort();
  for (std::uint64_t i = 0; i < summary.parity_crcs.size(); ++i) {
    if (scr::flush::parity_container_length(summary, i) > summary.container_size) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto summary = scr::flush::Summary::from_hash(*hash);
  if (!summary.ok()) return 0;
  const auto again = scr::flush::Summary::from_hash(summary->to_hash());
  if (!again.ok() || !(*again == *summary)) std::abort();
  constexpr std::uint64_t kMost = 10000;  // more would only take time
  if (summary->containers && summary->container_count <= kMost) check_containers(*summary);
  return 0;
}
