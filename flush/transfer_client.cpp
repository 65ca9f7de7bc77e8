#include "flush/transfer_client.hpp"

#include <fmt/format.h>

#include <thread>

#include "core/base/text.hpp"

namespace scr::flush {

namespace {

constexpr std::chrono::milliseconds kPause{50};

}  // namespace

// Shared, so that processes that ask at the same time do not take each other for the daemon.
bool TransferClient::daemon_lives() {
  auto lock =
      fs_.open(At(control_, std::string(kTransferDaemonLockName)), OpenOptions::read_write());
  if (!lock.ok()) return false;
  return (*lock)->lock(LockMode::kShared, /*wait=*/false).code() == StatusCode::kUnavailable;
}

Status TransferClient::submit(Transfer transfer) {
  return update_transfer_file(fs_, control_, [&](TransferFile& file) {
    file.command = TransferCommand::kRun;
    file.put(std::move(transfer));
    return true;
  });
}

Result<Transfer> TransferClient::look(const std::string& key, bool& served) {
  SCR_ASSIGN_OR_RETURN(TransferFile file, read_transfer_file(fs_, control_));
  served = file.command == TransferCommand::kRun && daemon_lives();
  Transfer* transfer = file.find(key);
  if (transfer == nullptr)
    return not_found(fmt::format("'{}' is no longer in the transfer file", key));
  return std::move(*transfer);
}

Status TransferClient::withdraw(const std::string& key) {
  bool busy = false;
  SCR_RETURN_IF_ERROR(update_transfer_file(fs_, control_, [&](TransferFile& file) {
    const Transfer* transfer = file.find(key);
    if (transfer == nullptr) return false;
    // A daemon that starts now cannot see the transfer before we let go of the file.
    busy = transfer->pending() && file.state == TransferState::kRunning && daemon_lives();
    if (!busy) file.remove(key);
    return !busy;
  }));
  if (!busy) return {};
  return {StatusCode::kUnavailable, "scr_transfer is copying"};
}

Status TransferClient::take_over(std::chrono::milliseconds patience) {
  SCR_ASSIGN_OR_RETURN(const bool there, fs_.exists(At(control_, std::string(kTransferFileName))));
  if (!there) return {};
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;; std::this_thread::sleep_for(kPause)) {
    bool busy = false;
    SCR_RETURN_IF_ERROR(update_transfer_file(fs_, control_, [&](TransferFile& file) {
      busy = file.state == TransferState::kRunning && daemon_lives();
      file.command = TransferCommand::kStop;
      file.transfers.clear();
      return true;
    }));
    if (!busy) return {};
    if (std::chrono::steady_clock::now() >= end) break;
  }
  return {StatusCode::kUnavailable,
          fmt::format("the scr_transfer of '{}' goes on copying for an earlier run although "
                      "it was told to stop; end it by hand",
                      control_.path())};
}

}  // namespace scr::flush
