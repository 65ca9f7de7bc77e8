// Checksums of what is in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/filesystem.hpp"

namespace scr {

// The CRC-32 of a run of bytes, read a buffer at a time. An error if the file ends before it.
Result<std::uint32_t> checksum_range(File& file, std::uint64_t offset, std::uint64_t length,
                                     std::span<std::byte> buffer);

}  // namespace scr
