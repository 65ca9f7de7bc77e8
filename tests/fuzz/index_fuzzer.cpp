// Fuzzes the index behind the checksum of its file: what is accepted comes back from its own hash,
// names directories directly below .scr only, and offers only complete checkpoints for a restart.
#include <cstdlib>

#include "core/base/path.hpp"
#include "flush/index.hpp"

namespace {

bool is_safe(const std::string& directory) {
  return directory.find('/') == std::string::npos && scr::safe_relative_path(directory).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto index = scr::flush::Index::from_hash(*hash);
  if (!index.ok()) return 0;
  const auto again = scr::flush::Index::from_hash(index->to_hash());
  if (!again.ok() || !(*again == *index)) std::abort();
  scr::flush::Index copy;
  for (const auto& entry : index->entries()) {
    if (!is_safe(entry.directory)) std::abort();
    if (index->find_directory(entry.directory) != &entry) std::abort();
    copy.put(entry);
  }
  if (copy.entries() != index->entries()) std::abort();
  if (!index->current().empty() && !is_safe(index->current())) std::abort();
  for (const auto* entry : index->restart_candidates()) {
    if (!entry->complete || !entry->failed.empty() || !entry->dataset.is_checkpoint()) std::abort();
  }
  return 0;
}
