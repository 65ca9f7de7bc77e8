#include "core/job/remote.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/job/batch_system.hpp"

namespace scr::job {

Result<RemoteShell> RemoteShell::choose(const config::Config& config,
                                        const config::Environment& environment) {
  RemoteShell shell;
  auto agent = split_words(config.get_string("SCR_REMOTE_SHELL"));
  if (!agent.ok()) return agent.status().with_context("SCR_REMOTE_SHELL");
  if (!agent->empty()) {
    shell.kind_ = Kind::kAgent;
    shell.agent_ = *std::move(agent);
    return shell;
  }
  if (detect_batch_system(environment) == BatchSystem::kSlurm) {
    shell.job_id_ = environment.get("SLURM_JOB_ID").value_or("");
    if (find_program("srun")) shell.kind_ = Kind::kSrun;
  }
  const std::pair<const char*, Kind> others[] = {
      {"pdsh", Kind::kPdsh}, {"ssh", Kind::kSsh}, {"mpirun", Kind::kMpirun}};
  for (const auto& [program, kind] : others) {
    if (shell.kind_ == Kind::kNone && find_program(program)) shell.kind_ = kind;
  }
  return shell;
}

std::string RemoteShell::name() const {
  switch (kind_) {
    case Kind::kNone:
      return "none";
    case Kind::kAgent:
      return shell_quoted(agent_);
    case Kind::kSrun:
      return "srun";
    case Kind::kPdsh:
      return "pdsh";
    case Kind::kSsh:
      return "ssh";
    case Kind::kMpirun:
      return "mpirun";
  }
  return {};
}

Words RemoteShell::command(const std::string& host, const Words& words) const {
  return own_name_in_list(Hosts{host}, log::host_name()) == host ? words : there(host, words);
}

Words RemoteShell::own_step(const std::string& host, const Words& words) const {
  return kind_ == Kind::kSrun ? there(host, words) : command(host, words);
}

Words RemoteShell::there(const std::string& host, const Words& words) const {
  Words result;
  // ssh, pdsh and agents hand a text to a shell on the other side, so every word is quoted for it.
  switch (kind_) {
    case Kind::kNone:
      return {};
    case Kind::kAgent:
      result = agent_;
      result.insert(result.end(), {host, shell_quoted(words)});
      return result;
    case Kind::kPdsh:
      return {"pdsh", "-N", "-S", "-w", host, shell_quoted(words)};
    case Kind::kSsh:
      return {"ssh",
              "-x",
              "-o",
              "BatchMode=yes",
              "-o",
              "ConnectTimeout=10",
              host,
              "--",
              shell_quoted(words)};
    case Kind::kSrun:
      // Beside the program's own step, on resources that it holds already.
      result = {"srun",       "--jobid=" + job_id_, "--overlap",    "--nodes=1",
                "--ntasks=1", "--nodelist=" + host, "--input=none", "--quiet",
                "--mem=0",    "--cpu-bind=none",    "--mpi=none"};
      break;
    case Kind::kMpirun:
      result = {"mpirun", "-n", "1", "-host", host};
      break;
  }
  result.insert(result.end(), words.begin(), words.end());
  return result;
}

std::vector<RemoteResult> RemoteShell::run(const Hosts& hosts, const Words& words,
                                           const ProcessOptions& options) const {
  std::vector<std::pair<std::string, Words>> commands;
  for (const std::string& host : hosts) commands.emplace_back(host, words);
  return run(commands, options);
}

std::vector<RemoteResult> RemoteShell::run(
    const std::vector<std::pair<std::string, Words>>& commands,
    const ProcessOptions& options) const {
  std::vector<Words> programs;
  for (const auto& [host, words] : commands) programs.push_back(command(host, words));
  std::vector<ProcessResult> results = run_programs(programs, options);
  std::vector<RemoteResult> all;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    all.push_back({commands[i].first, std::move(results[i])});
    if (programs[i].empty()) {
      all.back().process.errors =
          "there is no srun, pdsh, ssh or mpirun to run commands on other nodes; set "
          "SCR_REMOTE_SHELL";
    }
  }
  return all;
}

}  // namespace scr::job
