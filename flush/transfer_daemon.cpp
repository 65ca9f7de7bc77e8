#include "flush/transfer_daemon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "flush/confined_files.hpp"
#include "flush/intent.hpp"

namespace scr::flush {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kTellEvery{1.0};
constexpr int kPollShare = 20;  // looking at a long transfer file takes at most 1/20 of the time
constexpr Seconds kLockPatience{2.0};
constexpr Seconds kOwnerPatience{30.0};  // giving up costs the whole transfer
constexpr Seconds kNap{0.05};

// Those who only want to know whether somebody has a lock take it for a moment themselves.
Status lock_with_patience(File& file, LockMode mode, Seconds patience) {
  for (const auto end = Clock::now() + patience;; std::this_thread::sleep_for(kNap)) {
    Status locked = file.lock(mode, /*wait=*/false);
    if (locked.code() != StatusCode::kUnavailable || Clock::now() >= end) return locked;
  }
}

// In naps, since a signal does not end a sleep of this kind.
void sleep_unless(const std::atomic<bool>& stop, Seconds time) {
  for (const auto end = Clock::now() + time; !stop && Clock::now() < end;) {
    std::this_thread::sleep_for(std::min<Seconds>(kNap, end - Clock::now()));
  }
}

// The copier goes through the files in order.
void spread_bytes(Transfer& transfer, std::uint64_t bytes) {
  for (TransferTask& task : transfer.tasks) {
    task.written = std::min(bytes, task.copy.size);
    bytes -= task.written;
  }
}

// A copy in a thread of its own; ends with the object.
class CopyThread {
 public:
  CopyThread(FileSystem& fs, std::vector<CopyTask>& tasks, const CopyOptions& options)
      : thread_([this, &fs, &tasks, options] {
          Status status = copy_all(fs, tasks, options, progress_);
          const std::lock_guard lock(mutex_);
          status_ = std::move(status);
          ended_ = true;
          changed_.notify_all();
        }) {}
  ~CopyThread() {
    cancel();
    if (thread_.joinable()) thread_.join();
  }
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  bool wait_for(Seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return ended_; });
  }
  void cancel() { progress_.cancel = true; }
  std::uint64_t bytes_done() const { return progress_.bytes_done; }
  Status join() {
    thread_.join();
    return status_;
  }

 private:
  CopyProgress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  Status status_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<TransferDaemon>> TransferDaemon::open(FileSystem& fs,
                                                             const std::string& control) {
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(control));
  SCR_RETURN_IF_ERROR(check_private_directory(fs, *directory));
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  options.mode = 0600;
  SCR_ASSIGN_OR_RETURN(auto lock,
                       fs.open(At(*directory, std::string(kTransferDaemonLockName)), options));
  const Status locked = lock_with_patience(*lock, LockMode::kExclusive, kLockPatience);
  if (locked.code() == StatusCode::kUnavailable) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("another scr_transfer works for '{}'", control));
  }
  SCR_RETURN_IF_ERROR(locked);
  // One that was killed could not say that it stopped.
  SCR_RETURN_IF_ERROR(update_transfer_file(fs, *directory, [](TransferFile& file) {
    return std::exchange(file.state, TransferState::kStopped) != TransferState::kStopped;
  }));
  return std::unique_ptr<TransferDaemon>(
      new TransferDaemon(fs, std::move(directory), std::move(lock)));
}

TransferDaemon::~TransferDaemon() = default;

// From the look at the command to the state RUNNING under one lock: who sets STOP and then sees
// STOPPED can rely on it.
Result<TransferDaemon::Next> TransferDaemon::take_next() {
  Next next;
  SCR_RETURN_IF_ERROR(update_transfer_file(fs_, *control_, [&](TransferFile& file) {
    if (file.command == TransferCommand::kExit) {
      next.exit = true;
      file.command = TransferCommand::kStop;  // the next daemon shall not obey it as well
      return true;
    }
    if (file.command != TransferCommand::kRun) return false;
    const auto found = std::find_if(file.transfers.begin(), file.transfers.end(),
                                    [](const Transfer& transfer) { return transfer.pending(); });
    if (found == file.transfers.end()) return false;
    file.state = TransferState::kRunning;
    next.transfer = std::make_unique<Transfer>(*found);
    return true;
  }));
  return next;
}

bool TransferDaemon::removed() {
  const auto found = fs_.info(At(*control_, std::string(kTransferDaemonLockName)));
  return !found.ok() && found.status().code() == StatusCode::kNotFound;
}

Status TransferDaemon::run(const TransferDaemonOptions& options, const std::atomic<bool>& stop) {
  auto idle_since = Clock::now();
  std::string last_problem;
  while (!stop && !removed()) {
    auto next = take_next();
    if (!next.ok() && options.once) return next.status();
    if (!next.ok() && next.status().message() != last_problem) {
      last_problem = next.status().message();
      log::warning("{}", last_problem);
    }
    if (next.ok() && next->exit) return {};
    if (next.ok() && next->transfer) {
      work_on(std::move(*next->transfer), options, stop);
      idle_since = Clock::now();
      continue;
    }
    if (options.once) return {};
    if (options.idle_exit.count() > 0 && Clock::now() - idle_since >= options.idle_exit) return {};
    sleep_unless(stop, options.poll);
  }
  return {};
}

