#include "core/base/holes.hpp"

#include <isa-l/mem_routines.h>

namespace scr {

Status write_with_holes(File& to, std::span<const std::byte> data, std::uint64_t offset) {
  constexpr std::size_t kPage = 4096;
  // ISA-L's function takes a pointer to what may change, and changes nothing.
  void* bytes = const_cast<std::byte*>(data.data());
  if (data.size() <= kPage || isal_zero_detect(bytes, data.size()) != 0)
    return to.write_all(data, offset);
  SCR_ASSIGN_OR_RETURN(const FileInfo info, to.info());
  if (info.size > offset) return to.write_all(data, offset);
  // Not truncate(): it would cut off what another process has just written beyond.
  const std::size_t skipped = data.size() - kPage;
  return to.write_all(data.subspan(skipped), offset + skipped);
}

}  // namespace scr
