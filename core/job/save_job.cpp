#include "core/job/save_job.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/alone_jobs.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/installation.hpp"
#include "core/job/remote.hpp"
#include "core/routing/deletions.hpp"
#include "flush/index.hpp"

namespace scr::job {
namespace {

mode_t current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

// Nodes that may have something in their caches, and those that cannot be asked.
struct Nodes {
  Hosts up;
  Hosts down;
};

// A node that the user excludes from runs may well hold data, so only those count as down that are.
Result<Nodes> find_nodes(const JobSettings& job, const SaveJobOptions& options) {
  Hosts all;
  if (options.nodes) {
    all = unique_hosts(*options.nodes);
  } else {
    SCR_ASSIGN_OR_RETURN(all, job_nodes(job.fs(), job.config(), job.environment()));
  }
  Nodes nodes;
  for (const std::string& host : options.down) {
    if (const std::string name = name_in_list(all, host); !name.empty()) nodes.down.push_back(name);
  }
  nodes.up = hosts_minus(all, nodes.down);
  const Hosts known = nodes_known_as_down(job.environment(), nodes.up);
  nodes.down.insert(nodes.down.end(), known.begin(), known.end());
  nodes.up = hosts_minus(nodes.up, known);
  if (nodes.up.empty()) return failed_precondition("none of the job's nodes is up");
  return nodes;
}

// Runs scr_copy on nodes. A node that fails writes no report, or one that says why; its last words
// are for the user.
Status run_on_nodes(const RemoteShell& shell, const SaveJobOptions& options,
                    const std::vector<std::string>& nodes, const flush::NodeCommand& command) {
  std::vector<std::pair<std::string, Words>> commands;
  for (const std::string& host : nodes) {
    Words words = {find_installation().bin + "/scr_copy"};
    const auto arguments = flush::to_words(command, host);
    words.insert(words.end(), arguments.begin(), arguments.end());
    commands.emplace_back(host, std::move(words));
  }
  ProcessOptions process;
  process.timeout = command.kind == flush::NodeCommand::Kind::kCopy ? options.copy_timeout
                                                                    : options.answer_timeout;
  process.at_once = nodes.size();
  for (const RemoteResult& result : shell.run(commands, process)) {
    if (result.process.ok() || !options.say) continue;
    options.say(
        fmt::format("scr_copy on {}: {}", result.host, text::escape(result.process.summary())));
  }
  return {};
}

// What a node says to have in the cache of a process that worked alone.
struct FoundAlone {
  std::string host;
  AloneDataset dataset;
};

std::vector<FoundAlone> find_alone(const JobSettings& job, const RemoteShell& shell,
                                   const SaveJobOptions& options,
                                   const std::vector<std::string>& nodes) {
  const Words ask = {find_installation().bin + "/scr_flush_file", "--dir", job.control_directory(),
                     "--list-alone", "--json"};
  std::vector<FoundAlone> found;
  for (const RemoteResult& answer : shell.run(nodes, ask, {.timeout = options.answer_timeout})) {
    for (AloneDataset& one : parse_alone_datasets(answer.process.output, job.info().job_id))
      found.push_back({answer.host, std::move(one)});
  }
  return found;
}

// None is forgotten: one that nobody could save is told, with what the user can do.
void tell_of_unsaved(const std::vector<FoundAlone>& found, flush::SaveOutcome& outcome) {
  for (const FoundAlone& alone : found) {
    const AloneDataset& one = alone.dataset;
    const bool tried = std::ranges::any_of(outcome.datasets, [&](const auto& saved) {
      return saved.job_id == one.job_id && saved.dataset.id == one.id;
    });
    if (tried) continue;
    flush::SavedDataset saved;
    saved.job_id = one.job_id;
    saved.dataset.id = one.id;
    saved.dataset.name = one.name;
    saved.message = fmt::format(
        "it should be in the cache of {0}, but was not found there; try 'scr_scavenge --jobid {1} "
        "--nodes {0} --id {2}'",
        alone.host, one.job_id, one.id);
    outcome.datasets.push_back(std::move(saved));
  }
}

// What processes that worked alone left, such as serial programs: each has a job of its own.
Status save_alone(const JobSettings& job, const RemoteShell& shell, const SaveJobOptions& options,
                  const flush::SaveRequest& all, flush::SaveOutcome& outcome) {
  const std::vector<FoundAlone> found = find_alone(job, shell, options, all.nodes);
  std::set<std::pair<std::string, std::string>> jobs;
  for (const FoundAlone& one : found) jobs.emplace(one.host, one.dataset.job_id);
  std::vector<flush::AloneProcess> processes;
  for (const auto& [host, job_id] : jobs) {
    flush::AloneProcess& process = processes.emplace_back(flush::AloneProcess{job_id, all});
    process.request.job.control =
        fmt::format("{}{}", job.control_directory(), job_id.substr(job.info().job_id.size()));
    process.request.nodes = {host};
  }
  SCR_ASSIGN_OR_RETURN(flush::SaveOutcome saved, flush::save_alone_processes(job.fs(), processes));
  tell_of_unsaved(found, saved);
  std::ranges::move(saved.datasets, std::back_inserter(outcome.datasets));
  std::ranges::move(saved.problems, std::back_inserter(outcome.problems));
  return {};
}

// What the program had deleted is not to come back: not with what was saved now, nor with what a
// flush or an earlier call that did not live to see it has brought.
void take_away_deleted(const JobSettings& job) {
  const auto index = flush::read_index(job.fs(), job.prefix());
  Status status = index.status();
  if (status.ok()) {
    std::set<std::pair<int, std::int64_t>> there;
    for (const flush::IndexEntry& entry : index->entries()) {
      if (entry.complete) there.insert({entry.id(), entry.dataset.created});
    }
    status = routing::take_away_deleted(job.fs(), job.prefix(), there);
  }
  if (!status.ok()) log::warning("{}", status.message());
}

void log_outcome(const JobSettings& job, const flush::SaveOutcome& outcome, double seconds) {
  EventLog log = job.open_log("scavenge");
  for (const flush::SavedDataset& saved : outcome.datasets) {
    if (saved.state == flush::SaveState::kThere) continue;
    const bool ok = saved.state == flush::SaveState::kSaved;
    std::string note = saved.message;
    if (ok)
      note = fmt::format("scavenged from the caches, {} rank(s) rebuilt", saved.rebuilt.size());
    log.once(EventType::kFlush,
             {.ok = ok,
              .bytes = saved.dataset.size,
              .files = saved.dataset.files,
              .seconds = seconds,
              .ranks = saved.dataset.ranks,
              .down_nodes = outcome.silent,
              .note = note},
             saved.dataset.id, saved.dataset.name);
  }
}

}  // namespace

Result<flush::SaveOutcome> save_job(const JobSettings& job, const SaveJobOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SCR_ASSIGN_OR_RETURN(const Nodes nodes, find_nodes(job, options));
  SCR_ASSIGN_OR_RETURN(const RemoteShell shell,
                       RemoteShell::choose(job.config(), job.environment()));
  SCR_RETURN_IF_ERROR(flush::open_prefix(job.fs(), job.prefix()));
  SCR_ASSIGN_OR_RETURN(const auto lock,
                       flush::lock_prefix(job.fs(), job.prefix(), options.patience));
  flush::SaveRequest request;
  request.job = {job.control_directory(), job.prefix()};
  request.nodes = nodes.up;
  request.down = {nodes.down.begin(), nodes.down.end()};
  request.copy.buffer = job.config().get_bytes("SCR_FILE_BUF_SIZE");
  request.dataset = options.dataset;
  request.say = options.say;
  request.run = [&](const std::vector<std::string>& on, flush::NodeCommand command) {
    command.umask = current_umask();
    return run_on_nodes(shell, options, on, command);
  };
  SCR_ASSIGN_OR_RETURN(flush::SaveOutcome outcome, flush::save_datasets(job.fs(), request));
  const Status alone =
      options.dataset ? Status() : save_alone(job, shell, options, request, outcome);
  take_away_deleted(job);
  SCR_RETURN_IF_ERROR(alone);
  log_outcome(job, outcome,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return outcome;
}

}  // namespace scr::job
