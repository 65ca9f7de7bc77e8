// CRC-32 of data and files: the one of zlib and gzip, starting at 0, as the META files hold it.
//
// Computed by ISA-L at memory speed. crc32_combine() gives the checksum of two pieces laid end to
// end from the checksums of each, so that pieces may be summed in parallel or never read again.
// A Crc32 belongs to one thread at a time; the functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace scr {

// The checksum of a stream that comes in pieces.
class Crc32 {
 public:
  Crc32() = default;
  // Goes on from the checksum of what came before.
  explicit Crc32(std::uint32_t so_far) : value_(so_far) {}

  void update(std::span<const std::byte> data);
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

std::uint32_t crc32(std::span<const std::byte> data);

// The checksum of A followed by B, from those of A and B and the length of B, in O(log length).
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b);

// The text form in metadata: "0x" and eight lower-case digits, as 0x1b39e4e4. Reading takes one to
// eight digits of either case; anything else is kCorrupt.
std::string crc32_to_text(std::uint32_t crc);
Result<std::uint32_t> crc32_from_text(std::string_view text);

}  // namespace scr
