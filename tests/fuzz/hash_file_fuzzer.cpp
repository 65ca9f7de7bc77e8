// Fuzzes hash files. The CRC32 would stop nearly every mutation at the door, so the fuzzer also
// tries each input with its length and checksum put right, which reaches the code behind it.
#include <cstdlib>

#include "core/base/byte_order.hpp"
#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"

namespace {

void put_right(std::vector<std::byte>& bytes) {
  std::vector<std::byte> field;
  scr::append_big_endian(field, static_cast<std::uint64_t>(bytes.size()));
  std::copy(field.begin(), field.end(), bytes.begin() + 8);
  field.clear();
  scr::append_big_endian(field, scr::crc32(std::span(bytes).first(bytes.size() - 4)));
  std::copy(field.begin(), field.end(), bytes.end() - 4);
}

void check(std::span<const std::byte> bytes) {
  auto hash = scr::decode_hash_file(bytes, "fuzz");
  if (!hash.ok()) return;
  auto encoded = scr::encode_hash_file(*hash);
  if (!encoded.ok() || !std::equal(encoded->begin(), encoded->end(), bytes.begin(), bytes.end())) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto input = std::as_bytes(std::span(data, size));
  check(input);
  if (size < scr::kHashFileHeaderSize + 8) return 0;
  std::vector<std::byte> bytes(input.begin(), input.end());
  put_right(bytes);
  check(bytes);
  return 0;
}
