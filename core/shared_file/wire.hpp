// Numbers as bytes, little-endian, for messages and tables of shared files. A reader that runs over
// the end reads zeros and says so: every length is treated as hostile.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace scr::shared_file {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

// Its first bytes are the lowest ones, on any machine; the same the other way round.
inline std::uint64_t little_endian(std::uint64_t value) {
  return std::endian::native == std::endian::little ? value : __builtin_bswap64(value);
}

class WireWriter {
 public:
  WireWriter& u8(std::uint8_t value) { return put(value, 1); }
  WireWriter& u32(std::uint32_t value) { return put(value, 4); }
  WireWriter& u64(std::uint64_t value) { return put(value, 8); }
  WireWriter& text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  ByteView view() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  WireWriter& put(std::uint64_t value, std::size_t count) {
    const std::uint64_t bytes = little_endian(value);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + count);
    std::memcpy(bytes_.data() + at, &bytes, count);
    return *this;
  }
  Bytes bytes_;
};

class WireReader {
 public:
  explicit WireReader(ByteView bytes) : bytes_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(get(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(get(4)); }
  std::uint64_t u64() { return get(8); }
  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size(); }
  ByteView rest() const { return bytes_; }

 private:
  std::uint64_t get(std::size_t count) {
    if (bytes_.size() < count) {
      ok_ = false;
      bytes_ = {};
      return 0;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return little_endian(value);
  }
  ByteView bytes_;
  bool ok_ = true;
};

}  // namespace scr::shared_file
