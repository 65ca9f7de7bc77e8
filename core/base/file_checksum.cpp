#include "core/base/file_checksum.hpp"

#include <algorithm>

#include "core/base/checksum.hpp"

namespace scr {

Result<std::uint32_t> checksum_range(File& file, std::uint64_t offset, std::uint64_t length,
                                     std::span<std::byte> buffer) {
  Crc32 crc;
  for (std::uint64_t done = 0; done < length;) {
    const std::span<std::byte> part = buffer.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done)));
    SCR_RETURN_IF_ERROR(file.read_exactly(part, offset + done));
    crc.update(part);
    done += part.size();
  }
  return crc.value();
}

}  // namespace scr
