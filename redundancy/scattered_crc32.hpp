// ScatteredCrc32: the checksum of a file whose bytes come in several interleaved streams.
//
// Each stream is in order; which bytes come from which stream does not matter. This is how a file
// is summed while its chunks are worked on side by side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace scr::redundancy {

class ScatteredCrc32 {
 public:
  // `bytes` are those of the file from `offset` on. No byte may come twice.
  void update(std::uint64_t offset, std::span<const std::byte> bytes);
  // The checksum of the first `size` bytes; nothing if some of them have not come.
  std::optional<std::uint32_t> value(std::uint64_t size) const;

 private:
  struct Stream {
    std::uint64_t begin = 0;
    std::uint32_t crc = 0;
  };
  std::map<std::uint64_t, Stream> streams_;  // by the offset where they go on
};

}  // namespace scr::redundancy
