#include "core/routing/hdf5_superblock.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace scr::routing {

namespace {

// The superblock of version 3, in bytes from its start: signature, version, size of an address,
// size of a length, flags, four addresses, checksum.
constexpr std::string_view kSignature("\211HDF\r\n\032\n", 8);
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kAddressSizeAt = 9;
constexpr std::size_t kFlagsAt = 11;
constexpr std::size_t kAddressesAt = 12;
constexpr std::size_t kLargestAddress = 32;
constexpr std::size_t kChecksumSize = 4;
constexpr std::byte kVersion{3};

std::uint32_t number_at(std::span<const std::byte> bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = std::min<std::size_t>(bytes.size(), 4); i > 0; --i)
    number = (number << 8U) | std::to_integer<std::uint32_t>(bytes[i - 1]);
  return number;
}

// The checksum of HDF5's metadata: Bob Jenkins' lookup3, for little-endian bytes and the initial
// value 0.
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 12;
  std::uint32_t a = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add = [&](std::span<const std::byte> block) {
    const auto part = [&](std::size_t at) {
      return at < block.size() ? number_at(block.subspan(at)) : 0;
    };
    a += part(0);
    b += part(4);
    c += part(8);
  };
  const auto turn = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int by) {
    x -= z;
    x ^= std::rotl(z, by);
    z += y;
  };
  for (; bytes.size() > kBlock; bytes = bytes.subspan(kBlock)) {
    add(bytes.first(kBlock));
    turn(a, b, c, 4);
    turn(b, c, a, 6);
    turn(c, a, b, 8);
    turn(a, b, c, 16);
    turn(b, c, a, 19);
    turn(c, a, b, 4);
  }
  if (bytes.empty()) return c;
  add(bytes);
  const auto end = [](std::uint32_t& x, std::uint32_t y, int by) {
    x ^= y;
    x -= std::rotl(y, by);
  };
  end(c, b, 14);
  end(a, c, 11);
  end(b, a, 25);
  end(c, b, 16);
  end(a, c, 4);
  end(b, a, 14);
  end(c, b, 24);
  return c;
}

// Behind a user block, whose size is 0 or a power of two from 512 on. Its start, or the end of the
// file.
Result<std::uint64_t> find_superblock(File& file, std::uint64_t size) {
  for (std::uint64_t at = 0; at + kSignature.size() <= size; at = at == 0 ? 512 : 2 * at) {
    std::array<std::byte, kSignature.size()> head{};
    SCR_RETURN_IF_ERROR(file.read_exactly(head, at));
    if (std::ranges::equal(head, std::as_bytes(std::span(kSignature)))) return at;
  }
  return size;
}

}  // namespace

Status clear_open_flag(File& file) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, file.info());
  SCR_ASSIGN_OR_RETURN(const std::uint64_t start, find_superblock(file, info.size));
  std::vector<std::byte> block(kAddressesAt + 4 * kLargestAddress + kChecksumSize);
  SCR_ASSIGN_OR_RETURN(const std::size_t count, file.read(block, start));
  if (count < kAddressesAt || block[kVersionAt] != kVersion || block[kFlagsAt] == std::byte{0})
    return {};
  const std::size_t address = std::to_integer<std::size_t>(block[kAddressSizeAt]);
  const std::size_t summed = kAddressesAt + 4 * address;
  if (address > kLargestAddress || count < summed + kChecksumSize) return {};
  const std::span all(block);
  if (number_at(all.subspan(summed)) != lookup3(all.first(summed))) return {};
  block[kFlagsAt] = std::byte{0};
  const std::uint32_t sum = lookup3(all.first(summed));
  for (std::size_t i = 0; i < kChecksumSize; ++i)
    block[summed + i] = static_cast<std::byte>(sum >> (8 * i));
  return file.write_all(all.first(summed + kChecksumSize), start);
}

}  // namespace scr::routing
