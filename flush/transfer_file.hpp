// The transfer file: what the scr_transfer daemon of a node is to copy, and how far it is (SCR
// manual §9.7).
//
// One in the control directory of each node. Processes of the job add transfers, each the part of
// one process in the flush of one dataset; the daemon marks what it has done; the process takes its
// transfer out again. All of them change the file through update_transfer_file() alone. Format:
// docs/formats/transfer.md.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash_file.hpp"
#include "flush/copy.hpp"

namespace scr::flush {

inline constexpr std::string_view kTransferFileName = "transfer.scrinfo";
// Held exclusively by the daemon as long as it lives: the kernel lets go of it, however the daemon
// ends.
inline constexpr std::string_view kTransferDaemonLockName = "transfer_daemon.scrinfo.lock";

// A file to copy, and how many of its bytes are written; only Transfer::done says that they are
// durable.
struct TransferTask {
  CopyTask copy = {};
  std::uint64_t written = 0;
};

struct Transfer {
  int dataset = 0;
  std::int64_t created = 0;  // of the dataset, which tells it from others with its id
  std::int64_t attempt = 1;  // of the flush: once another run takes it up, this one is not wanted
  int rank = 0;              // of the process that asked
  double bytes_per_second = 0;  // for the daemon of this node, 0: no limit
  double percent = 0;
  mode_t mode = 0666;  // of new files
  std::vector<TransferTask> tasks = {};
  bool done = false;       // all copied and durable; the checksums of all pieces are known
  std::string error = {};  // why the daemon gave up; empty if it did not

  // "<dataset>.<created>.<rank>"
  std::string key() const;
  bool pending() const { return !done && error.empty(); }
  std::uint64_t written() const;
};

enum class TransferCommand { kRun, kStop, kExit };
enum class TransferState { kStopped, kRunning };

struct TransferFile {
  TransferCommand command = TransferCommand::kStop;  // from the job
  TransferState state = TransferState::kStopped;     // from the daemon
  std::vector<Transfer> transfers = {};              // in the order they were added

  Transfer* find(std::string_view key);
  // Adds, or replaces one of the same key.
  void put(Transfer transfer);
  void remove(std::string_view key);

  Hash to_hash() const;
  // Every number and path is checked for itself; where paths may lead to is checked by who opens
  // them.
  static Result<TransferFile> from_hash(const Hash& hash);
};

// A file that does not exist reads as an empty one.
Result<TransferFile> read_transfer_file(FileSystem& fs, const Directory& control);
// Read, change, write under a lock. `change` tells whether there is anything to write.
Status update_transfer_file(FileSystem& fs, const Directory& control,
                            const std::function<bool(TransferFile&)>& change);

}  // namespace scr::flush
