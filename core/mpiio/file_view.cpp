#include "core/mpiio/file_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace scr::mpiio {
namespace {

constexpr std::uint64_t kLargestOffset = std::numeric_limits<std::int64_t>::max();

mpi::FlatType one_byte() {
  mpi::FlatType type;
  type.owner = std::make_shared<const std::vector<mpi::ByteRange>>(1, mpi::ByteRange{0, 1});
  type.ranges = *type.owner;
  type.size = 1;
  type.extent = 1;
  return type;
}

Status check_order(const mpi::FlatType& filetype) {
  std::int64_t end = 0;
  for (const mpi::ByteRange& range : filetype.ranges) {
    if (range.offset < 0) return invalid_argument("a filetype has bytes before its start");
    if (range.offset < end) return invalid_argument("the bytes of a filetype are not in order");
    end = range.end();
  }
  if (filetype.extent < 0) return invalid_argument("a filetype has a negative extent");
  if (filetype.size > 0 && filetype.extent == 0)
    return invalid_argument("a filetype has no extent");
  return {};
}

std::shared_ptr<const std::vector<std::uint64_t>> sum_up(const mpi::FlatType& filetype) {
  if (filetype.ranges.size() < 2) return nullptr;
  std::vector<std::uint64_t> before;
  before.reserve(filetype.ranges.size());
  std::uint64_t sum = 0;
  for (const mpi::ByteRange& range : filetype.ranges) {
    before.push_back(sum);
    sum += range.length;
  }
  return std::make_shared<const std::vector<std::uint64_t>>(std::move(before));
}

Status too_far() {
  return invalid_argument("cannot reach that place: it is beyond the largest offset of MPI");
}

}  // namespace

FileView::FileView() : filetype_(one_byte()) {}

Result<FileView> FileView::make(std::uint64_t displacement, std::uint64_t etype_size,
                                const mpi::FlatType& filetype) {
  SCR_RETURN_IF_ERROR(check_order(filetype));
  if (etype_size == 0 ? filetype.size != 0 : filetype.size % etype_size != 0) {
    return invalid_argument(fmt::format("a filetype of {} bytes does not hold whole etypes of {}",
                                        filetype.size, etype_size));
  }
  FileView view;
  view.displacement_ = displacement;
  view.etype_size_ = etype_size;
  view.filetype_ = filetype;
  view.before_ = sum_up(filetype);
  return view;
}

FileView FileView::moved_to(std::uint64_t displacement) const {
  FileView view = *this;
  view.displacement_ = displacement;
  return view;
}

FileView::Place FileView::find(std::uint64_t position) const {
  const std::uint64_t tile = position / filetype_.size;
  const std::uint64_t rest = position % filetype_.size;
  if (!before_) return {tile, 0, rest};
  const auto after = std::upper_bound(before_->begin(), before_->end(), rest);
  const auto range = static_cast<std::size_t>(after - before_->begin()) - 1;
  return {tile, range, rest - (*before_)[range]};
}

Result<std::uint64_t> FileView::offset_of(std::uint64_t position) const {
  const Place place = find(position);
  const mpi::ByteRange& range = filetype_.ranges[place.range];
  std::uint64_t tile = 0;
  std::uint64_t offset = 0;
  if (__builtin_mul_overflow(place.tile, static_cast<std::uint64_t>(filetype_.extent), &tile) ||
      __builtin_add_overflow(tile, displacement_, &offset) ||
      __builtin_add_overflow(offset, static_cast<std::uint64_t>(range.offset), &offset) ||
      __builtin_add_overflow(offset, place.within, &offset) || offset > kLargestOffset) {
    return too_far();
  }
  return offset;
}

std::uint64_t FileView::positions_within(std::uint64_t file_size) const {
  if (file_size <= displacement_ || is_empty()) return 0;
  const std::uint64_t length = file_size - displacement_;
  const auto end = static_cast<std::uint64_t>(filetype_.ranges.back().end());
  const auto extent = static_cast<std::uint64_t>(filetype_.extent);
  const std::uint64_t whole = length < end ? 0 : (length - end) / extent + 1;
  std::uint64_t positions = whole * filetype_.size;
  for (const mpi::ByteRange& range : filetype_.ranges) {
    const std::uint64_t start = whole * extent + static_cast<std::uint64_t>(range.offset);
    if (start >= length) break;
    positions += std::min(range.length, length - start);
  }
  return positions;
}

// -------------------------------------------------------------------------------------------------

FileView::Walk::Walk(const FileView& view, std::uint64_t position, std::uint64_t bytes)
    : view_(&view), left_(bytes) {
  const Place place = bytes > 0 ? view.find(position) : Place{0, 0, 0};
  tile_ = view.offset_in(place.tile);
  range_ = place.range;
  within_ = place.within;
}

Result<FileView::Walk> FileView::Walk::start(const FileView& view, std::uint64_t position,
                                             std::uint64_t bytes) {
  if (bytes == 0) return Walk(view, 0, 0);
  if (view.is_empty()) return invalid_argument("the view holds no bytes of the file");
  std::uint64_t last = 0;
  if (__builtin_add_overflow(position, bytes - 1, &last)) return too_far();
  // The last byte of the last copy, for extents may be shorter than the data.
  const std::uint64_t size = view.filetype_.size;
  SCR_RETURN_IF_ERROR(view.offset_of(last).status());
  if (last / size < kLargestOffset / size)
    SCR_RETURN_IF_ERROR(view.offset_of(last / size * size + size - 1).status());
  return Walk(view, position, bytes);
}

std::uint64_t FileView::Walk::next(std::uint64_t most, std::size_t most_ranges,
                                   std::vector<shared_file::Range>& ranges) {
  ranges.clear();
  const mpi::FlatType& type = view_->filetype_;
  const std::uint64_t wanted = std::min(most, left_);
  if (wanted == 0) return 0;
  if (type.is_contiguous) {
    const auto start = tile_ + static_cast<std::uint64_t>(type.ranges[0].offset) + within_;
    ranges.push_back({start, wanted});
    within_ += wanted;  // beyond one copy, which for such a type is the same
    left_ -= wanted;
    return wanted;
  }
  std::uint64_t done = 0;
  while (done < wanted) {
    const mpi::ByteRange& range = type.ranges[range_];
    const std::uint64_t start = tile_ + static_cast<std::uint64_t>(range.offset) + within_;
    const std::uint64_t length = std::min(range.length - within_, wanted - done);
    if (!ranges.empty() && ranges.back().end() == start) {
      ranges.back().length += length;
    } else if (ranges.size() < most_ranges) {
      ranges.push_back({start, length});
    } else {
      break;
    }
    done += length;
    within_ += length;
    if (within_ < range.length) break;
    within_ = 0;
    if (++range_ == type.ranges.size()) {
      range_ = 0;
      tile_ += static_cast<std::uint64_t>(type.extent);
    }
  }
  left_ -= done;
  return done;
}

}  // namespace scr::mpiio
