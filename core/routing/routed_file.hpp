// RoutedFile: an open file of a program that does not know of h5scr, wherever its bytes are.
//
// It looks like one file, while its bytes may be in the cache, on another node, in a container or
// at the name itself, and may move while it is open. Any thread may use it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <shared_mutex>
#include <string>

#include "core/base/filesystem.hpp"

namespace scr::config {
struct RouteRule;
}

namespace scr::routing {

class Session;

struct Marker;

// There is a marker, but the data is not to be reached.
Status no_data(std::string_view absolute, const Marker& marker);
// The answer to a program that wants others to read a routed file while it writes.
Status no_swmr(std::string_view absolute);

class RoutedFile final : public File {
 public:
  enum class Role {
    kReader,
    kUpdater,  // opened for changes, but not changed yet: reads the newest copy, which is never
               // changed in place, and becomes a writer of a new version at the first change
    kWriter,   // writes a file of the present window
    kLive,     // writes a file without a name, of which snapshots are files of windows
    kPlain,    // moved to its own name in the prefix directory; no longer of interest to h5scr
  };

  RoutedFile(Session& session, std::string absolute, std::unique_ptr<File> file, Role role);
  ~RoutedFile() override;

  // H5Fflush, MPI_File_sync: what was written so far should outlive the program.
  Status flush_hint();

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override;
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override;
  Result<FileInfo> info() override;
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  Status sync() override;
  Status set_mode(mode_t mode) override;
  Result<Mapping> map(std::uint64_t offset, std::size_t length) override;
  Status lock(LockMode mode, bool wait) override;
  Status unlock() override;
  Status close() override;
  const std::string& path() const override { return absolute_; }
  int descriptor() const override;

  Role role() const { return role_; }
  // The program has taken this lock of flock() on the descriptor, LOCK_SH or LOCK_EX, or has given
  // it back (0): a file that takes the place of the present one gets it too.
  void note_lock(int lock) { held_lock_ = lock; }

 private:
  friend class Session;
  // Before a change: an updater becomes a writer.
  Status before_change();
  // After a change: the session must know of one that failed. Returns the same. Without locks.
  Status after_change(const Status& status);
  // Puts another file in the place of the present one. The session calls this with its lock held.
  void replace(std::unique_ptr<File> file, Role role);

  Session& session_;
  const std::string absolute_;
  mutable std::shared_mutex mutex_;  // held alone only to replace or close the file
  std::unique_ptr<File> file_;
  std::atomic<Role> role_;
  std::atomic<int> held_lock_ = 0;
  std::atomic<bool> cut_off_ = false;  // what is written would reach nobody
  std::atomic<bool> open_ = true;      // changes under the mutex
  std::atomic<bool> changed_ = true;   // since the last snapshot
  // Under the session's lock:
  // Of a file that was moved to its name: whose closes this one is among (COMPLETE=CLOSE).
  const config::RouteRule* counted_by_ = nullptr;
  int flushes_ = 0;
  int passed_ = 0;  // times that the program went on to write and close others meanwhile
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
};

}  // namespace scr::routing
