// The file-system seam: every file access of h5scr goes through a FileSystem.
//
// Two implementations: the real one, and FaultyFileSystem (faulty_filesystem.hpp), which can fail,
// cut short or kill at the N-th operation, for tests. Code takes a FileSystem& or uses
// file_system(), the process-wide one. All functions are thread-safe; a File may be used from
// several threads at once except for close().
//
// Every path argument is relative to a Directory (`At`), or to the working directory when none is
// given. In any operation through a Directory, no component of the path that has to be followed may
// be a symbolic link, `..` is refused, and so the path cannot leave the directory
// (kPermissionDenied otherwise): this is how files below cache and control directories are reached.
// "." is the directory itself. Every open is O_CLOEXEC.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace scr {

struct FileInfo {
  enum class Type { kRegular, kDirectory, kSymlink, kOther };
  Type type = Type::kOther;
  std::uint64_t size = 0;
  mode_t mode = 0;  // permission bits only
  uid_t uid = 0;
  gid_t gid = 0;
  std::int64_t mtime_ns = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

struct SpaceInfo {
  std::uint64_t capacity = 0;   // bytes in all
  std::uint64_t available = 0;  // bytes that this user may still write
  bool in_memory = false;       // tmpfs, ramfs: what is written there counts as used memory
};

struct OpenOptions {
  enum class Access { kRead, kWrite, kReadWrite };
  Access access = Access::kRead;
  bool create = false;
  bool exclusive = false;  // with create: fail if it exists (EEXIST)
  bool truncate = false;
  bool append = false;  // every write goes to the end, whatever its offset
  bool no_follow =
      true;            // the last component must not be a symbolic link (never below a Directory)
  mode_t mode = 0666;  // for create; the umask applies
  // Also FIFOs, devices and directories, and an open may wait, as open(2) does: for paths that the
  // user's program opens. All else that h5scr opens is a regular file: kCorrupt, and no wait for a
  // writer, if something else has come to its name.
  bool any_type = false;

  static OpenOptions read() { return {}; }
  static OpenOptions read_write();
  static OpenOptions create_new();       // write, create, exclusive
  static OpenOptions create_truncate();  // read-write, create, truncate
};

enum class LockMode { kShared, kExclusive };

// A piece of a file mapped into memory for reading; unmapped on destruction. Reading past the end
// of a file that someone cut raises SIGBUS: map only files that h5scr owns.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, std::size_t mapped, std::span<const std::byte> bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::span<const std::byte> bytes_;
};

class File {
 public:
  virtual ~File() = default;
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // --- one system call each: may transfer less than asked -----------------------------------
  virtual Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) = 0;
  virtual Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) = 0;

  virtual Result<FileInfo> info() = 0;
  virtual Status truncate(std::uint64_t size) = 0;
  // Reserves room, so that a full device is noticed before the data is written; the file grows to
  // hold the range. Ok without effect on a file system that cannot reserve.
  virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual Status sync() = 0;  // fsync
  // Asks the system to begin writing this range to the device, so that a later sync() waits less. A
  // hint: nothing is promised and nothing fails.
  virtual void start_writing(std::uint64_t /*offset*/, std::uint64_t /*length*/) {}
  // Sets the time of the last change. A hint, too: not every file system keeps one.
  virtual void set_time(std::int64_t /*mtime_ns*/) {}
  virtual Status set_mode(mode_t mode) = 0;
  // Maps [offset, offset+length) for reading; length 0 gives an empty mapping. kCorrupt if the file
  // is shorter than that.
  virtual Result<Mapping> map(std::uint64_t offset, std::size_t length) = 0;
  // Advisory lock (open file description lock: also over network file systems, and between
  // threads). Without `wait`, kUnavailable if somebody else has it. Released by unlock or close.
  virtual Status lock(LockMode mode, bool wait) = 0;
  virtual Status unlock() = 0;
  // Errors of delayed writes show up here; the destructor closes too, but drops the error. A second
  // close is ok and does nothing.
  virtual Status close() = 0;

  virtual const std::string& path() const = 0;  // for messages
  virtual int descriptor() const = 0;           // for calls that the seam does not have

  // --- loops over the above --------------------------------------------------------------------
  // Reads up to the whole buffer; fewer bytes only at the end of the file.
  Result<std::size_t> read(std::span<std::byte> buffer, std::uint64_t offset);
  // Fails with kCorrupt ("file is shorter than ...") if the file ends before.
  Status read_exactly(std::span<std::byte> buffer, std::uint64_t offset);
  Status write_all(std::span<const std::byte> data, std::uint64_t offset);
};

