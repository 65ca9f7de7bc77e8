#include "redundancy/logical_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace scr::redundancy {

Status LogicalFile::append(const std::string& name, std::uint64_t base, std::uint64_t size) {
  SCR_RETURN_IF_ERROR(add({name, /*writable=*/false, size_, base, size}));
  Part& part = *parts_.back();
  SCR_ASSIGN_OR_RETURN(const FileInfo info, part.file->info());
  if (info.type == FileInfo::Type::kRegular && info.size == base + size) return {};
  return corrupt(fmt::format("'{}' has {} bytes, but {} are recorded for it", part.file->path(),
                             info.size, base + size));
}

Status LogicalFile::create(const std::string& name, std::uint64_t base, std::uint64_t size,
                           Summing summing) {
  return add({name, /*writable=*/true, size_, base, size, summing});
}

Status LogicalFile::add(Part added) {
  auto part = std::make_unique<Part>(std::move(added));
  SCR_RETURN_IF_ERROR(open(*part, /*fresh=*/true));
  size_ += part->size;
  parts_.push_back(std::move(part));
  return {};
}

Status LogicalFile::open(Part& part, bool fresh) {
  if (part.file != nullptr) {
    open_.splice(open_.begin(), open_, part.use);
    return {};
  }
  if (open_.size() >= kMostOpen) SCR_RETURN_IF_ERROR(close(*open_.back()));
  OpenOptions options = OpenOptions::read();
  if (part.writable) options = fresh ? OpenOptions::create_truncate() : OpenOptions::read_write();
  SCR_ASSIGN_OR_RETURN(part.file, fs_->open(At(*directory_, part.name), options));
  open_.push_front(&part);
  part.use = open_.begin();
  return {};
}

Status LogicalFile::close(Part& part) {
  if (part.file == nullptr) return {};
  open_.erase(part.use);
  return std::exchange(part.file, nullptr)->close();
}

template <typename Visit>
Status LogicalFile::for_each_part(std::uint64_t offset, std::uint64_t length, Visit visit) {
  const std::uint64_t end = offset + length;
  auto part = std::ranges::upper_bound(parts_, offset, {},
                                       [](const auto& p) { return p->begin + p->size; });
  for (std::uint64_t at = offset; at < end; ++part) {
    if (part == parts_.end()) return internal_error("access beyond the end of a member's files");
    const std::uint64_t count = std::min(end, (*part)->begin + (*part)->size) - at;
    if (count == 0) continue;
    SCR_RETURN_IF_ERROR(visit(**part, at - (*part)->begin, static_cast<std::size_t>(at - offset),
                              static_cast<std::size_t>(count)));
    at += count;
  }
  return {};
}

Status LogicalFile::read(std::uint64_t offset, std::span<std::byte> buffer) {
  return for_each_part(
      offset, buffer.size(),
      [&](Part& part, std::uint64_t at, std::size_t from, std::size_t count) -> Status {
        SCR_RETURN_IF_ERROR(open(part));
        const auto piece = buffer.subspan(from, count);
        SCR_RETURN_IF_ERROR(part.file->read_exactly(piece, part.base + at));
        part.sum(at, piece);
        return {};
      });
}

Status LogicalFile::write(std::uint64_t offset, std::span<const std::byte> data) {
  return for_each_part(
      offset, data.size(),
      [&](Part& part, std::uint64_t at, std::size_t from, std::size_t count) -> Status {
        SCR_RETURN_IF_ERROR(open(part));
        const auto piece = data.subspan(from, count);
        part.sum(at, piece);
        return part.file->write_all(piece, part.base + at);
      });
}

void LogicalFile::write_zeros(std::uint64_t offset, std::uint64_t length) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  // Only checksums change: a failure can only mean that the file could not be created, which is
  // known.
  (void)for_each_part(
      offset, length,
      [&](Part& part, std::uint64_t at, std::size_t /*from*/, std::size_t count) -> Status {
        for (std::size_t done = 0; done < count; done += kZeros.size()) {
          part.sum(at + done, std::span(kZeros).first(std::min(kZeros.size(), count - done)));
        }
        return {};
      });
}

Status LogicalFile::set_sizes() {
  for (const auto& part : parts_) {
    SCR_RETURN_IF_ERROR(open(*part));
    SCR_RETURN_IF_ERROR(part->file->truncate(part->base + part->size));
  }
  return {};
}

Status LogicalFile::set_time(std::size_t index, std::int64_t mtime_ns) {
  Part& part = *parts_[index];
  SCR_RETURN_IF_ERROR(open(part));
  part.file->set_time(mtime_ns);
  return {};
}

Status LogicalFile::write_before_base(std::size_t index, std::span<const std::byte> data) {
  Part& part = *parts_[index];
  if (data.size() > part.base) return internal_error("a header does not fit before its payload");
  SCR_RETURN_IF_ERROR(open(part));
  return part.file->write_all(data, 0);
}

Status LogicalFile::close() {
  Status status;
  while (!open_.empty()) {
    Status closed = close(*open_.back());
    if (status.ok()) status = std::move(closed);
  }
  return status;
}

}  // namespace scr::redundancy
