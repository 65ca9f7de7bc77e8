#include "core/base/holes.hpp"

#include <isa-l/mem_routines.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace scr {

namespace {

// ISA-L's function takes a pointer to what may change, and changes nothing.
bool is_zero(std::span<const std::byte> data) {
  return isal_zero_detect(const_cast<std::byte*>(data.data()), data.size()) == 0;
}

}  // namespace

Status write_with_holes(File& to, std::span<const std::byte> data, std::uint64_t offset) {
  constexpr std::size_t kPage = 4096;
  if (data.size() <= kPage || !is_zero(data)) return to.write_all(data, offset);
  SCR_ASSIGN_OR_RETURN(const FileInfo info, to.info());
  if (info.size > offset) return to.write_all(data, offset);
  // Not truncate(): it would cut off what another process has just written beyond.
  const std::size_t skipped = data.size() - kPage;
  return to.write_all(data.subspan(skipped), offset + skipped);
}

Status visit_nonzero(
    std::span<const std::byte> data,
    const std::function<Status(std::size_t position, std::span<const std::byte> piece)>& visit) {
  constexpr std::size_t kBlock = std::size_t{64} << 10U;
  std::size_t begin = 0;  // of what is to be visited
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const std::size_t length = std::min(kBlock, data.size() - at);
    if (!is_zero(data.subspan(at, length))) continue;
    if (at > begin) SCR_RETURN_IF_ERROR(visit(begin, data.subspan(begin, at - begin)));
    begin = at + length;
  }
  return begin < data.size() ? visit(begin, data.subspan(begin)) : Status();
}

std::uint64_t next_data(const File& file, std::uint64_t offset, std::uint64_t end) {
  if (file.descriptor() < 0) return offset;
  const off_t found = ::lseek(file.descriptor(), static_cast<off_t>(offset), SEEK_DATA);
  if (found < 0) return errno == ENXIO ? end : offset;  // ENXIO: there is none
  return std::clamp(static_cast<std::uint64_t>(found), offset, end);
}

}  // namespace scr