// Whether a lock failed because the file system has none.
bool locks_are_missing(const Status& lock_failure);

// An open directory: paths given together with it are resolved below it, without symbolic links.
class Directory {
 public:
  virtual ~Directory() = default;
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  virtual const std::string& path() const = 0;
  virtual int descriptor() const = 0;
};

// Where a path starts: `At("x/y")` from the working directory or absolute; `At(dir, "x/y")` below
// an open directory.
struct At {
  At(const char* path_in) : path(path_in) {}                            // NOLINT
  At(std::string path_in) : path(std::move(path_in)) {}                 // NOLINT
  At(const std::filesystem::path& path_in) : path(path_in.native()) {}  // NOLINT
  At(const Directory& dir, std::string path_in) : directory(&dir), path(std::move(path_in)) {}
  // Full path for messages.
  std::string display() const;
  const Directory* directory = nullptr;
  std::string path;
};

// A hidden name beside `at` that no other process, thread or earlier run has.
At temporary_beside(const At& at);

struct DirectoryEntry {
  std::string name;
  FileInfo::Type type = FileInfo::Type::kOther;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) = 0;
  // `no_follow`: the last component must not be a symbolic link.
  virtual Result<std::unique_ptr<Directory>> open_directory(const At& at,
                                                            bool no_follow = true) = 0;
  virtual Result<FileInfo> info(const At& at, bool follow = false) = 0;
  virtual Status make_directory(const At& at, mode_t mode = 0777) = 0;
  virtual Status remove_directory(const At& at) = 0;
  virtual Status remove(const At& at) = 0;  // a file or a symbolic link
  // Atomically replaces `to`. With `exclusive`, fails with EEXIST if `to` exists.
  virtual Status rename(const At& from, const At& to, bool exclusive = false) = 0;
  // Atomically gives each of two files the name of the other. EINVAL, ENOSYS or EOPNOTSUPP where
  // that cannot be done (NFS, Lustre).
  virtual Status exchange(const At& one, const At& other);
  virtual Status make_symlink(const std::string& target, const At& at) = 0;
  virtual Result<std::string> read_symlink(const At& at) = 0;
  // Entries but "." and "..", sorted by name.
  virtual Result<std::vector<DirectoryEntry>> list(const At& at) = 0;
  // Makes renames, creations and removals in a directory durable, where the file system can.
  virtual Status sync_directory(const At& at) = 0;
  virtual Result<SpaceInfo> space(const At& at) = 0;

  // --- built from the above
  Result<bool> exists(const At& at);
  // The path without symbolic links, `.` and `..`; everything on it must exist.
  Result<std::string> real_path(const std::string& absolute);
  // Makes a directory and its missing parents; one that exists already (made by another process at
  // the same time) is fine.
  Status make_directories(const At& at, mode_t mode = 0777);
  // Removes a file; a missing one is fine.
  Status remove_if_exists(const At& at);
  Result<std::vector<std::byte>> read_file(const At& at);
  // Makes the bytes of a file durable that was written and closed before.
  Status sync_file(const At& at);
  // Replaces a file atomically: writes a temporary name beside it, then renames. With `durable`,
  // the file is synced before and the directory after the rename. On failure the old file is as it
  // was and the temporary one is removed; only when the very last step, the sync of the directory,
  // fails is the new file in place already, though a power loss may still bring the old one back.
  Status write_file_atomically(const At& at, std::span<const std::byte> data, bool durable,
                               mode_t mode = 0666);
};

// Copies all bytes of one open file to another.
Status copy_contents(File& from, File& to);
// Makes or replaces `to` with what `from` holds, durably; not atomic.
Status copy_file(FileSystem& fs, const At& from, const At& to);

// The plain POSIX file system.
FileSystem& real_file_system();

// The process-wide one: the real one, or a faulty one around it if SCR_FAULT is set
// (faulty_filesystem.hpp). A SCR_FAULT that cannot be understood ends the program with exit code 2
// and one line on standard error: a test that injects no fault by a slip must not pass.
FileSystem& file_system();

}  // namespace scr
