// MPI_Pack and MPI_Unpack by way of flatten(): what a flat type says of a buffer is what MPI does.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "core/mpi/datatype.hpp"

namespace scr::mpi {

// By numbers, for MPI_BOTTOM may be a null pointer, to which C++ allows nothing to be added.
inline std::byte* address(const void* base, std::int64_t offset) {
  const auto number = reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(offset);
  return reinterpret_cast<std::byte*>(number);  // NOLINT(performance-no-int-to-ptr)
}

// Calls move(address in the buffer, position in the stream, length) for the first `bytes` bytes.
template <typename Move>
void for_each_piece(const void* buffer, const FlatType& type, std::uint64_t bytes, Move move) {
  std::uint64_t done = 0;
  for (std::int64_t at = 0; done < bytes; at += type.extent) {
    for (const ByteRange& range : type.ranges) {
      const std::uint64_t length = std::min(range.length, bytes - done);
      move(address(buffer, at + range.offset), done, length);
      done += length;
      if (done == bytes) break;
    }
  }
}

template <typename Move>
std::uint64_t transfer(const void* buffer, std::int64_t count, const FlatType& type,
                       std::uint64_t room, Move move) {
  const std::uint64_t bytes = std::min(static_cast<std::uint64_t>(count) * type.size, room);
  if (bytes == 0) return 0;
  if (is_contiguous_in_memory(count, type)) {
    move(start_in_memory(buffer, type), 0, bytes);
  } else {
    for_each_piece(buffer, type, bytes, move);
  }
  return bytes;
}

// Copies the bytes of `count` elements to `out`, or as many of the first as fit there. Returns how
// many those were.
inline std::uint64_t gather(const void* buffer, std::int64_t count, const FlatType& type,
                            std::span<std::byte> out) {
  return transfer(buffer, count, type, out.size(),
                  [&](const std::byte* memory, std::uint64_t position, std::uint64_t length) {
                    std::memcpy(out.data() + position, memory, length);
                  });
}

// The other way: `in` may hold less than `count` elements (a short read), or even a part of one;
// what it does not reach stays as it was.
inline std::uint64_t scatter(std::span<const std::byte> in, void* buffer, std::int64_t count,
                             const FlatType& type) {
  return transfer(buffer, count, type, in.size(),
                  [&](std::byte* memory, std::uint64_t position, std::uint64_t length) {
                    std::memcpy(memory, in.data() + position, length);
                  });
}

}  // namespace scr::mpi
