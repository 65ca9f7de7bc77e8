// Fuzzes flush.scr, the intent of a flush, behind the checksum of its file: what it supersedes are
// names of dataset directories and nothing else (these are deleted), and what is accepted comes
// back from its own hash.
#include <cstdlib>

#include "core/base/path.hpp"
#include "flush/intent.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto intent = scr::flush::Intent::from_hash(*hash);
  if (!intent.ok()) return 0;
  for (const auto& old : intent->superseded) {
    if (!old.directory.starts_with("scr.dataset.")) std::abort();
    if (old.directory.find('/') != std::string::npos) std::abort();
    if (!scr::safe_relative_path(old.directory).ok()) std::abort();
  }
  const auto again = scr::flush::Intent::from_hash(intent->to_hash());
  if (!again.ok() || !(again->to_hash() == intent->to_hash())) std::abort();
  return 0;
}
