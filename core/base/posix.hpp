// The few system calls behind real_file_system() that need care: descriptors that close themselves,
// calls that signals interrupt, and Linux calls that not every kernel or file system has, each with
// a fallback of the same meaning. For core/base only; the rest of h5scr uses filesystem.hpp.
//
// Functions follow the convention of system calls: -1 and errno on failure. Thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cerrno>
#include <string>
#include <utility>

namespace scr::posix {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Repeats a system call for as long as signals interrupt it.
template <typename Call>
auto retry_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Opens a path below a directory. No component may be a symbolic link (ELOOP); an absolute path or
// one with ".." fails with EXDEV. O_CLOEXEC is added.
int open_beneath(int directory, const std::string& path, int flags, mode_t mode = 0);

// What open_beneath() does where the kernel has no openat2(): one component after the other.
int open_beneath_by_walking(int directory, const std::string& path, int flags, mode_t mode = 0);

// renameat() that fails with EEXIST if the new name exists.
int rename_exclusively(int from_directory, const std::string& from, int to_directory,
                       const std::string& to);

// What rename_exclusively() does where the file system has no RENAME_NOREPLACE (NFS, Lustre). A
// file has both names for an instant; the new name never shows anything but the whole file.
int rename_exclusively_by_link(int from_directory, const std::string& from, int to_directory,
                               const std::string& to);

}  // namespace scr::posix
