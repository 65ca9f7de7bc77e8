#include "core/mpi/file_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/mpi/range_list.hpp"

namespace scr::mpi {
namespace {

constexpr std::int64_t kLargestOffset = std::numeric_limits<std::int64_t>::max();

Status bad_view(std::string_view why) {
  return invalid_argument(fmt::format("cannot set the file view: {}", why));
}

Status check_order(const FlatType& type, std::string_view name) {
  std::int64_t least = 0;
  for (const ByteRange& range : type.ranges) {
    if (range.offset < least) {
      return bad_view(
          fmt::format("the {} has a displacement ({}) that is negative or smaller than "
                      "the one before ({})",
                      name, range.offset, least));
    }
    least = range.offset;
  }
  return {};
}

Status check_sizes(const FlatType& etype, const FlatType& filetype) {
  if (filetype.size == 0) return {};
  if (etype.size == 0 || filetype.size % etype.size != 0) {
    return bad_view(
        fmt::format("the filetype ({} bytes) is not a whole number of etypes ({} bytes)",
                    filetype.size, etype.size));
  }
  if (filetype.extent <= 0) {
    return bad_view(
        fmt::format("the extent of the filetype ({}) is not positive", filetype.extent));
  }
  return {};
}

Status beyond_the_end(std::int64_t offset, std::uint64_t bytes) {
  return invalid_argument(fmt::format(
      "cannot reach {} bytes at offset {} of the file view: no file is that long", bytes, offset));
}

}  // namespace

FlatType FileView::whole_file() {
  FlatType type;
  type.owner = std::make_shared<const std::vector<ByteRange>>(1, ByteRange{0, 1});
  type.ranges = *type.owner;
  type.size = 1;
  type.extent = 1;
  return type;
}

Result<FileView> FileView::make(MPI_Offset displacement, MPI_Datatype etype,
                                MPI_Datatype filetype) {
  if (displacement < 0) {
    return bad_view(fmt::format("the displacement ({}) is negative", displacement));
  }
  SCR_ASSIGN_OR_RETURN(const FlatType flat_etype, flatten(etype));
  FileView view;
  SCR_ASSIGN_OR_RETURN(view.filetype_, flatten(filetype));
  SCR_RETURN_IF_ERROR(check_order(flat_etype, "etype"));
  SCR_RETURN_IF_ERROR(check_order(view.filetype_, "filetype"));
  SCR_RETURN_IF_ERROR(check_sizes(flat_etype, view.filetype_));
  view.displacement_ = displacement;
  view.etype_size_ = flat_etype.size;
  if (view.is_contiguous()) return view;
  view.starts_.reserve(view.filetype_.ranges.size());
  std::uint64_t start = 0;
  for (const ByteRange& range : view.filetype_.ranges) {
    view.starts_.push_back(start);
    start += range.length;
  }
  return view;
}

// A place in the stream: `skip` bytes into a range of the filetype, which lies at `base` then.
struct FileView::Position {
  std::size_t range = 0;
  std::uint64_t skip = 0;
  std::int64_t base = 0;
};

Result<FileView::Position> FileView::position_of(std::int64_t offset) const {
  if (offset < 0) {
    return invalid_argument(
        fmt::format("cannot go to offset {} of the file view: it is negative", offset));
  }
  std::uint64_t in_stream = 0;
  std::int64_t base = 0;
  if (__builtin_mul_overflow(offset, etype_size_, &in_stream)) return beyond_the_end(offset, 0);
  const std::uint64_t repetition = in_stream / filetype_.size;
  if (__builtin_mul_overflow(repetition, filetype_.extent, &base) ||
      __builtin_add_overflow(base, displacement_, &base) ||
      base > kLargestOffset - filetype_.ranges.back().end()) {
    return beyond_the_end(offset, 0);
  }
  const std::uint64_t within = in_stream % filetype_.size;
  if (is_contiguous()) return Position{0, within, base};
  const auto after = std::ranges::upper_bound(starts_, within);
  const auto range = static_cast<std::size_t>(std::distance(starts_.begin(), after)) - 1;
  return Position{range, within - starts_[range], base};
}

Result<std::vector<ByteRange>> FileView::map(std::int64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) return std::vector<ByteRange>();
  if (filetype_.size == 0) return beyond_the_end(offset, bytes);
  SCR_ASSIGN_OR_RETURN(Position at, position_of(offset));
  const auto place = [&] {
    return at.base + filetype_.ranges[at.range].offset + static_cast<std::int64_t>(at.skip);
  };
  if (bytes > static_cast<std::uint64_t>(kLargestOffset - place())) {
    return beyond_the_end(offset, bytes);
  }
  if (is_contiguous()) return std::vector<ByteRange>{{place(), bytes}};
  RangeList list;
  while (true) {
    const std::uint64_t length = std::min(filetype_.ranges[at.range].length - at.skip, bytes);
    list.add({place(), length});
    bytes -= length;
    if (bytes == 0) return list.take();
    if (list.ranges().size() == kMostRanges) return too_many_ranges();
    at.skip = 0;
    if (++at.range < filetype_.ranges.size()) continue;
    at.range = 0;
    if (__builtin_add_overflow(at.base, filetype_.extent, &at.base) ||
        at.base > kLargestOffset - filetype_.ranges.back().end()) {
      return beyond_the_end(offset, bytes);
    }
  }
}

Result<std::int64_t> FileView::byte_offset(std::int64_t offset) const {
  if (filetype_.size == 0) return displacement_;
  SCR_ASSIGN_OR_RETURN(const Position at, position_of(offset));
  return at.base + filetype_.ranges[at.range].offset + static_cast<std::int64_t>(at.skip);
}

std::int64_t FileView::etypes_up_to(std::int64_t file_bytes) const {
  if (filetype_.size == 0) return 0;
  const std::int64_t first = displacement_ + filetype_.ranges.front().offset;
  if (file_bytes <= first) return 0;
  if (is_contiguous()) {
    const auto visible = static_cast<std::uint64_t>(file_bytes - first);
    return static_cast<std::int64_t>((visible + etype_size_ - 1) / etype_size_);
  }
  // The last repetition that begins inside the file, and the last of its ranges that does.
  const std::int64_t repetition = (file_bytes - 1 - first) / filetype_.extent;
  const std::int64_t end = file_bytes - displacement_ - repetition * filetype_.extent;
  const auto after = std::ranges::lower_bound(filetype_.ranges, end, {}, &ByteRange::offset);
  const auto range = static_cast<std::size_t>(std::distance(filetype_.ranges.begin(), after)) - 1;
  const ByteRange& last = filetype_.ranges[range];
  const std::uint64_t visible =
      starts_[range] + std::min(last.length, static_cast<std::uint64_t>(end - last.offset));
  const auto etypes_each = static_cast<std::int64_t>(filetype_.size / etype_size_);
  return repetition * etypes_each +
         static_cast<std::int64_t>((visible + etype_size_ - 1) / etype_size_);
}

bool FileView::may_overlap() const {
  if (filetype_.size == 0) return false;
  const auto& ranges = filetype_.ranges;
  const auto meets_next = [](const ByteRange& a, const ByteRange& b) { return a.end() > b.offset; };
  return std::ranges::adjacent_find(ranges, meets_next) != ranges.end() ||
         ranges.back().end() > ranges.front().offset + filetype_.extent;
}

}  // namespace scr::mpi
