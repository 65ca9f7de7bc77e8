#include "core/mpiio/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

namespace scr::mpiio {
namespace {

using shared_file::Range;
using shared_file::SharedFile;

constexpr std::size_t kMostRanges = 65536;                    // for one call of the file
constexpr std::uint64_t kCopySize = std::uint64_t{4} << 20U;  // of scattered memory

// The bytes of a buffer one after the other, by pieces that lie together.
class MemoryWalk {
 public:
  explicit MemoryWalk(const Buffer& buffer) : buffer_(buffer) {}

  // Calls move(address, length) for each piece of the next `bytes` bytes.
  template <typename Move>
  void next(std::uint64_t bytes, Move move) {
    while (bytes > 0) {
      const mpi::ByteRange& range = buffer_.type.ranges[range_];
      const std::uint64_t length = std::min(range.length - within_, bytes);
      move(address(element_ + range.offset + static_cast<std::int64_t>(within_)), length);
      bytes -= length;
      within_ += length;
      if (within_ < range.length) return;
      within_ = 0;
      if (++range_ == buffer_.type.ranges.size()) {
        range_ = 0;
        element_ += buffer_.type.extent;
      }
    }
  }

 private:
  // By numbers, for MPI_BOTTOM may be a null pointer, to which C++ allows nothing to be added.
  std::byte* address(std::int64_t offset) const {
    const auto number =
        reinterpret_cast<std::uintptr_t>(buffer_.address) + static_cast<std::uintptr_t>(offset);
    return reinterpret_cast<std::byte*>(number);  // NOLINT(performance-no-int-to-ptr)
  }

  const Buffer& buffer_;
  std::int64_t element_ = 0;
  std::size_t range_ = 0;
  std::uint64_t within_ = 0;
};

// Calls piece(ranges, length, position in the stream) for the whole buffer; stops at false.
template <typename Piece>
Status for_each_piece(const FileView& view, std::uint64_t position, std::uint64_t bytes,
                      std::uint64_t most, Piece piece) {
  auto walk = FileView::Walk::start(view, position, bytes);
  if (!walk.ok()) return walk.status();
  std::vector<Range> ranges;
  std::uint64_t done = 0;
  while (const std::uint64_t length = walk->next(most, kMostRanges, ranges)) {
    SCR_ASSIGN_OR_RETURN(const bool go_on, piece(std::span<const Range>(ranges), length, done));
    if (!go_on) break;
    done += length;
  }
  return {};
}

std::uint64_t largest_piece(bool together) {
  return together ? std::numeric_limits<std::uint64_t>::max() : kCopySize;
}

std::vector<std::byte> scratch_for(const Buffer& buffer, bool together) {
  return std::vector<std::byte>(together ? 0 : std::min(buffer.bytes(), kCopySize));
}

}  // namespace

Status write(SharedFile& file, const FileView& view, std::uint64_t position, const Buffer& buffer) {
  const bool together = mpi::is_contiguous_in_memory(buffer.count, buffer.type);
  const std::byte* start = mpi::start_in_memory(buffer.address, buffer.type);
  std::vector<std::byte> scratch = scratch_for(buffer, together);
  MemoryWalk memory(buffer);
  return for_each_piece(
      view, position, buffer.bytes(), largest_piece(together),
      [&](std::span<const Range> ranges, std::uint64_t length, std::uint64_t at) -> Result<bool> {
        if (!together) {
          std::byte* to = scratch.data();
          memory.next(length, [&to](const std::byte* from, std::uint64_t n) {
            std::memcpy(to, from, n);
            to += n;
          });
        }
        SCR_RETURN_IF_ERROR(file.write(ranges, {together ? start + at : scratch.data(), length}));
        return true;
      });
}

Result<std::uint64_t> read(SharedFile& file, const FileView& view, std::uint64_t position,
                           const Buffer& buffer) {
  const bool together = mpi::is_contiguous_in_memory(buffer.count, buffer.type);
  std::byte* start = mpi::start_in_memory(buffer.address, buffer.type);
  std::vector<std::byte> scratch = scratch_for(buffer, together);
  MemoryWalk memory(buffer);
  std::uint64_t total = 0;
  SCR_RETURN_IF_ERROR(for_each_piece(
      view, position, buffer.bytes(), largest_piece(together),
      [&](std::span<const Range> ranges, std::uint64_t length, std::uint64_t at) -> Result<bool> {
        SCR_ASSIGN_OR_RETURN(const std::uint64_t found,
                             file.read(ranges, {together ? start + at : scratch.data(), length}));
        if (!together) {
          const std::byte* from = scratch.data();
          memory.next(found, [&from](std::byte* to, std::uint64_t n) {
            std::memcpy(to, from, n);
            from += n;
          });
        }
        total += found;
        return found == length;
      }));
  return total;
}

}  // namespace scr::mpiio
