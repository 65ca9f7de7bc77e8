// FaultyFileSystem: a shim over another FileSystem that counts operations and makes one of them go
// wrong, for tests of what h5scr does when a disk fills up, a device fails or a process dies.
//
// Two ways to use it. In a unit test, wrap a FileSystem and look at operations() and hits(). For a
// whole program, set SCR_FAULT in its environment; file_system() then wraps the real one:
//
//   SCR_FAULT="n=3,op=write|sync,path=*.xor,action=enospc,rank=2,repeat=1,log=FILE"
//
//   action=A   what happens (the only key that must be there):
//                eio, enospc, ...  the operation is not done and fails with that errno
//                short             a write transfers half, and matching writes and allocations fail
//                                  with ENOSPC from then on; a read gives half, and then that file
//                                  seems to end
//                kill              the process dies by SIGKILL before the operation
//                tear              half of a write is done, then the process dies by SIGKILL
//                count-only        nothing
//   n=N        the first matching operation it happens to, from 1 (default 1)
//   op=A|B     which operations match: open opendir info mkdir rmdir remove rename symlink readlink
//              list syncdir space read write truncate allocate sync chmod map lock unlock close
//              writeback utime (default all but the last two, which are hints; for kill: all; for
//              short: read|write; for tear: write)
//   path=GLOB  which paths match; * matches slashes too (default all). A rename matches by either
//              of its two paths; an exchange of names counts as one.
//   repeat=K   how many matching operations in a row it happens to, or "all" (default 1: once)
//   rank=R     only in the process whose OMPI_COMM_WORLD_RANK, PMI_RANK or PMIX_RANK is R; a
//   process
//              without any of them counts as rank 0
//   log=FILE   appends a line "RANK N OPERATION PATH" for each matching operation, before it is
//   done
//
// Values cannot hold commas. Every virtual call of FileSystem and File is one operation, but those
// that only tell a path or descriptor. The hints (start_writing, set_time) have no result: one that
// is made to fail is not carried out. A close that is made to fail still closes. Files reached
// through descriptor(), mapped memory and destructors are beyond its reach. Thread-safe.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/filesystem.hpp"

namespace scr {

enum class Operation : unsigned {
  kOpen,
  kOpenDirectory,
  kInfo,
  kMakeDirectory,
  kRemoveDirectory,
  kRemove,
  kRename,
  kMakeSymlink,
  kReadSymlink,
  kList,
  kSyncDirectory,
  kSpace,
  kRead,
  kWrite,
  kTruncate,
  kAllocate,
  kSync,
  kSetMode,
  kMap,
  kLock,
  kUnlock,
  kClose,
  kStartWriting,
  kSetTime,
};

// As in SCR_FAULT, in the order of the enumeration.
inline constexpr std::array<std::string_view, 24> kOperationNames = {
    "open",     "opendir", "info",    "mkdir", "rmdir",  "remove", "rename",    "symlink",
    "readlink", "list",    "syncdir", "space", "read",   "write",  "truncate",  "allocate",
    "sync",     "chmod",   "map",     "lock",  "unlock", "close",  "writeback", "utime"};

struct FaultPlan {
  enum class Action { kCountOnly, kFail, kShort, kKill, kTear };
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint32_t kAllOperations = (1U << kOperationNames.size()) - 1;

  // Those that have no result, so that nobody can tell of a failure.
  static constexpr std::uint32_t kHints = (1U << static_cast<unsigned>(Operation::kStartWriting)) |
                                          (1U << static_cast<unsigned>(Operation::kSetTime));

  static constexpr std::uint32_t bit(Operation operation) {
    return 1U << static_cast<unsigned>(operation);
  }

  Action action = Action::kCountOnly;
  int errno_value = EIO;  // for kFail
  std::uint64_t n = 1;
  std::uint64_t repeat = 1;
  std::uint32_t operations = kAllOperations;  // of bit()
  std::string path = "*";
  std::optional<int> rank;
  std::string log;

  // A plan that fails the n-th operation, hints left out, with an errno.
  static FaultPlan fail_at(std::uint64_t n, int errno_value, std::uint64_t repeat = 1);
  // A plan that kills the process before the n-th operation.
  static FaultPlan kill_at(std::uint64_t n);
  // Reads the form of SCR_FAULT; the error names the part that is wrong.
  static Result<FaultPlan> parse(std::string_view text);

  // The rank of this process as its launcher says, in text.
  static std::string_view this_rank();
  bool applies_to_this_rank() const;
};

class FaultyFileSystem final : public FileSystem {
 public:
  // `inner` must outlive this and the files opened through it. A log file that cannot be opened
  // ends the program with exit code 2, as a SCR_FAULT that cannot be understood does.
  FaultyFileSystem(FileSystem& inner, FaultPlan plan);
  ~FaultyFileSystem() override;

  // Matching operations since the start or the last reset, and how many of them went wrong.
  std::uint64_t operations() const;
  std::uint64_t hits() const;
  // Starts again from zero, also for files that are open.
  void reset();
  void reset(const FaultPlan& plan);

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override;
  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow = true) override;
  Result<FileInfo> info(const At& at, bool follow = false) override;
  Status make_directory(const At& at, mode_t mode = 0777) override;
  Status remove_directory(const At& at) override;
  Status remove(const At& at) override;
  Status rename(const At& from, const At& to, bool exclusive = false) override;
  Status exchange(const At& one, const At& other) override;
  Status make_symlink(const std::string& target, const At& at) override;
  Result<std::string> read_symlink(const At& at) override;
  Result<std::vector<DirectoryEntry>> list(const At& at) override;
  Status sync_directory(const At& at) override;
  Result<SpaceInfo> space(const At& at) override;

 private:
  class Faults;
  class FaultyFile;

  // The failure of an operation that is to fail, else ok.
  Status strike(Operation operation, std::string_view tried, const At& at);

  FileSystem& inner_;
  std::shared_ptr<Faults> faults_;  // shared with the files, which may outlive this
};

}  // namespace scr
