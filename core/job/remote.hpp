// Runs commands on the nodes of a job: by srun, pdsh, ssh or mpirun, whichever is there, or by the
// command that SCR_REMOTE_SHELL names. On this host the command runs directly.
//
//   const RemoteShell shell = RemoteShell::choose(config, environment);
//   for (const RemoteResult& result : shell.run(nodes, {"scr_copy", ...}, {.timeout = 600s})) ...
//
// Each node has a process of its own here, so that one that is dead or slow disturbs no other.
// Standard input is empty. Thread-safe after choose().
#pragma once

#include "core/base/config.hpp"
#include "core/job/host_list.hpp"
#include "core/job/process.hpp"

namespace scr::job {

struct RemoteResult {
  std::string host = {};
  ProcessResult process = {};
};

class RemoteShell {
 public:
  enum class Kind { kNone, kAgent, kSrun, kPdsh, kSsh, kMpirun };

  // In this order: SCR_REMOTE_SHELL, srun in a job of Slurm, pdsh, ssh, mpirun.
  static Result<RemoteShell> choose(const config::Config& config,
                                    const config::Environment& environment);

  Kind kind() const { return kind_; }
  // For people: "ssh", or the command of SCR_REMOTE_SHELL.
  std::string name() const;

  // The words that run a command on a host.
  Words command(const std::string& host, const Words& words) const;
  // The same for what runs beside the program: under Slurm a step of its own also on this host,
  // so that the batch script's limits and its end are not those of the daemon.
  Words own_step(const std::string& host, const Words& words) const;

  // Runs one command on all hosts, at most `at_once` at a time. Results in the order of the hosts.
  std::vector<RemoteResult> run(const Hosts& hosts, const Words& words,
                                const ProcessOptions& options = {}) const;
  // The same with a command for each host.
  std::vector<RemoteResult> run(const std::vector<std::pair<std::string, Words>>& commands,
                                const ProcessOptions& options = {}) const;

 private:
  Words there(const std::string& host, const Words& words) const;

  Kind kind_ = Kind::kNone;
  Words agent_;
  std::string job_id_;
};

}  // namespace scr::job
