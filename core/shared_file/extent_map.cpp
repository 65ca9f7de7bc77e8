#include "core/shared_file/extent_map.hpp"

#include <algorithm>

namespace scr::shared_file {

namespace {

// The part of an extent in [begin, end).
Extent cut(const Extent& extent, std::uint64_t begin, std::uint64_t end) {
  Extent part = extent;
  part.offset = begin;
  part.length = end - begin;
  part.log_offset += begin - extent.offset;
  return part;
}

// One write that continues another in file and log.
bool continues(const Extent& first, const Extent& second) {
  return first.end() == second.offset && first.log_offset + first.length == second.log_offset &&
         first.stamp.rank == second.stamp.rank && first.stamp.epoch == second.stamp.epoch;
}

}  // namespace

ExtentMap::Map::const_iterator ExtentMap::first_at_or_before(std::uint64_t offset) const {
  auto next = extents_.upper_bound(offset);
  if (next != extents_.begin()) {
    auto before = std::prev(next);
    if (before->second.end() > offset) return before;
  }
  return next;
}

// Into a place that is free; joins its neighbours where it continues them.
void ExtentMap::put(const Extent& extent) {
  Extent joined = extent;
  auto next = extents_.lower_bound(extent.offset);
  if (next != extents_.begin()) {
    auto before = std::prev(next);
    if (continues(before->second, joined)) {
      const Stamp later = std::max(before->second.stamp, joined.stamp);
      joined = cut(before->second, before->second.offset, before->second.end());
      joined.length += extent.length;
      joined.stamp = later;
      extents_.erase(before);
    }
  }
  if (next != extents_.end() && continues(joined, next->second)) {
    joined.length += next->second.length;
    joined.stamp = std::max(joined.stamp, next->second.stamp);
    extents_.erase(next);
  }
  extents_[joined.offset] = joined;
}

void ExtentMap::insert(const Extent& extent) {
  if (extent.length == 0) return;
  if (truncations_.empty() && is_beyond(extent.offset)) {  // files mostly grow at their end
    if (!extents_.empty() && continues(extents_.rbegin()->second, extent)) {
      Extent& last = extents_.rbegin()->second;
      last.length += extent.length;
      last.stamp = std::max(last.stamp, extent.stamp);
    } else {
      extents_.emplace_hint(extents_.end(), extent.offset, extent);
    }
    return;
  }
  std::uint64_t end = extent.end();
  // Truncated since, by someone whose record came first.
  for (auto later = truncations_.upper_bound(extent.stamp); later != truncations_.end(); ++later) {
    end = std::min(end, std::max(later->second, extent.offset));
  }
  std::uint64_t position = extent.offset;
  while (position < end) {
    auto found = first_at_or_before(position);
    if (found == extents_.end() || found->second.offset >= end) {
      put(cut(extent, position, end));
      return;
    }
    const Extent old = found->second;
    if (old.offset > position) {
      put(cut(extent, position, old.offset));
      position = old.offset;
      continue;
    }
    const std::uint64_t stop = std::min(end, old.end());
    if (old.stamp < extent.stamp) {
      extents_.erase(old.offset);
      if (old.offset < position) put(cut(old, old.offset, position));
      if (stop < old.end()) put(cut(old, stop, old.end()));
      put(cut(extent, position, stop));
    }
    position = stop;
  }
}

void ExtentMap::truncate(std::uint64_t size, const Stamp& stamp) {
  truncations_[stamp] = size;
  std::vector<Extent> beyond;
  for (auto it = first_at_or_before(size); it != extents_.end(); ++it) beyond.push_back(it->second);
  for (const Extent& extent : beyond) {
    if (extent.stamp > stamp) continue;
    extents_.erase(extent.offset);
    if (extent.offset < size) put(cut(extent, extent.offset, size));
  }
}

std::vector<Piece> ExtentMap::find(std::uint64_t offset, std::uint64_t length,
                                   std::size_t most) const {
  std::vector<Piece> pieces;
  std::uint64_t position = offset;
  const std::uint64_t end = offset + length;
  for (auto it = first_at_or_before(offset); position < end && pieces.size() < most; ++it) {
    const bool none = it == extents_.end() || it->second.offset >= end;
    const std::uint64_t next = none ? end : it->second.offset;
    if (next > position) {
      pieces.push_back({position, next - position, std::nullopt});
      position = next;
    }
    if (none || pieces.size() == most) break;
    const std::uint64_t stop = std::min(end, it->second.end());
    pieces.push_back({position, stop - position, cut(it->second, position, stop)});
    position = stop;
  }
  return pieces;
}

std::uint64_t ExtentMap::size() const {
  const std::uint64_t written = extents_.empty() ? 0 : extents_.rbegin()->second.end();
  const std::uint64_t set = truncations_.empty() ? 0 : truncations_.rbegin()->second;
  return std::max(written, set);
}

void ExtentMap::for_each(const std::function<void(const Extent&)>& visit) const {
  for (const auto& [offset, extent] : extents_) visit(extent);
}

void ExtentMap::visit_from(std::uint64_t offset,
                           const std::function<bool(const Extent&)>& visit) const {
  for (auto it = extents_.lower_bound(offset); it != extents_.end(); ++it) {
    if (!visit(it->second)) return;
  }
}

void ExtentMap::clear() {
  extents_.clear();
  truncations_.clear();
}

}  // namespace scr::shared_file
