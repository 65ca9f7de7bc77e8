// LogFile: a shared file whose bytes are in one log for each process (log.hpp), found through the
// homes of its stripes (home.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "core/mpi/communicator.hpp"
#include "core/shared_file/log.hpp"
#include "core/shared_file/log_reader.hpp"

namespace scr::shared_file {

class LogFile final : public SharedFile {
 public:
  struct Closed {
    Status status;
    bool written = false;  // by some process: there is a new version
    bool plain = false;    // it is at its name already, see move()
    bool gone = false;     // some process has deleted it
    std::uint64_t size = 0;
    std::optional<std::uint32_t> log_crc;  // of this process's log, if it is known
  };
  struct Options {
    std::shared_ptr<Communicator> comm;  // all that have it open
    std::uint64_t id = 0;
    LogPlace place;  // of this process's log
    std::uint32_t first_rank = 0;
    std::uint32_t number = 0;
    std::string name;      // for messages
    bool goes_on = false;  // with a log that was closed before
    bool created = false;  // there was no such file, so there is one now, even if nobody writes
    // Not collective: told at the end of close(), with the same status on all processes.
    std::function<Status(const Closed&)> closed;
    // Not collective: this process has deleted the file since it was opened.
    std::function<bool()> gone;
    // Not collective: told on the first process when it has published what it wrote before a sync.
    std::function<Status()> synced;
    // Collective: told when the file was synced so often that it must be meant to stay open.
    std::function<void(LogFile&)> stays_open;
    // Not collective: a file that all processes can reach, and have together, for what has no room
    // in the logs, each byte at its place. Without it that is an error.
    std::function<Result<std::unique_ptr<File>>()> open_more;
    // Collective, in close(): some log had no room, so the file is to be moved.
    std::function<void(LogFile&)> outgrown;
  };
  // `log`: of this process, none if the file is only read. `reader` has what the others wrote.
  LogFile(Options options, std::shared_ptr<const Homes> homes, std::unique_ptr<Log> log,
          std::unique_ptr<LogReader> reader)
      : options_(std::move(options)),
        homes_(std::move(homes)),
        log_(std::move(log)),
        written_(options_.goes_on || options_.created),
        reader_(std::move(reader)) {}

  Status write(std::span<const Range> ranges, std::span<const std::byte> data) override;
  Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> data) override;
  Status publish() override;
  bool has_unpublished() const override { return unpublished_; }
  Result<std::uint64_t> size() override;
  Status set_size(std::uint64_t size) override;
  Status reserve(std::uint64_t size) override;
  Status sync() override;
  Result<std::uint64_t> advance_pointer(std::uint64_t by) override;
  Status set_pointer(std::uint64_t to) override;
  Status lock() override;
  Status unlock() override;
  Status close() override;

  // From here on the bytes are in a plain file that every process can reach, at the name, and go
  // there directly. `open` opens a new one, `commit` gives it the name; both are called by the
  // first process, and `open` then by all. If it fails, the file is as before.
  struct Move {
    std::function<Result<std::unique_ptr<File>>(bool first)> open;
    std::function<Status()> commit;
  };
  // Collective over `comm`, which has all processes that have the file open. Others of it call
  // watch_move(). In a collective call of the file, or between begin_move() and end_move() on all.
  Status move(Communicator& comm, const Move& move);
  // Not collective: from here until end_move() no collective call of the file begins, so that none
  // finds it moved on some processes only. False: one is going on, and nothing is kept back.
  bool begin_move();
  void end_move();
  static Status watch_move(Communicator& comm);

 private:
  // A collective call of the file, in the thread that does it.
  class Collective {
   public:
    explicit Collective(LogFile& file);
    ~Collective();
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

   private:
    LogFile& file_;
  };
  Status copy_share(File& to, std::uint64_t size);
  Status publish_locked();
  Status begin_more();
  Status write_more(std::span<const Range> ranges, std::span<const std::byte> data);
  Status close_plain();
  Status take_over_base();
  Status take_over(const Range& range, std::span<std::byte> buffer);
  Result<std::optional<std::uint32_t>> finish_log(std::uint64_t size);
  Status read_only() const;
  void tell_cost() const;

  const Options options_;
  const std::shared_ptr<const Homes> homes_;
  std::mutex calls_mutex_;  // of the next three; never held together with another
  std::condition_variable calls_changed_;
  int collective_calls_ = 0;  // going on
  bool is_moving_ = false;
  std::mutex threads_;  // held from lock() to unlock()
  std::mutex mutex_;    // of the log and what follows
  std::unique_ptr<Log> log_;
  std::vector<Extent> entered_;    // what the homes do not know yet
  std::uint64_t entered_end_ = 0;  // where the file ends at least
  std::unique_ptr<File> more_;     // takes what is written when the log has no room any more
  std::vector<Extent> entered_more_;
  std::atomic<bool> unpublished_ = false;
  std::set<int> homes_told_;
  bool written_ = false;
  Status failure_;  // of the first write that failed
  int syncs_ = 0;
  std::unique_ptr<File> moved_;
  std::atomic<File*> plain_ = nullptr;  // the same, once it is in use
  std::unique_ptr<LogReader> reader_;
};

}  // namespace scr::shared_file
