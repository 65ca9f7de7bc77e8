#include "flush/segmented_file.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace scr::flush {

SegmentedFile::SegmentedFile(std::string name, std::vector<Segment> segments)
    : name_(std::move(name)), segments_(std::move(segments)) {
  for (const Segment& segment : segments_) {
    starts_.push_back(size_);
    size_ += segment.length;
  }
}

Result<std::unique_ptr<SegmentedFile>> SegmentedFile::open(FileSystem& fs,
                                                           const Directory& directory,
                                                           std::string name,
                                                           std::vector<Segment> segments,
                                                           bool writable) {
  std::unique_ptr<SegmentedFile> file(new SegmentedFile(std::move(name), std::move(segments)));
  OpenOptions options = writable ? OpenOptions::read_write() : OpenOptions::read();
  options.create = writable;
  for (const Segment& segment : file->segments_) {
    if (file->containers_.contains(segment.file)) continue;
    SCR_ASSIGN_OR_RETURN(file->containers_[segment.file],
                         fs.open(At(directory, segment.file), options));
  }
  return file;
}

SegmentedFile::Spot SegmentedFile::spot_at(std::uint64_t offset, std::size_t length) const {
  if (offset >= size_ || length == 0) return {};
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  const auto index = static_cast<std::size_t>(after - starts_.begin()) - 1;
  const Segment& segment = segments_[index];
  const std::uint64_t into = offset - starts_[index];
  Spot spot;
  spot.container = containers_.at(segment.file).get();
  spot.offset = segment.offset + into;
  spot.length = static_cast<std::size_t>(std::min<std::uint64_t>(length, segment.length - into));
  return spot;
}

Result<std::size_t> SegmentedFile::read_some(std::span<std::byte> buffer, std::uint64_t offset) {
  const Spot spot = spot_at(offset, buffer.size());
  if (spot.container == nullptr) return std::size_t{0};
  return spot.container->read_some(buffer.first(spot.length), spot.offset);
}

Result<std::size_t> SegmentedFile::write_some(std::span<const std::byte> data,
                                              std::uint64_t offset) {
  const Spot spot = spot_at(offset, data.size());
  if (spot.container == nullptr) return refused("written behind its end");
  return spot.container->write_some(data.first(spot.length), spot.offset);
}

Result<FileInfo> SegmentedFile::info() {
  FileInfo info;
  info.type = FileInfo::Type::kRegular;
  info.size = size_;
  return info;
}

Status SegmentedFile::truncate(std::uint64_t size) {
  return size == size_ ? Status() : refused("given another size");
}

Status SegmentedFile::sync() {
  for (auto& [name, container] : containers_) SCR_RETURN_IF_ERROR(container->sync());
  return {};
}

Status SegmentedFile::close() {
  Status first;
  for (auto& [name, container] : containers_) {
    Status status = container->close();
    if (first.ok()) first = status;
  }
  return first;
}

Status SegmentedFile::refused(std::string_view what) const {
  return internal_error(fmt::format("'{}' lies in containers and cannot be {}", name_, what));
}

Status SegmentedFile::allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) { return {}; }
Status SegmentedFile::set_mode(mode_t /*mode*/) { return refused("given a mode"); }
Result<Mapping> SegmentedFile::map(std::uint64_t /*offset*/, std::size_t /*length*/) {
  return refused("mapped");
}
Status SegmentedFile::lock(LockMode /*mode*/, bool /*wait*/) { return refused("locked"); }
Status SegmentedFile::unlock() { return refused("locked"); }

}  // namespace scr::flush