void TransferDaemon::work_on(Transfer transfer, const TransferDaemonOptions& options,
                             const std::atomic<bool>& stop) {
  log::info("copying dataset {} of rank {}: {} file(s)", transfer.dataset, transfer.rank,
            transfer.tasks.size());
  bool cancelled = false;
  const Status status = copy(transfer, options, stop, cancelled);
  if (status.ok()) log::info("copied dataset {} of rank {}", transfer.dataset, transfer.rank);
  if (!status.ok() && !cancelled) log::error("{}", status.message());
  const Status told = update_transfer_file(fs_, *control_, [&](TransferFile& file) {
    file.state = TransferState::kStopped;
    Transfer* entry = file.find(transfer.key());
    if (entry == nullptr) return true;
    if (status.ok()) {
      transfer.done = true;
      *entry = transfer;
    } else if (!cancelled) {
      entry->error = text::escape(status.message());
    }
    return true;
  });
  if (!told.ok()) log::error("{}", told.message());
}

// A flush that has ended, or of which nobody knows, must not get files under temporary names any
// more.
Status TransferDaemon::check_wanted(const JobOwnerInfo& owner, const Transfer& transfer) {
  DatasetDescriptor dataset;
  dataset.id = transfer.dataset;
  dataset.created = transfer.created;
  SCR_ASSIGN_OR_RETURN(const std::string begun, find_intent(fs_, owner.prefix, dataset));
  if (begun.empty()) {
    return failed_precondition(
        fmt::format("no flush of dataset {} is under way in '{}'", transfer.dataset, owner.prefix));
  }
  SCR_ASSIGN_OR_RETURN(const Intent intent, read_intent(fs_, owner.prefix + "/.scr/" + begun));
  if (intent.attempt == transfer.attempt) return {};
  return failed_precondition(fmt::format("another run has taken up the flush of dataset {} in '{}'",
                                         transfer.dataset, owner.prefix));
}

Status TransferDaemon::copy(Transfer& transfer, const TransferDaemonOptions& options,
                            const std::atomic<bool>& stop, bool& cancelled) {
  // scr_clean leaves a job alone whose directory is locked.
  SCR_ASSIGN_OR_RETURN(
      auto in_use, fs_.open(At(*control_, std::string(kOwnerLockName)), OpenOptions::read_write()));
  SCR_RETURN_IF_ERROR(lock_with_patience(*in_use, LockMode::kShared, kOwnerPatience));
  SCR_ASSIGN_OR_RETURN(const JobOwnerInfo owner, read_owner_file(fs_, *control_));
  SCR_RETURN_IF_ERROR(check_wanted(owner, transfer));
  SCR_ASSIGN_OR_RETURN(auto files, ConfinedFiles::open_job(fs_, owner));
  // A run on other nodes cannot tell this daemon to stop, but it takes up the flush or ends it.
  files->before_each_destination([&] { return check_wanted(owner, transfer); });
  std::vector<CopyTask> tasks;
  for (const TransferTask& task : transfer.tasks) tasks.push_back(task.copy);
  CopyOptions copy_options;
  copy_options.resume = true;
  copy_options.bytes_per_second = transfer.bytes_per_second;
  copy_options.percent = transfer.percent;
  copy_options.mode = transfer.mode;
  CopyThread thread(*files, tasks, copy_options);
  const Seconds shortest =
      std::min(options.poll, kTellEvery);  // an order to stop must not wait long
  Seconds pause = shortest;
  for (auto told = Clock::now(); !thread.wait_for(pause);) {
    const auto start = Clock::now();
    const bool tell = start - told >= kTellEvery;
    const bool wanted = look_after(transfer.key(), thread.bytes_done(), tell) &&
                        (!tell || check_wanted(owner, transfer).ok());
    if (tell) told = Clock::now();
    pause = std::max<Seconds>(shortest, kPollShare * (Clock::now() - start));
    if (wanted && !stop) continue;
    cancelled = true;
    thread.cancel();
  }
  const Status status = thread.join();
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    transfer.tasks[i].copy = std::move(tasks[i]);
    transfer.tasks[i].written = transfer.tasks[i].copy.size;
  }
  return {};
}

bool TransferDaemon::look_after(const std::string& key, std::uint64_t bytes_done, bool tell) {
  bool wanted = false;
  const auto look = [&](TransferFile& file) {
    Transfer* entry = file.find(key);
    wanted = file.command == TransferCommand::kRun && entry != nullptr;
    if (entry != nullptr) spread_bytes(*entry, bytes_done);
    return entry != nullptr;
  };
  if (tell) return update_transfer_file(fs_, *control_, look).ok() && wanted;
  auto file = read_transfer_file(fs_, *control_);
  return file.ok() && (look(*file), wanted);
}

}  // namespace scr::flush
