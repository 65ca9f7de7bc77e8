#include "redundancy/scattered_crc32.hpp"

#include "core/base/checksum.hpp"

namespace scr::redundancy {

void ScatteredCrc32::update(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  auto stream = streams_.extract(offset);
  if (stream.empty()) {
    stream = streams_.extract(streams_.emplace(offset, Stream{offset, 0}).first);
  }
  Crc32 crc(stream.mapped().crc);
  crc.update(bytes);
  stream.mapped().crc = crc.value();
  stream.key() = offset + bytes.size();
  streams_.insert(std::move(stream));
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
