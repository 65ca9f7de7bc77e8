// TransferClient: the job's side of the transfer file. MPI-free; may be used from a background
// thread.
#pragma once

#include <chrono>
#include <string>

#include "flush/transfer_file.hpp"

namespace scr::flush {

class TransferClient {
 public:
  TransferClient(FileSystem& fs, const Directory& control) : fs_(fs), control_(control) {}

  // Gives the daemon something to copy. It may be there only later.
  Status submit(Transfer transfer);
  // What the daemon has made of it. `served`: a daemon lives and has no order to stop.
  Result<Transfer> look(const std::string& key, bool& served);
  // Takes it back; the daemon will not touch it again. kUnavailable while the daemon may be copying
  // it.
  Status withdraw(const std::string& key);
  // At the start of a run: stops the daemon and takes back all that earlier runs gave it.
  Status take_over(std::chrono::milliseconds patience = std::chrono::seconds(60));

  bool daemon_lives();

 private:
  FileSystem& fs_;
  const Directory& control_;
};

}  // namespace scr::flush
