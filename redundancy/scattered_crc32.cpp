#include "redundancy/scattered_crc32.hpp"

#include "core/base/checksum.hpp"

namespace scr::redundancy {

void ScatteredCrc32::update(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  auto node = streams_.extract(offset);
  Stream stream = node.empty() ? Stream{offset, 0} : node.mapped();
  Crc32 crc(stream.crc);
  crc.update(bytes);
  stream.crc = crc.value();
  streams_.insert_or_assign(offset + bytes.size(), stream);
}

std::optional<std::uint32_t> ScatteredCrc32::value(std::uint64_t size) const {
  std::uint64_t end = 0;
  std::uint32_t crc = 0;
  for (const auto& [next, stream] : streams_) {
    if (stream.begin != end) return std::nullopt;
    crc = crc32_combine(crc, stream.crc, next - stream.begin);
    end = next;
  }
  if (end != size) return std::nullopt;
  return crc;
}

}  // namespace scr::redundancy
