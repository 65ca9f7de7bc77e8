#include "core/job/run_loop.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/application_environment.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/drill_story.hpp"
#include "core/job/installation.hpp"
#include "core/job/watchdog.hpp"

namespace scr::job {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookEvery(1000);  // at halt file and sign of life, while the program runs
constexpr seconds kPatience(30);          // for a program that was told to end

std::atomic<int> caught_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "it is set by a signal handler");

void catch_signal(int signal) { caught_signal = signal; }

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = catch_signal;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
}

// What the user reads while it happens.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "scr_run: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

std::string tool(std::string_view name) {
  return fmt::format("{}/{}", find_installation().bin, name);
}

}  // namespace

// ---- before the first run

Result<RunLoop> RunLoop::prepare(const JobSettings& job, LaunchCommand command, Hdf5Way hdf5,
                                 RunLoopOptions options) {
  RunLoop loop(job, std::move(command), std::move(options));
  loop.hdf5_ = hdf5;
  SCR_ASSIGN_OR_RETURN(loop.shell_, RemoteShell::choose(job.config(), job.environment()));
  SCR_RETURN_IF_ERROR(loop.find_nodes());
  loop.drill_pending_ = loop.options_.drill.has_value();
  if (loop.drill_pending_ && !loop.options_.runs) loop.options_.runs = 2;
  return loop;
}

Status RunLoop::find_nodes() {
  const bool told = !job_->config().get_string("SCR_NODELIST").empty() ||
                    detect_batch_system(job_->environment()) != BatchSystem::kNone;
  if (!told) {
    SCR_ASSIGN_OR_RETURN(nodes_, command_.hosts(job_->fs()));
  }
  if (nodes_.empty()) {
    SCR_ASSIGN_OR_RETURN(nodes_, job_nodes(job_->fs(), job_->config(), job_->environment()));
  }
  own_ = own_name_in_list(nodes_, log::host_name());
  if (own_.empty() && !options_.outside) {
    return failed_precondition(fmt::format(
        "this host, {}, is not a node of the job ({}); use --outside if the launcher works from "
        "here",
        log::host_name(), compress_hosts(nodes_)));
  }
  if (const auto& node = options_.drill; node && !node->empty() && !contains_host(nodes_, *node)) {
    return invalid_argument(fmt::format("there is no node '{}' to lose", text::escape(*node)));
  }
  return {};
}

Hosts RunLoop::left() const { return hosts_minus(nodes_, names_of(down_)); }

Status RunLoop::look_for_down_nodes() {
  DownNodeOptions options;
  options.nodes = nodes_;
  // A node that failed once in this job is not trusted again, even if it looks well now.
  options.known = down_;
  SCR_ASSIGN_OR_RETURN(std::vector<DownNode> found, find_down_nodes(*job_, shell_, options));
  const Hosts known = names_of(down_);
  for (const DownNode& node : found) {
    if (contains_host(known, node.host)) continue;
    say("{} is not used from now on: {}", node.host, node.reason);
    log_.once(EventType::kNodeFailure,
              {.ok = false, .down_nodes = {node.host}, .note = node.reason});
  }
  down_ = std::move(found);
  return {};
}

// Of the run before, as each of its nodes wrote down; without one every node of the job, unless the
// command itself says how many.
Result<std::size_t> RunLoop::nodes_needed() {
  const auto least = options_.min_nodes.value_or(job_->config().get_uint("SCR_MIN_NODES"));
  if (least > 0) return least;
  std::size_t most = 0;
  const Words ask = {tool("scr_nodes_file"), "--dir", job_->control_directory()};
  for (const RemoteResult& answer : shell_.run(left(), ask)) {
    if (!answer.process.ok()) continue;
    most = std::max<std::size_t>(most,
                                 text::parse_uint(text::trim(answer.process.output)).value_or(0));
  }
  if (most > 0) return most;
  return command_.node_count().value_or(nodes_.size());
}

Status RunLoop::check_enough() {
  const std::size_t there = left().size();
  SCR_ASSIGN_OR_RETURN(const std::size_t needed, nodes_needed());
  if (there < needed) {
    return failed_precondition(
        fmt::format("{} of {} nodes are left, and the program needs {} (SCR_MIN_NODES)", there,
                    nodes_.size(), needed));
  }
  if (!own_.empty() && contains_host(names_of(down_), own_)) {
    return failed_precondition(fmt::format("this node, {}, is one of those that are down", own_));
  }
  return {};
}

