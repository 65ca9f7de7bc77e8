// Fuzzes blocks of rank2file behind the checksum of their file: what is accepted has ranks of the
// block only, paths that stay inside the prefix directory, segments that add up, and comes back
// from its own hash.
#include <cstdlib>

#include "core/base/path.hpp"
#include "flush/rank2file.hpp"

namespace {

void check_file(const scr::flush::StoredFile& file) {
  if (!scr::safe_relative_path(file.file).ok()) std::abort();
  std::uint64_t total = 0;
  for (const auto& segment : file.segments) {
    if (!scr::safe_relative_path(segment.file).ok()) std::abort();
    total += segment.length;
  }
  if (file.contained() && total != file.size) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  for (int block : {0, 1}) {
    const auto ranks = scr::flush::rank2file_block_from_hash(*hash, block);
    if (!ranks.ok()) continue;
    for (const auto& [rank, files] : *ranks) {
      if (rank / scr::flush::kRanksPerBlock != block || rank < 0) std::abort();
      for (const auto& file : files) check_file(file);
      const auto again = scr::flush::rank_files_from_hash(scr::flush::rank_files_to_hash(files));
      if (!again.ok() || *again != files) std::abort();
    }
  }
  return 0;
}
