#include "core/base/posix.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <vector>

#include "core/base/text.hpp"

#if __has_include(<linux/openat2.h>) && defined(SYS_openat2)
#include <linux/openat2.h>
#define SCR_HAVE_OPENAT2 1
#endif

namespace scr::posix {
namespace {

int fail(int errno_value) {
  errno = errno_value;
  return -1;
}

// Rules that hold whichever way the path is walked, so that both ways refuse the same.
int check_relative(const std::string& path) {
  if (path.empty()) return ENOENT;
  if (path.find('\0') != std::string::npos) return EINVAL;
  if (path.front() == '/') return EXDEV;
  for (const std::string_view component : text::split(path, '/')) {
    if (component == "..") return EXDEV;
  }
  return 0;
}

#ifdef SCR_HAVE_OPENAT2
// An openat2() with a structure of size 0 says EINVAL where it exists; old kernels say ENOSYS, and
// the system call filters of some containers EPERM.
bool have_openat2() {
  static const bool have =
      ::syscall(SYS_openat2, AT_FDCWD, ".", nullptr, std::size_t{0}) == -1 && errno == EINVAL;
  return have;
}

int openat2_beneath(int directory, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags);
  how.mode = (flags & O_CREAT) != 0 ? (mode & 07777U) : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(retry_interrupted(
      [&] { return ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how); }));
}
#endif

bool is_symlink(int directory, const std::string& name) {
  struct stat found {};
  return ::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(found.st_mode);
}

// O_DIRECTORY turns the ELOOP of O_NOFOLLOW into ENOTDIR, which reads as "not there".
int open_component(int directory, const std::string& name, int flags, mode_t mode) {
  const int fd = retry_interrupted(
      [&] { return ::openat(directory, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode); });
  if (fd == -1 && errno == ENOTDIR) return fail(is_symlink(directory, name) ? ELOOP : ENOTDIR);
  return fd;
}

// A directory has no second name: an empty one takes the new name, and rename() may replace it.
int rename_directory_exclusively(int from_directory, const std::string& from, int to_directory,
                                 const std::string& to) {
  if (::mkdirat(to_directory, to.c_str(), 0700) == -1) return -1;
  if (::renameat(from_directory, from.c_str(), to_directory, to.c_str()) == 0) return 0;
  const int why = errno;
  ::unlinkat(to_directory, to.c_str(), AT_REMOVEDIR);
  return fail(why);
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

int open_beneath(int directory, const std::string& path, int flags, mode_t mode) {
  if (const int why = check_relative(path); why != 0) return fail(why);
#ifdef SCR_HAVE_OPENAT2
  if (have_openat2()) return openat2_beneath(directory, path, flags | O_CLOEXEC, mode);
#endif
  return open_beneath_by_walking(directory, path, flags, mode);
}

int open_beneath_by_walking(int directory, const std::string& path, int flags, mode_t mode) {
  if (const int why = check_relative(path); why != 0) return fail(why);
  std::vector<std::string> components;
  for (const std::string_view component : text::split(path, '/')) {
    if (!component.empty()) components.emplace_back(component);
  }
  if (path.back() == '/') components.emplace_back(".");

  Descriptor parent;
  int at = directory;
  for (std::size_t i = 0; i + 1 < components.size(); ++i) {
    parent.reset(open_component(at, components[i], O_PATH | O_DIRECTORY, 0));
    if (!parent.valid()) return -1;
    at = parent.get();
  }
  return open_component(at, components.back(), flags, mode);
}

int rename_exclusively(int from_directory, const std::string& from, int to_directory,
                       const std::string& to) {
  if (::renameat2(from_directory, from.c_str(), to_directory, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return -1;
  return rename_exclusively_by_link(from_directory, from, to_directory, to);
}

int rename_exclusively_by_link(int from_directory, const std::string& from, int to_directory,
                               const std::string& to) {
  struct stat source {};
  if (::fstatat(from_directory, from.c_str(), &source, AT_SYMLINK_NOFOLLOW) == -1) return -1;
  if (S_ISDIR(source.st_mode)) {
    return rename_directory_exclusively(from_directory, from, to_directory, to);
  }
  if (::linkat(from_directory, from.c_str(), to_directory, to.c_str(), 0) == -1) return -1;
  return ::unlinkat(from_directory, from.c_str(), 0);
}

}  // namespace scr::posix
