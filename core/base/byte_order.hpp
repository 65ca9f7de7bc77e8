// Integers in network byte order, as in every binary format of h5scr.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace scr {

template <std::unsigned_integral T>
void append_big_endian(std::vector<std::byte>& out, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// `bytes` must have at least sizeof(T) bytes.
template <std::unsigned_integral T>
T read_big_endian(std::span<const std::byte> bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | static_cast<T>(bytes[i]));
  }
  return value;
}

}  // namespace scr
