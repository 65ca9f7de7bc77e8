// RangeList: byte ranges in the order they are added, with neighbours made one.
//
// Adding copies of what is one run of bytes costs one step, not one per copy.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/mpi/datatype.hpp"

namespace scr::mpi {

class RangeList {
 public:
  void add(const ByteRange& range);
  // `count` copies of `piece`, which must be made by a RangeList: the first moved by `at` bytes,
  // each of the others by `stride` more. Fails, with nothing added, if the list would grow too
  // long.
  Status add_copies(const std::vector<ByteRange>& piece, std::uint64_t count, std::int64_t stride,
                    std::int64_t at);

  const std::vector<ByteRange>& ranges() const { return ranges_; }
  std::vector<ByteRange> take() { return std::move(ranges_); }

 private:
  std::vector<ByteRange> ranges_;
};

// The refusal of more than kMostRanges.
Status too_many_ranges();

}  // namespace scr::mpi
