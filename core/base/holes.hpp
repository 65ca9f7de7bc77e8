// Files with holes: a copy has them, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/filesystem.hpp"

namespace scr {

// Writes like File::write_all(), but of zeros beyond the end of the file only the last ones. Others
// may write elsewhere in the file meanwhile.
Status write_with_holes(File& to, std::span<const std::byte> data, std::uint64_t offset);

// Visits what is left of the data without its blocks of zeros, in order.
Status visit_nonzero(
    std::span<const std::byte> data,
    const std::function<Status(std::size_t position, std::span<const std::byte> piece)>& visit);

// Where the next data of an open file is, from `offset` on; at most `end`. The offset itself where
// the file system cannot tell.
std::uint64_t next_data(const File& file, std::uint64_t offset, std::uint64_t end);

}  // namespace scr
