#include "core/mpi/range_list.hpp"

#include <fmt/format.h>

namespace scr::mpi {

Status too_many_ranges() {
  return Status(
      StatusCode::kFailedPrecondition,
      fmt::format("cannot take a datatype or a transfer apart: it has more than {} pieces; "
                  "use datatypes with longer blocks, or more and smaller calls",
                  kMostRanges));
}

void RangeList::add(const ByteRange& range) {
  if (range.length == 0) return;
  if (!ranges_.empty() && ranges_.back().end() == range.offset) {
    ranges_.back().length += range.length;
  } else {
    ranges_.push_back(range);
  }
}

Status RangeList::add_copies(const std::vector<ByteRange>& piece, std::uint64_t count,
                             std::int64_t stride, std::int64_t at) {
  if (piece.empty() || count == 0) return {};
  const ByteRange& first = piece.front();
  const bool copies_touch = piece.back().end() == first.offset + stride;
  if (piece.size() == 1 && (copies_touch || count == 1)) {
    add({first.offset + at, first.length * count});
    return {};
  }
  const std::uint64_t new_per_copy = piece.size() - (copies_touch ? 1 : 0);
  const std::uint64_t room = kMostRanges - ranges_.size();
  if (count > room || new_per_copy * count > room) return too_many_ranges();
  for (std::uint64_t i = 0; i < count; ++i, at += stride) {
    for (const ByteRange& range : piece) add({range.offset + at, range.length});
  }
  return {};
}

}  // namespace scr::mpi