std::int64_t RunLoop::runs() const {
  return options_.runs.value_or(job_->config().get_int("SCR_RUNS"));
}

// ---- the loop

std::optional<std::string> RunLoop::reason_to_stop(HaltQuestion question) {
  if (caught_signal != 0) return fmt::format("signal {}", caught_signal.load());
  const auto conditions = read_halt_file(job_->fs(), job_->halt_file());
  if (!conditions.ok()) {
    say("warning: {}", conditions.status().message());
    return std::nullopt;
  }
  return reason_to_halt(*conditions, std::time(nullptr), question, limits_);
}

int RunLoop::run() {
  catch_signals();
  log_ = job_->open_log("scr_run", options_.drill.has_value());
  limits_ = job_->limits();
  if (const auto reason = reason_to_stop(HaltQuestion::kRun)) {
    const bool near_end =
        reason_to_halt({}, std::time(nullptr), HaltQuestion::kRun, limits_).has_value();
    say("not started: {}{}", *reason,
        near_end ? "" : "; take it back with: scr_halt --unset " + shell_quoted({job_->prefix()}));
    log_.once(EventType::kHalt, {.note = *reason});
    return kOwnFailure;
  }
  const std::int64_t runs = this->runs();
  int exit_code = kOwnFailure;
  if (options_.transfer) start_transfer();
  for (attempt_ = 1;; ++attempt_) {
    Status ready = look_for_down_nodes();
    if (ready.ok()) ready = check_enough();
    if (!ready.ok()) {
      say("not started{}: {}", attempt_ > 1 ? " again" : "", ready.message());
      log_.once(EventType::kRelaunch,
                {.ok = false, .down_nodes = names_of(down_), .note = std::string(ready.message())});
      break;
    }
    const auto outcome = launch();
    if (!outcome.ok()) {
      say("{}", outcome.status().message());
      break;
    }
    exit_code = outcome->exit_code;
    if (outcome->end == End::kItself && exit_code == 0) break;
    if (outcome->end == End::kSignal) break;
    if (const Status looked = look_for_down_nodes(); !looked.ok()) say("{}", looked.message());
    if (runs >= 0 && attempt_ >= runs) {
      say("not started again: {} of {} runs are used (SCR_RUNS)", attempt_, runs);
      log_.once(EventType::kRelaunch,
                {.ok = false, .note = fmt::format("{} of {} runs are used", attempt_, runs)});
      break;
    }
    if (!wait_before_relaunch()) break;
  }
  stop_transfer();
  if (launched_) post_run();
  if (options_.drill) judge_drill();
  return exit_code;
}

// Halt is asked for all the time, also once more after the wait.
bool RunLoop::wait_before_relaunch() {
  const auto until = Clock::now() + milliseconds(static_cast<long>(options_.wait * 1000));
  bool waited = false;
  limits_ = job_->limits();  // the batch system may have given the job more time
  for (;;) {
    if (const auto reason = reason_to_stop(HaltQuestion::kRelaunch)) {
      say("not started again: {}", *reason);
      log_.once(EventType::kHalt, {.note = *reason});
      return false;
    }
    if (Clock::now() >= until) break;
    if (!waited) say("starting again in {:.0f} seconds", options_.wait);
    waited = true;
    std::this_thread::sleep_for(
        std::min(kLookEvery, std::chrono::ceil<milliseconds>(until - Clock::now())));
  }
  log_.once(EventType::kRelaunch,
            {.down_nodes = names_of(down_), .note = fmt::format("run {}", attempt_ + 1)});
  return true;
}

Result<LaunchCommand> RunLoop::next_command() {
  LaunchCommand command = command_;
  if (!options_.restart_program.empty()) {
    if (const std::string name = restart_name(); !name.empty()) {
      constexpr std::string_view kPlace = "SCR_CKPT_NAME";
      Words program = options_.restart_program;
      for (std::string& word : program) {
        for (std::size_t at = word.find(kPlace); at != std::string::npos;
             at = word.find(kPlace, at + name.size())) {
          word.replace(at, kPlace.size(), name);
        }
      }
      SCR_RETURN_IF_ERROR(command.replace_program(program));
    }
  }
  SCR_RETURN_IF_ERROR(command.use_nodes(job_->fs(), left(), names_of(down_), own_,
                                        job_->prefix_scr() + "/scr_run.hosts"));
  EnvironmentRequest request;
  request.run_id = run_id_;
  request.nodes = nodes_;
  request.hdf5 = hdf5_;
  request.log = options_.drill.has_value();
  request.again = attempt_ > 1;
  request.terminal = ::isatty(STDERR_FILENO) == 1;
  command.set_environment(application_environment(*job_, request));
  return command;
}

