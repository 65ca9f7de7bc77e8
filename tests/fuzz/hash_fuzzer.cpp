// Fuzzes the packed form of a hash: any bytes either give a hash that packs to the same again, or
// an error; never a crash.
#include <cstdlib>

#include "core/base/hash.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  auto packed = hash->pack();
  if (!packed.ok() || packed->size() != size) std::abort();
  auto again = scr::Hash::unpack(*packed);
  if (!again.ok() || !(*again == *hash)) std::abort();
  hash->print_tree();
  return 0;
}
