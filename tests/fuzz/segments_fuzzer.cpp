// Fuzzes lists of container segments. The first eight bytes are the size of the file, the rest is
// the hash. Then the same size is laid out in containers, as a flush does, which must come back as
// it was.
#include <cstdlib>
#include <cstring>

#include "core/base/path.hpp"
#include "flush/containers.hpp"

namespace {

void check(const std::vector<scr::flush::Segment>& segments, std::uint64_t size) {
  std::uint64_t total = 0;
  for (const auto& segment : segments) {
    if (!scr::safe_relative_path(segment.file).ok()) std::abort();
    if (segment.offset + segment.length < segment.offset) std::abort();
    total += segment.length;
  }
  if (total != size) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t length) {
  std::uint64_t size = 0;
  if (length < sizeof size) return 0;
  std::memcpy(&size, data, sizeof size);
  const auto bytes = std::as_bytes(std::span(data, length)).subspan(sizeof size);
  if (const auto hash = scr::Hash::unpack(bytes); hash.ok()) {
    const auto segments = scr::flush::segments_from_hash(*hash, size);
    if (segments.ok()) {
      check(*segments, size);
      const auto again =
          scr::flush::segments_from_hash(scr::flush::segments_to_hash(*segments), size);
      if (!again.ok() || *again != *segments) std::abort();
    }
  }
  const std::uint64_t small = size % 500;
  const auto placed = scr::flush::place_in_containers(size % 777, small, 1 + size % 311);
  check(placed, small);
  const auto back = scr::flush::segments_from_hash(scr::flush::segments_to_hash(placed), small);
  if (!back.ok() || *back != placed) std::abort();
  return 0;
}
