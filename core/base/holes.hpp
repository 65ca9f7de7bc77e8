// Files with holes: a copy has them, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/filesystem.hpp"

namespace scr {

// Writes like File::write_all(), but of zeros beyond the end of the file only the last ones. Others
// may write elsewhere in the file meanwhile.
Status write_with_holes(File& to, std::span<const std::byte> data, std::uint64_t offset);

}  // namespace scr
