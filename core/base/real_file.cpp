#include "core/base/real_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

namespace scr {
namespace {

using posix::retry_interrupted;

// Offsets come from metadata too: one that off_t cannot hold must not turn negative.
bool fits_off_t(std::uint64_t offset, std::uint64_t length) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  return offset <= kMost && length <= kMost - offset;
}

FileInfo::Type type_from(mode_t mode) {
  if (S_ISREG(mode)) return FileInfo::Type::kRegular;
  if (S_ISDIR(mode)) return FileInfo::Type::kDirectory;
  if (S_ISLNK(mode)) return FileInfo::Type::kSymlink;
  return FileInfo::Type::kOther;
}

}  // namespace

FileInfo file_info_from(const struct stat& found) {
  FileInfo info;
  info.type = type_from(found.st_mode);
  info.size = static_cast<std::uint64_t>(found.st_size);
  info.mode = found.st_mode & 07777U;
  info.uid = found.st_uid;
  info.gid = found.st_gid;
  info.mtime_ns = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
  info.device = found.st_dev;
  info.inode = found.st_ino;
  return info;
}

Result<std::size_t> RealFile::read_some(std::span<std::byte> buffer, std::uint64_t offset) {
  if (!fits_off_t(offset, 0)) return errno_status(EINVAL, "read", path_);
  const ssize_t count = retry_interrupted([&] {
    return ::pread(descriptor(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
  });
  if (count == -1) return failure("read");
  return static_cast<std::size_t>(count);
}

Result<std::size_t> RealFile::write_some(std::span<const std::byte> data, std::uint64_t offset) {
  if (!fits_off_t(offset, data.size())) return errno_status(EFBIG, "write", path_);
  const ssize_t count = retry_interrupted(
      [&] { return ::pwrite(descriptor(), data.data(), data.size(), static_cast<off_t>(offset)); });
  if (count == -1) return failure("write");
  return static_cast<std::size_t>(count);
}

Result<FileInfo> RealFile::info() {
  struct stat found {};
  if (::fstat(descriptor(), &found) == -1) return failure("look up");
  return file_info_from(found);
}

Status RealFile::truncate(std::uint64_t size) {
  if (!fits_off_t(size, 0)) return errno_status(EFBIG, "set the size of", path_);
  const int done =
      retry_interrupted([&] { return ::ftruncate(descriptor(), static_cast<off_t>(size)); });
  return done == 0 ? Status() : failure("set the size of");
}

Status RealFile::allocate(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return {};
  if (!fits_off_t(offset, length)) return errno_status(EFBIG, "reserve space for", path_);
  const int done = retry_interrupted([&] {
    return ::fallocate(descriptor(), 0, static_cast<off_t>(offset), static_cast<off_t>(length));
  });
  if (done == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return {};
  return failure("reserve space for");
}

Status RealFile::sync() {
  const int done = retry_interrupted([&] { return ::fsync(descriptor()); });
  return done == 0 ? Status() : failure("sync");
}

void RealFile::start_writing(std::uint64_t offset, std::uint64_t length) {
  if (!fits_off_t(offset, length)) return;
  (void)::sync_file_range(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(length),
                          SYNC_FILE_RANGE_WRITE);
}

void RealFile::set_time(std::int64_t mtime_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{.tv_sec = mtime_ns / kSecond, .tv_nsec = mtime_ns % kSecond};
  const std::array times = {time, time};
  (void)::futimens(descriptor(), times.data());
}

Status RealFile::set_mode(mode_t mode) {
  const int done = retry_interrupted([&] { return ::fchmod(descriptor(), mode); });
  return done == 0 ? Status() : failure("set the permissions of");
}

Result<Mapping> RealFile::map(std::uint64_t offset, std::size_t length) {
  if (length == 0) return Mapping();
  SCR_ASSIGN_OR_RETURN(const FileInfo found, info());
  if (offset > found.size || length > found.size - offset) {
    return corrupt(fmt::format("cannot map '{}': file is shorter than {} bytes: it has {}", path_,
                               offset + length, found.size));
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto skip = static_cast<std::size_t>(offset % page);
  void* base = ::mmap(nullptr, skip + length, PROT_READ, MAP_SHARED, descriptor(),
                      static_cast<off_t>(offset - skip));
  if (base == MAP_FAILED) return failure("map");
  return Mapping(base, skip + length, {static_cast<const std::byte*>(base) + skip, length});
}

Status RealFile::lock(LockMode mode, bool wait) {
  struct flock range {};
  range.l_type = mode == LockMode::kShared ? F_RDLCK : F_WRLCK;
  range.l_whence = SEEK_SET;
  const int command = wait ? F_OFD_SETLKW : F_OFD_SETLK;
  const int done = retry_interrupted([&] { return ::fcntl(descriptor(), command, &range); });
  if (done == 0) return {};
  if (!wait && (errno == EAGAIN || errno == EACCES)) {
    return {StatusCode::kUnavailable,
            fmt::format("cannot lock '{}': another process has it locked", path_), EAGAIN};
  }
  return failure("lock");
}

Status RealFile::unlock() {
  struct flock range {};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  const int done = retry_interrupted([&] { return ::fcntl(descriptor(), F_OFD_SETLK, &range); });
  return done == 0 ? Status() : failure("unlock");
}

Status RealFile::close() {
  if (!descriptor_.valid()) return {};
  // Linux frees the descriptor whatever close() says, so EINTR is not tried again; but delayed
  // writes may then be lost, so it is a failure like any other.
  return ::close(descriptor_.release()) == 0 ? Status() : failure("close");
}

}  // namespace scr
