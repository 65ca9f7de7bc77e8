// Starts a program, starts it again after a failure on the nodes that are left, and saves its last
// checkpoint in the end: what scr_run does (SCR manual §11.3).
//
// One per process: it takes over SIGTERM, SIGINT and SIGHUP, which end the program and the loop.
#pragma once

#include <optional>
#include <string>

#include "core/base/halt_file.hpp"
#include "core/job/down_nodes.hpp"
#include "core/job/job_settings.hpp"
#include "core/job/launch_command.hpp"
#include "core/job/remote.hpp"
#include "core/job/restart_choice.hpp"
#include "core/job/runtime_check.hpp"

namespace scr::job {

struct RunLoopOptions {
  // Words of the program for a restart; SCR_CKPT_NAME in them becomes the checkpoint's name.
  Words restart_program = {};
  std::optional<std::int64_t> runs = {};        // instead of SCR_RUNS; -1: no limit
  std::optional<std::uint64_t> min_nodes = {};  // instead of SCR_MIN_NODES
  double wait = 60;                             // seconds before the program is started again
  bool outside = false;                         // this host need not be a node of the job
  bool transfer = false;                        // starts scr_transfer on the nodes
  bool post_run = true;                         // calls scr_postrun in the end
  std::optional<std::string> drill = {};        // a node to lose on purpose; "": any
};

class RunLoop {
 public:
  // Finds nodes and remote shell; kFailedPrecondition if the job cannot run from here.
  static Result<RunLoop> prepare(const JobSettings& job, LaunchCommand command, Hdf5Way hdf5,
                                 RunLoopOptions options);

  // To the end; the exit code of the last run, or kOwnFailure.
  int run();
  static constexpr int kOwnFailure = 125;

  const Hosts& nodes() const { return nodes_; }
  const RemoteShell& shell() const { return shell_; }
  const LaunchCommand& command() const { return command_; }
  std::int64_t runs() const;  // at most; negative: no limit
  // The next command line, with what was found of nodes so far.
  Result<LaunchCommand> next_command();

 private:
  RunLoop(const JobSettings& job, LaunchCommand command, RunLoopOptions options)
      : job_(&job), command_(std::move(command)), options_(std::move(options)) {}

  enum class End { kItself, kWatchdog, kHalt, kSignal, kDrill };
  struct Outcome {
    int exit_code = 0;
    End end = End::kItself;
    std::string why = {};  // it was ended
  };

  std::optional<std::string> reason_to_stop(HaltQuestion question);
  Status find_nodes();
  Status look_for_down_nodes();
  Hosts left() const;
  Result<std::size_t> nodes_needed();
  Status check_enough();
  Result<Outcome> launch();
  Outcome supervise(Child& child);
  Outcome end_child(Child& child, End end, std::string why);
  bool wait_before_relaunch();
  void end_leftovers(const Hosts& hosts);
  void start_transfer();
  void stop_transfer();
  void post_run();
  CachedCheckpoint newest_in_cache();
  std::string restart_name();
  void lose_a_node();
  void judge_drill();

  const JobSettings* job_;
  LaunchCommand command_;
  RunLoopOptions options_;
  Hdf5Way hdf5_ = Hdf5Way::kUnknown;
  RemoteShell shell_;
  Hosts nodes_;
  std::string own_;  // this host as the list of nodes has it; empty if it is outside
  std::vector<DownNode> down_;
  EventLog log_;
  JobLimits limits_;
  int attempt_ = 0;
  bool launched_ = false;  // at least once
  std::string run_id_;
  std::vector<Child> daemons_;
  bool drill_pending_ = false;
  std::string drilled_;
};

}  // namespace scr::job
