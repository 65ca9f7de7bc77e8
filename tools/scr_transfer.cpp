// scr_transfer: the daemon of SCR_FLUSH_TYPE=DAEMON, one per node (docs/transfer.md).
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <thread>

#include "core/base/path.hpp"
#include "flush/transfer_daemon.hpp"
#include "tools/command.hpp"

namespace {

using scr::FileSystem;
using scr::Status;
using scr::flush::TransferDaemon;
using scr::flush::TransferDaemonOptions;

std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "it is set by a signal handler");

void ask_to_stop(int /*signal*/) { stop = true; }

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = ask_to_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGHUP, SIG_IGN);  // it outlives the terminal or script that started it
}

// What is there and no directory never becomes one.
bool may_come(FileSystem& fs, const std::string& control) {
  const auto found = fs.info(control, /*follow=*/true);
  return found.ok() ? found->type == scr::FileInfo::Type::kDirectory
                    : found.status().errno_value() == ENOENT;
}

// The daemon may be started before the job has made its control directory.
Status run(FileSystem& fs, const std::string& control, const TransferDaemonOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  while (!stop) {
    auto daemon = TransferDaemon::open(fs, control);
    if (daemon.ok()) return (*daemon)->run(options, stop);
    const bool missing = daemon.status().code() == scr::StatusCode::kNotFound;
    if (!missing || options.once || !may_come(fs, control)) return daemon.status();
    const bool idle = options.idle_exit.count() > 0 &&
                      std::chrono::steady_clock::now() - start >= options.idle_exit;
    if (idle) return {};
    std::this_thread::sleep_for(std::min(options.poll, TransferDaemonOptions().poll));
  }
  return {};
}

Status send(FileSystem& fs, const std::string& control, scr::flush::TransferCommand command) {
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(control));
  return scr::flush::update_transfer_file(fs, *directory, [&](scr::flush::TransferFile& file) {
    file.command = command;
    return true;
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Copies datasets from the cache of this node to the prefix directory in the background, as "
      "the transfer file in CONTROL tells. Goes on when the program dies."};
  app.footer(
      "CONTROL is <SCR_CNTL_BASE>/<user>/scr.<job id>; it may be made later. SIGTERM ends the "
      "daemon after\n"
      "the current burst of bytes; what it wrote is kept and taken up again.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 another scr_transfer works for CONTROL.");
  std::string control;
  TransferDaemonOptions options;
  double poll = options.poll.count();
  double idle_exit = 0;
  scr::flush::TransferCommand command{};
  const std::map<std::string, scr::flush::TransferCommand> commands = {
      {"RUN", scr::flush::TransferCommand::kRun},
      {"STOP", scr::flush::TransferCommand::kStop},
      {"EXIT", scr::flush::TransferCommand::kExit}};
  app.add_option("CONTROL", control, "Control directory of the job on this node")->required();
  app.add_flag("--once", options.once, "Copy what is there to copy, then end");
  app.add_option("--poll", poll, "Seconds between two looks at the transfer file")
      ->check(scr::tools::number_between(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--idle-exit", idle_exit, "End after so many seconds without work (0: never)")
      ->check(scr::tools::number_between(0, 1e9))
      ->capture_default_str();
  auto* send_option =
      app.add_option("--send", command, "Only give the daemon a command: RUN, STOP or EXIT")
          ->transform(CLI::CheckedTransformer(commands));
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  options.poll = std::chrono::duration<double>(poll);
  options.idle_exit = std::chrono::duration<double>(idle_exit);
  umask(0);  // the transfer file has the mode that the program would have used
  catch_signals();
  FileSystem& fs = scr::file_system();
  auto path = scr::normalize(control);
  Status status = path.status();
  if (status.ok())
    status = send_option->count() > 0 ? send(fs, *path, command) : run(fs, *path, options);
  if (status.ok()) return 0;
  fmt::print(stderr, "scr_transfer: {}\n", status.message());
  return status.code() == scr::StatusCode::kUnavailable ? 3 : 1;
}
