// Fuzzes the journal of a filemap, both as bytes and behind the checksum of a record: whatever it
// says, the filemap still keeps all promises of Filemap::check().
#include <cstdlib>

#include "core/base/filemap_journal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  scr::Filemap filemap;
  filemap.at(0, 1).directory = "/cache/dataset.1";
  scr::apply_journal(bytes, filemap);
  if (const auto hash = scr::Hash::unpack(bytes); hash.ok()) {
    if (const auto record = scr::encode_hash_file(*hash); record.ok()) {
      scr::apply_journal(*record, filemap);
    }
  }
  if (!filemap.check().ok()) std::abort();
  return 0;
}