Result<RunLoop::Outcome> RunLoop::launch() {
  run_id_ =
      fmt::format("{}.{}.{}.{}", job_->info().job_id, std::time(nullptr), ::getpid(), attempt_);
  SCR_ASSIGN_OR_RETURN(const LaunchCommand command, next_command());
  const std::string where = compress_hosts(left());
  say("run {}: {}", attempt_, shell_quoted(command.words()));
  const EventToken event = log_.begin(EventType::kLaunch, 0, fmt::format("run {}", attempt_));
  Child::Changes changes = command.launcher_environment();
  // Slurm 22.05 takes the cores of a step that lost a node for used until the job ends, and the
  // next step, also that of mpirun's daemons, would wait for them.
  const bool in_slurm = detect_batch_system(job_->environment()) == BatchSystem::kSlurm;
  if (in_slurm && !down_.empty()) changes["SLURM_OVERLAP"] = "1";
  SCR_ASSIGN_OR_RETURN(Child child, Child::start(command.words(), changes));
  launched_ = true;
  const Outcome outcome = supervise(child);
  if (outcome.end != End::kItself || outcome.exit_code != 0) end_leftovers(left());
  const std::string why = outcome.why.empty() ? "" : ", " + outcome.why;
  log_.end(event,
           {.ok = outcome.end == End::kItself && outcome.exit_code == 0,
            .note = fmt::format("exit status {}{}, nodes {}", outcome.exit_code, why, where)});
  say("run {} ended with status {}{}", attempt_, outcome.exit_code, why);
  return outcome;
}

RunLoop::Outcome RunLoop::supervise(Child& child) {
  const config::Config& config = job_->config();
  const WatchdogTimes times{config.get_double("SCR_WATCHDOG_TIMEOUT"),
                            config.get_double("SCR_WATCHDOG_TIMEOUT_PFS")};
  Watchdog watchdog(job_->fs(), job_->prefix_scr(), times, Clock::now());
  int signs = 0;
  for (;;) {
    if (const auto code = child.wait_for(kLookEvery)) return {*code, End::kItself, ""};
    if (const int signal = caught_signal) {
      return end_child(child, End::kSignal, fmt::format("ended by signal {}", signal));
    }
    if (const auto hang = watchdog.look(Clock::now())) {
      return end_child(child, End::kWatchdog, *hang);
    }
    const auto halt = read_halt_file(job_->fs(), job_->halt_file());
    if (halt.ok() && halt->immediate && !halt->exit_reason.empty()) {
      return end_child(child, End::kHalt, text::escape(halt->exit_reason));
    }
    if (drill_pending_ && watchdog.signs() != signs) {
      signs = watchdog.signs();
      if (newest_in_cache().id > 0) lose_a_node();
    }
  }
}

RunLoop::Outcome RunLoop::end_child(Child& child, End end, std::string why) {
  say("ending the program: {}", why);
  const int code = child.end(kPatience);
  return {code, end, std::move(why)};
}

// A launcher that died, or that was killed, may leave processes on nodes, which would write to the
// caches of the next run.
void RunLoop::end_leftovers(const Hosts& hosts) {
  for (const RemoteResult& result : shell_.run(hosts, {tool("scr_end_run"), run_id_})) {
    if (!result.process.output.empty()) {
      log::info("{}", text::escape(text::trim(result.process.output)));
    }
    if (!result.process.ok()) {
      log::info("what is left of the run on {} cannot be ended: {}", result.host,
                result.process.summary());
    }
  }
}

// ---- around the runs

CachedCheckpoint RunLoop::newest_in_cache() {
  CachedCheckpoint newest;
  std::vector<std::string> directories = {job_->control_directory()};
  // A program without a launcher may be a serial one, which works alone.
  if (command_.kind() == LaunchCommand::Kind::kNone) {
    directories.push_back(job_->control_directory() + ".s0");
  }
  for (const std::string& directory : directories) {
    const Words ask = {tool("scr_flush_file"), "--dir", directory, "--list-ckpt", "--json"};
    for (const RemoteResult& answer : shell_.run(left(), ask)) {
      CachedCheckpoint one = newest_checkpoint_of_list(answer.process.output);
      if (one.id > newest.id) newest = std::move(one);
    }
  }
  return newest;
}

