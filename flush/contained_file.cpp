#include "flush/contained_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "core/base/checksum.hpp"
#include "core/base/text.hpp"
#include "flush/summary.hpp"

namespace scr::flush {
namespace {

constexpr std::size_t kMostOpen = 16;  // containers of one file; a program has few descriptors
constexpr std::size_t kVerifyBuffer = std::size_t{1} << 20;

// What a user can do about damage.
std::string advice(FileSystem& fs, const std::string& directory, const std::string& name) {
  const Result<Summary> summary = read_summary(fs, directory);
  if (summary.ok() && summary->container_parity > 0) {
    return fmt::format("'scr_index --verify \"{}\" --repair' may rebuild it from parity containers",
                       text::escape(name));
  }
  return "the dataset has no parity containers to rebuild it from";
}

}  // namespace

ContainedFile::ContainedFile(FileSystem& fs, std::string prefix, const StoredLocation& location,
                             std::unique_ptr<Directory> directory)
    : fs_(fs),
      path_(std::move(prefix) + "/" + location.file.file),
      location_(location),
      directory_(std::move(directory)) {
  std::uint64_t start = 0;
  for (const Segment& segment : location_.file.segments) {
    starts_.push_back(start);
    start += segment.length;
  }
}

Result<std::unique_ptr<ContainedFile>> ContainedFile::open(FileSystem& fs,
                                                           const std::string& prefix,
                                                           const StoredLocation& location) {
  std::uint64_t total = 0;
  for (const Segment& segment : location.file.segments) total += segment.length;
  if (total != location.file.size) {
    return invalid_argument(fmt::format("the segments of '{}' do not add up to its size",
                                        text::escape(location.file.file)));
  }
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(prefix + "/.scr/" + location.directory));
  return std::unique_ptr<ContainedFile>(
      new ContainedFile(fs, prefix, location, std::move(directory)));
}

std::size_t ContainedFile::segment_at(std::uint64_t offset) const {
  // Of segments that begin there, the last one: those before it are empty.
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return static_cast<std::size_t>(after - starts_.begin()) - 1;
}

Status ContainedFile::damaged(std::size_t segment, std::string_view why) const {
  const Segment& part = location_.file.segments[segment];
  const std::string& directory = directory_->path();
  return corrupt(fmt::format(
      "cannot read '{}': segment {} of it, {} bytes from byte {} of container '{}/{}': {}; {}",
      path_, segment, part.length, part.offset, directory, part.file, why,
      advice(fs_, directory, location_.dataset.name)));
}

Result<std::shared_ptr<File>> ContainedFile::container_of(std::size_t segment) {
  if (directory_ == nullptr) return errno_status(EBADF, "read", path_);
  const std::string& name = location_.file.segments[segment].file;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const OpenContainer& each) { return each.name == name; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().file;
  }
  auto opened = fs_.open(At(*directory_, name), OpenOptions::read());
  if (opened.status().code() == StatusCode::kNotFound) {
    return damaged(segment, "the container is missing");
  }
  if (!opened.ok()) return opened.status();
  if (open_.size() == kMostOpen) open_.pop_back();
  open_.push_front({name, std::shared_ptr<File>(*std::move(opened))});
  return open_.front().file;
}

Result<std::size_t> ContainedFile::read_some(std::span<std::byte> buffer, std::uint64_t offset) {
  if (directory_ == nullptr) return errno_status(EBADF, "read", path_);
  if (buffer.empty() || offset >= location_.file.size) return std::size_t{0};
  const std::size_t index = segment_at(offset);
  const Segment& segment = location_.file.segments[index];
  const std::uint64_t within = offset - starts_[index];
  const auto part =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), segment.length - within));
  SCR_ASSIGN_OR_RETURN(const std::shared_ptr<File> container, container_of(index));
  SCR_ASSIGN_OR_RETURN(const std::size_t count,
                       container->read_some(buffer.first(part), segment.offset + within));
  // The end of the container would look like the end of the file.
  if (count == 0) return damaged(index, "the container ends before");
  return count;
}

