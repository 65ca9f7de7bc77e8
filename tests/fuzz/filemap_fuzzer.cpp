// Fuzzes filemaps behind the checksum of their file: any hash either gives a filemap that keeps all
// promises of Filemap::check() and comes back from its own hash, or an error; never a crash. All
// paths that come through are safe to use below a directory.
#include <cstdlib>

#include "core/base/filemap.hpp"
#include "core/base/path.hpp"

namespace {

void check_paths(const scr::FilemapEntry& entry) {
  for (const scr::FileMeta& meta : entry.files) {
    if (!scr::safe_relative_path(meta.file).ok()) std::abort();
  }
  if (!entry.directory.empty() && scr::normalize(entry.directory, "/") != entry.directory) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto filemap = scr::Filemap::from_hash(*hash);
  if (!filemap.ok()) return 0;
  if (!filemap->check().ok()) std::abort();
  const auto again = scr::Filemap::from_hash(filemap->to_hash());
  if (!again.ok() || !(*again == *filemap)) std::abort();
  scr::Filemap merged;
  merged.merge(*filemap);
  if (!(merged == *filemap)) std::abort();
  for (const int id : filemap->datasets()) {
    for (const int rank : filemap->ranks(id)) check_paths(*filemap->get(rank, id));
  }
  return 0;
}
