// Reads all that a dataset holds, in boxes of bounded size.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "vfd/reader/handle.hpp"

namespace scr::vfd {

using Coordinates = std::array<hsize_t, H5S_MAX_RANK>;

// A piece of an array.
struct Box {
  int rank = 0;  // 0: the one element of a scalar
  Coordinates start{};
  Coordinates count{};
  hsize_t elements() const;
};

// The boxes that cover what is stored, none larger than `most` elements unless that is one element:
// of a chunked dataset only the chunks that exist, so that a small file that claims to be huge is
// read in the time of a small one. Calls `visit` for each until one returns false; false then, and
// if HDF5 failed (take_error() says why).
bool for_each_box(hid_t dataset, hsize_t most, const std::function<bool(const Box&)>& visit);
// The same for the whole extent, chunk by chunk or not.
bool for_each_box_of_extent(hid_t space, hsize_t most,
                            const std::function<bool(const Box&)>& visit);

// Reads one box.
bool read_box(hid_t dataset, hid_t memory_type, const Box& box, void* buffer);

}  // namespace scr::vfd