Result<std::uint32_t> ContainedFile::checksum_of(std::size_t segment, std::span<std::byte> buffer) {
  Crc32 sum;
  for (std::uint64_t done = 0; done < location_.file.segments[segment].length;) {
    const std::uint64_t left = location_.file.segments[segment].length - done;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
    SCR_ASSIGN_OR_RETURN(const std::size_t count,
                         read_some(buffer.first(part), starts_[segment] + done));
    sum.update(buffer.first(count));
    done += count;
  }
  return sum.value();
}

Status ContainedFile::verify() {
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kVerifyBuffer, location_.file.size)));
  std::uint32_t whole = 0;
  for (std::size_t i = 0; i < location_.file.segments.size(); ++i) {
    const Segment& segment = location_.file.segments[i];
    SCR_ASSIGN_OR_RETURN(const std::uint32_t crc, checksum_of(i, buffer));
    if (crc != segment.crc) {
      return damaged(i, fmt::format("the checksum is {} instead of {}", crc32_to_text(crc),
                                    crc32_to_text(segment.crc)));
    }
    whole = crc32_combine(whole, crc, segment.length);
  }
  if (whole == location_.file.crc) return {};
  return corrupt(fmt::format(
      "cannot read '{}': its segments in '{}' are whole, but together have "
      "the checksum {} instead of {}",
      path_, directory_->path(), crc32_to_text(whole), crc32_to_text(location_.file.crc)));
}

Result<std::string> ContainedFile::fingerprint() {
  std::string text;
  for (std::size_t i = 0; i < location_.file.segments.size(); ++i) {
    const Segment& segment = location_.file.segments[i];
    const Result<FileInfo> found = fs_.info(At(*directory_, segment.file));
    if (found.status().code() == StatusCode::kNotFound) {
      return damaged(i, "the container is missing");
    }
    if (!found.ok()) return found.status();
    text += fmt::format("{} {} {} {} {};", found->device, found->inode, found->mtime_ns,
                        found->size, segment.crc);
  }
  return text;
}

Result<FileInfo> ContainedFile::info() {
  if (directory_ == nullptr) return errno_status(EBADF, "look up", path_);
  SCR_ASSIGN_OR_RETURN(FileInfo found, fs_.info(At(*directory_, ".")));
  found.type = FileInfo::Type::kRegular;
  found.size = location_.file.size;
  found.mode &= 0444U;
  // Tells files of one dataset apart; the highest bit keeps it away from real inodes.
  const auto name = std::hash<std::string>()(location_.file.file);
  found.inode = (found.inode * 0x9E3779B97F4A7C15U ^ name) | std::uint64_t{1} << 63U;
  return found;
}

Result<Mapping> ContainedFile::map(std::uint64_t offset, std::size_t length) {
  if (length == 0) return Mapping();
  if (offset > location_.file.size || length > location_.file.size - offset) {
    return corrupt(fmt::format("cannot map '{}': file is shorter than {} bytes: it has {}", path_,
                               offset + length, location_.file.size));
  }
  const std::size_t index = segment_at(offset);
  const Segment& segment = location_.file.segments[index];
  if (const std::uint64_t within = offset - starts_[index]; length <= segment.length - within) {
    SCR_ASSIGN_OR_RETURN(const std::shared_ptr<File> container, container_of(index));
    return container->map(segment.offset + within, length);
  }
  // Over several segments: a copy, in memory that goes with the mapping like any other.
  void* memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status(errno, "map", path_);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), length);
  Mapping mapping(memory, length, bytes);
  SCR_RETURN_IF_ERROR(read_exactly(bytes, offset));
  return mapping;
}

Status ContainedFile::read_only() const {
  return {StatusCode::kPermissionDenied,
          fmt::format("cannot change '{}': it is inside a container: read-only", path_), EROFS};
}

Result<std::size_t> ContainedFile::write_some(std::span<const std::byte>, std::uint64_t) {
  return read_only();
}
Status ContainedFile::truncate(std::uint64_t) { return read_only(); }
Status ContainedFile::allocate(std::uint64_t, std::uint64_t) { return read_only(); }
Status ContainedFile::set_mode(mode_t) { return read_only(); }
Status ContainedFile::lock(LockMode mode, bool) {
  return mode == LockMode::kShared ? Status() : read_only();
}

Status ContainedFile::close() {
  open_.clear();
  directory_.reset();
  return {};
}

}  // namespace scr::flush
