// real_file_system(): the FileSystem of the operating system.
//
// A path below a Directory is reached in two steps: open its parent without following any symbolic
// link (posix::open_beneath), then call an *at function on the last component. No step looks at a
// path twice, so nobody can swap a component between check and use.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/filesystem.hpp"
#include "core/base/posix.hpp"
#include "core/base/real_file.hpp"
#include "core/base/seam_guard.hpp"

namespace scr {
namespace {

using posix::Descriptor;
using posix::retry_interrupted;

class RealDirectory final : public Directory {
 public:
  RealDirectory(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  const std::string& path() const override { return path_; }
  int descriptor() const override { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override;
  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override;
  Result<FileInfo> info(const At& at, bool follow) override;
  Status make_directory(const At& at, mode_t mode) override;
  Status remove_directory(const At& at) override;
  Status remove(const At& at) override;
  Status rename(const At& from, const At& to, bool exclusive) override;
  Status exchange(const At& one, const At& other) override;
  Status make_symlink(const std::string& target, const At& at) override;
  Result<std::string> read_symlink(const At& at) override;
  Result<std::vector<DirectoryEntry>> list(const At& at) override;
  Status sync_directory(const At& at) override;
  Result<SpaceInfo> space(const At& at) override;
};

bool has_nul(const std::string& path) { return path.find('\0') != std::string::npos; }

// A trailing slash makes the kernel follow a symbolic link, whatever the flags say.
std::string without_trailing_slashes(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  return end == std::string::npos ? path.substr(0, 1) : path.substr(0, end + 1);
}

// The last component of a path, and the open directory that it is in.
struct Place {
  Descriptor owned;
  int directory = AT_FDCWD;
  std::string name;
};

// 0 or the errno that says why there is no such place.
int find_place(const At& at, Place& place) {
  if (has_nul(at.path)) return EINVAL;
  place.name = without_trailing_slashes(at.path);
  if (at.directory == nullptr) return 0;
  const std::size_t slash = place.name.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : place.name.substr(0, slash);
  if (slash != std::string::npos) place.name.erase(0, slash + 1);
  if (slash == 0 || place.name == "..") return EXDEV;
  if (slash == std::string::npos) {
    place.directory = at.directory->descriptor();
    return 0;
  }
  place.owned.reset(posix::open_beneath(at.directory->descriptor(), parent, O_PATH | O_DIRECTORY));
  place.directory = place.owned.get();
  return place.owned.valid() ? 0 : errno;
}

// Runs a system call on the place that `at` names.
template <typename Call>
Status call_at(const At& at, std::string_view tried, Call call) {
  Place place;
  if (const int why = find_place(at, place); why != 0) {
    return errno_status(why, tried, at.display());
  }
  if (retry_interrupted([&] { return call(place.directory, place.name.c_str()); }) == -1) {
    return errno_status(errno, tried, at.display());
  }
  return {};
}

int open_flags(const OpenOptions& options) {
  int flags = O_CLOEXEC | O_NOCTTY;
  switch (options.access) {
    case OpenOptions::Access::kRead:
      flags |= O_RDONLY;
      break;
    case OpenOptions::Access::kWrite:
      flags |= O_WRONLY;
      break;
    case OpenOptions::Access::kReadWrite:
      flags |= O_RDWR;
      break;
  }
  if (options.create) flags |= O_CREAT;
  if (options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  if (options.append) flags |= O_APPEND;
  return flags;
}

bool is_symlink(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
}

// -1 and errno on failure.
int open_directory_descriptor(const At& at, int flags, bool no_follow) {
  flags |= O_DIRECTORY | O_CLOEXEC;
  if (at.directory != nullptr) {
    return posix::open_beneath(at.directory->descriptor(), at.path, flags);
  }
  if (has_nul(at.path)) {
    errno = EINVAL;
    return -1;
  }
  const std::string path = no_follow ? without_trailing_slashes(at.path) : at.path;
  const int extra = no_follow ? O_NOFOLLOW : 0;
  const int fd = retry_interrupted([&] { return ::open(path.c_str(), flags | extra); });
  // With O_DIRECTORY the kernel says ENOTDIR for a symbolic link, which reads as "not there".
  if (fd == -1 && errno == ENOTDIR) errno = no_follow && is_symlink(path) ? ELOOP : ENOTDIR;
  return fd;
}

FileInfo::Type entry_type(DIR* directory, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return FileInfo::Type::kRegular;
    case DT_DIR:
      return FileInfo::Type::kDirectory;
    case DT_LNK:
      return FileInfo::Type::kSymlink;
    case DT_UNKNOWN:
      break;  // some file systems do not tell
    default:
      return FileInfo::Type::kOther;
  }
  struct stat found {};
  const int looked = ::fstatat(::dirfd(directory), entry.d_name, &found, AT_SYMLINK_NOFOLLOW);
  return looked == 0 ? file_info_from(found).type : FileInfo::Type::kOther;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// -1 and errno on failure.
int open_file_descriptor(const At& at, const OpenOptions& options, int flags) {
  if (at.directory != nullptr) {
    return posix::open_beneath(at.directory->descriptor(), at.path, flags, options.mode);
  }
  if (options.no_follow) flags |= O_NOFOLLOW;
  return retry_interrupted([&] { return ::open(at.path.c_str(), flags, options.mode); });
}

Status not_regular(const At& at, std::string_view but) {
  return corrupt(
      fmt::format("cannot open '{}': it is not a regular file, but a {}", at.display(), but));
}

// An open that does not wait: that of a FIFO would, until somebody writes to it. A regular file for
// which another process has a lease says EAGAIN, and is opened with a wait then.
int open_without_wait(const At& at, const OpenOptions& options, int flags) {
  const int fd = open_file_descriptor(at, options, flags | O_NONBLOCK);
  return fd == -1 && errno == EAGAIN ? open_file_descriptor(at, options, flags) : fd;
}

// Some file systems (Lustre, FUSE) also read and write in another way with O_NONBLOCK.
Status check_regular(const At& at, int fd, int flags) {
  struct stat found {};
  if (::fstat(fd, &found) == -1) return errno_status(errno, "look up", at.display());
  if (S_ISDIR(found.st_mode)) return not_regular(at, "directory");
  if (S_ISFIFO(found.st_mode)) return not_regular(at, "FIFO");
  if (!S_ISREG(found.st_mode)) return not_regular(at, "device");
  if (::fcntl(fd, F_SETFL, flags) == 0) return {};
  return errno_status(errno, "open", at.display());
}

Result<std::unique_ptr<File>> RealFileSystem::open(const At& at, const OpenOptions& options) {
  if (has_nul(at.path)) return errno_status(EINVAL, "open", at.display());
  const int flags = open_flags(options);
  // A file that this open makes needs no check.
  const bool checks = !options.any_type && !(options.create && options.exclusive);
  Descriptor descriptor(checks ? open_without_wait(at, options, flags)
                               : open_file_descriptor(at, options, flags));
  if (!descriptor.valid()) {
    // Of a socket, and of a FIFO that nobody reads.
    if (checks && errno == ENXIO) return not_regular(at, "socket or FIFO");
    return errno_status(errno, options.create ? "create" : "open", at.display());
  }
  if (checks) SCR_RETURN_IF_ERROR(check_regular(at, descriptor.get(), flags));
  return std::unique_ptr<File>(std::make_unique<RealFile>(std::move(descriptor), at.display()));
}

Result<std::unique_ptr<Directory>> RealFileSystem::open_directory(const At& at, bool no_follow) {
  Descriptor descriptor(open_directory_descriptor(at, O_RDONLY, no_follow));
  if (!descriptor.valid()) return errno_status(errno, "open directory", at.display());
  return std::unique_ptr<Directory>(
      std::make_unique<RealDirectory>(std::move(descriptor), at.display()));
}

Result<FileInfo> RealFileSystem::info(const At& at, bool follow) {
  struct stat found {};
  const int flags = follow && at.directory == nullptr ? 0 : AT_SYMLINK_NOFOLLOW;
  SCR_RETURN_IF_ERROR(call_at(at, "look up", [&](int directory, const char* name) {
    return ::fstatat(directory, name, &found, flags);
  }));
  if (follow && S_ISLNK(found.st_mode)) return errno_status(ELOOP, "look up", at.display());
  return file_info_from(found);
}

Status RealFileSystem::make_directory(const At& at, mode_t mode) {
  return call_at(at, "create directory",
                 [&](int directory, const char* name) { return ::mkdirat(directory, name, mode); });
}

Status RealFileSystem::remove_directory(const At& at) {
  return call_at(at, "remove directory", [](int directory, const char* name) {
    const SeamGuard guard;
    return ::unlinkat(directory, name, AT_REMOVEDIR);
  });
}

Status RealFileSystem::remove(const At& at) {
  return call_at(at, "remove", [](int directory, const char* name) {
    const SeamGuard guard;
    return ::unlinkat(directory, name, 0);
  });
}

Status RealFileSystem::rename(const At& from, const At& to, bool exclusive) {
  const SeamGuard guard;
  Place source;
  Place target;
  int why = find_place(from, source);
  if (why == 0) why = find_place(to, target);
  if (why == 0) {
    const int done = retry_interrupted([&] {
      return exclusive ? posix::rename_exclusively(source.directory, source.name, target.directory,
                                                   target.name)
                       : ::renameat(source.directory, source.name.c_str(), target.directory,
                                    target.name.c_str());
    });
    if (done == 0) return {};
    why = errno;
  }
  return errno_status(why, "rename", from.display() + "' to '" + to.display());
}

Status RealFileSystem::exchange(const At& one, const At& other) {
  const SeamGuard guard;
  Place first;
  Place second;
  int why = find_place(one, first);
  if (why == 0) why = find_place(other, second);
  if (why == 0) {
    const int done = retry_interrupted([&] {
      return ::renameat2(first.directory, first.name.c_str(), second.directory, second.name.c_str(),
                         RENAME_EXCHANGE);
    });
    if (done == 0) return {};
    why = errno;
  }
  return errno_status(why, "exchange", one.display() + "' and '" + other.display());
}

Status RealFileSystem::make_symlink(const std::string& target, const At& at) {
  if (has_nul(target)) return errno_status(EINVAL, "create symbolic link", at.display());
  return call_at(at, "create symbolic link", [&](int directory, const char* name) {
    return ::symlinkat(target.c_str(), directory, name);
  });
}

Result<std::string> RealFileSystem::read_symlink(const At& at) {
  std::string target(256, '\0');
  for (;;) {
    ssize_t length = 0;
    SCR_RETURN_IF_ERROR(call_at(at, "read symbolic link", [&](int directory, const char* name) {
      return length = ::readlinkat(directory, name, target.data(), target.size());
    }));
    if (static_cast<std::size_t>(length) < target.size()) {
      target.resize(static_cast<std::size_t>(length));
      return target;
    }
    target.resize(target.size() * 2);
  }
}

Result<std::vector<DirectoryEntry>> RealFileSystem::list(const At& at) {
  Descriptor descriptor(open_directory_descriptor(at, O_RDONLY, false));
  if (!descriptor.valid()) return errno_status(errno, "list directory", at.display());
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(descriptor.get()));
  if (directory == nullptr) return errno_status(errno, "list directory", at.display());
  descriptor.release();  // closedir() closes it

  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.push_back({std::move(name), entry_type(directory.get(), *entry)});
  }
  if (errno != 0) return errno_status(errno, "list directory", at.display());
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Status RealFileSystem::sync_directory(const At& at) {
  const Descriptor descriptor(open_directory_descriptor(at, O_RDONLY, false));
  if (!descriptor.valid()) return errno_status(errno, "sync directory", at.display());
  if (retry_interrupted([&] { return ::fsync(descriptor.get()); }) == 0) return {};
  // Some network file systems cannot sync a directory, and need not.
  if (errno == EINVAL || errno == EOPNOTSUPP) return {};
  return errno_status(errno, "sync directory", at.display());
}

Result<SpaceInfo> RealFileSystem::space(const At& at) {
  struct statfs found {};
  SCR_RETURN_IF_ERROR(call_at(at, "find the free space of", [&](int directory, const char* name) {
    const int flags = O_PATH | O_CLOEXEC | (at.directory != nullptr ? O_NOFOLLOW : 0);
    const Descriptor place(::openat(directory, name, flags));
    return place.valid() ? ::fstatfs(place.get(), &found) : -1;
  }));
  // O_PATH is enough for fstatfs since Linux 3.12.
  const auto block =
      static_cast<std::uint64_t>(found.f_frsize != 0 ? found.f_frsize : found.f_bsize);
  const bool in_memory = found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC;
  return SpaceInfo{found.f_blocks * block, found.f_bavail * block, in_memory};
}

}  // namespace

FileSystem& real_file_system() {
  // Never destroyed: other threads and destructors of statics may still use it at exit.
  static auto* const only = new RealFileSystem;
  return *only;
}

}  // namespace scr