// Of the run that is about to start. Empty if there is no checkpoint.
std::string RunLoop::restart_name() {
  const CachedCheckpoint cached = newest_in_cache();
  auto name = job::restart_name(*job_, cached, attempt_ <= 1);
  if (name.ok()) return *std::move(name);
  say("warning: {}", name.status().message());
  return cached.name;
}

void RunLoop::start_transfer() {
  for (const std::string& host : left()) {
    const Words words = shell_.own_step(host, {tool("scr_transfer"), job_->control_directory()});
    auto daemon = Child::start(words);
    if (daemon.ok()) {
      daemons_.push_back(*std::move(daemon));
    } else {
      say("warning: {}", daemon.status().message());
    }
  }
}

void RunLoop::stop_transfer() {
  if (daemons_.empty()) return;
  shell_.run(left(), {tool("scr_transfer"), "--send", "EXIT", job_->control_directory()});
  for (Child& daemon : daemons_) {
    if (!daemon.wait_for(seconds(10))) daemon.end(seconds(5));
  }
  daemons_.clear();
}

void RunLoop::post_run() {
  if (!options_.post_run) return;
  const auto program = find_program(tool("scr_postrun"));
  if (!program) return;
  Child::Changes changes = {{"SCR_PREFIX", job_->prefix()},
                            {"SCR_JOB_ID", job_->info().job_id},
                            {"SCR_USER_NAME", job_->info().user},
                            {"SCR_NODELIST", compress_hosts(nodes_)}};
  auto child = Child::start({*program}, changes);
  if (!child.ok()) {
    say("{}", child.status().message());
    return;
  }
  for (;;) {
    // It is what the user waits for at the end of the job: signals do not end it.
    if (const auto code = child->wait_for(seconds(60))) {
      if (*code != 0) say("scr_postrun ended with status {}", *code);
      return;
    }
  }
}

// ---- drill

// What the loss of a node does: its processes and its storage are gone.
void RunLoop::lose_a_node() {
  drill_pending_ = false;
  std::string victim = *options_.drill;
  if (victim.empty()) {
    for (const RemoteResult& answer :
         shell_.run(left(), {tool("scr_end_run"), "--list", run_id_})) {
      const bool runs = answer.process.ok() && !text::trim(answer.process.output).empty();
      if (runs && answer.host != own_) victim = answer.host;
    }
  }
  if (victim.empty()) {
    say("drill: the program runs on this node alone, so none can be lost");
    return;
  }
  say("drill: {} is lost now", victim);
  drilled_ = victim;
  Words clean = {"/usr/bin/env",    "SCR_USER_NAME=" + job_->info().user,
                 tool("scr_clean"), "--force",
                 "--job",           job_->info().job_id};
  for (const NeededDirectory& base : needed_directories(*job_)) {
    clean.insert(clean.end(), {"--base", base.path});
  }
  shell_.run(Hosts{victim}, {tool("scr_end_run"), run_id_});
  const auto result = shell_.run(Hosts{victim}, clean).front();
  if (!result.process.ok()) {
    say("drill: warning: the cache of {} was not removed: {}", victim, result.process.summary());
  }
  log_.once(EventType::kNodeFailure, {.ok = false, .down_nodes = {victim}, .note = "drill"});
  // With a node to spare it stays out, as a dead one would; else it comes back empty.
  const auto needed = nodes_needed();
  if (needed.ok() && *needed < left().size()) down_.push_back({victim, "drill"});
}

// What the log says of the runs after the loss.
void RunLoop::judge_drill() {
  if (drilled_.empty()) {
    say("drill: no node was lost: the program ended before its first checkpoint was complete");
    return;
  }
  const auto bytes = job_->fs().read_file(job_->prefix_scr() + "/log.jsonl");
  if (!bytes.ok()) {
    say("drill: {}", bytes.status().message());
    return;
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const std::string story = drill_story(text);
  say("drill: after the loss of {}: {}", drilled_,
      story.empty() ? "the program found no checkpoint" : text::escape(story));
}

}  // namespace scr::job
