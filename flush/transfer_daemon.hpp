// TransferDaemon: copies what the transfer file of a node lists, whether or not the program still
// runs. For the command scr_transfer. It copies in a thread and looks after the transfer file in
// the caller's.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "core/base/job_owner.hpp"
#include "flush/transfer_file.hpp"

namespace scr::flush {

struct TransferDaemonOptions {
  bool once = false;                           // ends when nothing is left to copy
  std::chrono::duration<double> poll{0.25};    // between two looks at the transfer file
  std::chrono::duration<double> idle_exit{0};  // ends after so long without work; 0: never
};

class TransferDaemon {
 public:
  // kNotFound if there is no such directory (yet); kUnavailable if another daemon works there.
  static Result<std::unique_ptr<TransferDaemon>> open(FileSystem& fs, const std::string& control);
  ~TransferDaemon();
  TransferDaemon(const TransferDaemon&) = delete;
  TransferDaemon& operator=(const TransferDaemon&) = delete;

  // Until `stop` is set (by a signal handler), the EXIT command comes, the control directory is
  // removed, or the options say so. A transfer that fails is no failure of the daemon: the transfer
  // file has the reason.
  Status run(const TransferDaemonOptions& options, const std::atomic<bool>& stop);

 private:
  TransferDaemon(FileSystem& fs, std::unique_ptr<Directory> control, std::unique_ptr<File> lock)
      : fs_(fs), control_(std::move(control)), lock_(std::move(lock)) {}

  struct Next {
    bool exit = false;
    std::unique_ptr<Transfer> transfer;
  };
  Result<Next> take_next();
  void work_on(Transfer transfer, const TransferDaemonOptions& options,
               const std::atomic<bool>& stop);
  Status copy(Transfer& transfer, const TransferDaemonOptions& options,
              const std::atomic<bool>& stop, bool& cancelled);
  Status check_wanted(const JobOwnerInfo& owner, const Transfer& transfer);
  // True if the transfer is still to be copied. Tells the file how far it is from time to time.
  bool look_after(const std::string& key, std::uint64_t bytes_done, bool tell);
  bool removed();

  FileSystem& fs_;
  std::unique_ptr<Directory> control_;
  std::unique_ptr<File> lock_;
};

}  // namespace scr::flush
