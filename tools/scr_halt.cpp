// scr_halt: stops a job at the right place.
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/halt_file.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/job_settings.hpp"
#include "core/job/time_text.hpp"
#include "tools/command.hpp"

namespace {

using scr::HaltConditions;
using scr::job::JobSettings;

constexpr const char* kName = "scr_halt";
constexpr const char* kFooter =
    "Without a condition the job stops after its next checkpoint. A program stops when a "
    "checkpoint "
    "is complete\n"
    "and its copy is in the prefix directory; scr_run does not start it again while a condition "
    "holds. It needs\n"
    "SCR_HALT_EXIT=1, which scr_run sets, or a program that asks SCR_Should_exit.\n"
    "TIME is 15:30, '2026-03-01 15:30', +90m (from now) or @SECONDS since 1970-01-01 UTC.\n"
    "Exit codes: 0 success; 1 the halt file cannot be read or written; 2 wrong use.";

struct Arguments {
  scr::job::JobOverrides overrides;
  std::optional<std::int64_t> checkpoints, seconds;
  std::string before, after, reason;
  bool immediate = false, list = false, json = false;
  bool unset_checkpoints = false, unset_before = false, unset_after = false, unset_seconds = false,
       unset_reason = false, remove = false;

  bool sets_condition() const {
    return checkpoints || seconds || !before.empty() || !after.empty();
  }
  bool unsets() const {
    return unset_checkpoints || unset_before || unset_after || unset_seconds || unset_reason ||
           remove;
  }
};

void define(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.add_option("PREFIX,-p,--prefix", arguments.overrides.prefix,
                 "Prefix directory of the job (default: SCR_PREFIX or the working directory)");
  app.add_option("-c,--checkpoints", arguments.checkpoints, "Stop after N more checkpoints")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("-b,--before", arguments.before,
                 "Stop so early that the job is over at TIME; see --seconds")
      ->type_name("TIME");
  app.add_option("-a,--after", arguments.after, "Stop after the first checkpoint after TIME")
      ->type_name("TIME");
  app.add_option("-s,--seconds", arguments.seconds,
                 "Stop N seconds before the time of --before, or before the end of the job")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("-i,--immediate", arguments.immediate,
               "Stop now: scr_run ends the program and saves the newest complete checkpoint");
  app.add_option("-r,--reason", arguments.reason, "Text for the log")->type_name("TEXT");
  app.add_flag("-l,--list", arguments.list, "Print the conditions that are set");
  app.add_flag("--unset-checkpoints", arguments.unset_checkpoints, "Take back --checkpoints");
  app.add_flag("--unset-before", arguments.unset_before, "Take back --before");
  app.add_flag("--unset-after", arguments.unset_after, "Take back --after");
  app.add_flag("--unset-seconds", arguments.unset_seconds, "Take back --seconds");
  app.add_flag("--unset-reason", arguments.unset_reason,
               "Take back a halt without a condition, and --immediate");
  app.add_flag("--unset,--remove", arguments.remove, "Take back all conditions");
  app.add_flag("-j,--json", arguments.json, "Print the conditions as JSON");
}

scr::Status change(const JobSettings& job, const Arguments& arguments, HaltConditions& conditions) {
  const std::int64_t now = std::time(nullptr);
  if (arguments.remove) conditions = {};
  if (arguments.unset_checkpoints) conditions.checkpoints_left.reset();
  if (arguments.unset_before) conditions.exit_before.reset();
  if (arguments.unset_after) conditions.exit_after.reset();
  if (arguments.unset_seconds) conditions.halt_seconds.reset();
  if (arguments.unset_reason) conditions.exit_reason.clear();
  if (arguments.unset_reason) conditions.immediate = false;
  if (arguments.checkpoints) conditions.checkpoints_left = arguments.checkpoints;
  if (arguments.seconds) conditions.halt_seconds = arguments.seconds;
  if (!arguments.before.empty()) {
    SCR_ASSIGN_OR_RETURN(conditions.exit_before, scr::job::parse_time(arguments.before, now));
  }
  if (!arguments.after.empty()) {
    SCR_ASSIGN_OR_RETURN(conditions.exit_after, scr::job::parse_time(arguments.after, now));
  }
  const bool now_or_next = arguments.immediate || !arguments.reason.empty() ||
                           (!arguments.sets_condition() && !arguments.unsets());
  if (now_or_next) {
    conditions.exit_reason = arguments.reason.empty()
                                 ? fmt::format("scr_halt of {} on {} at {}", job.info().user,
                                               scr::log::host_name(), scr::job::format_time(now))
                                 : arguments.reason;
    conditions.immediate = arguments.immediate;
  }
  return {};
}

// The end of the job is what --seconds counts from, and the batch system may know it.
void add_end_of_job(const JobSettings& job, HaltConditions& conditions) {
  if (!conditions.halt_seconds || conditions.exit_before) return;
  conditions.exit_before = scr::job::job_end_time(job.config(), job.environment());
  if (conditions.exit_before) return;
  fmt::print(stderr,
             "{}: warning: --seconds has no effect until the end of the job is known: it "
             "is set by --before, SCR_END_TIME or the batch system\n",
             kName);
}

void print_json(const HaltConditions& conditions) {
  nlohmann::ordered_json told = nlohmann::ordered_json::object();
  if (conditions.checkpoints_left) told["checkpoints_left"] = *conditions.checkpoints_left;
  if (conditions.exit_after) told["exit_after"] = *conditions.exit_after;
  if (conditions.exit_before) told["exit_before"] = *conditions.exit_before;
  if (conditions.halt_seconds) told["halt_seconds"] = *conditions.halt_seconds;
  if (!conditions.exit_reason.empty()) told["exit_reason"] = conditions.exit_reason;
  if (conditions.immediate) told["immediate"] = true;
  const auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", told.dump(2, ' ', false, replace));
}

void print(const HaltConditions& conditions) {
  if (conditions == HaltConditions()) fmt::print("no condition is set\n");
  if (conditions.checkpoints_left) {
    fmt::print("CheckpointsLeft: {}\n", *conditions.checkpoints_left);
  }
  if (conditions.exit_after) {
    fmt::print("ExitAfter: {}\n", scr::job::format_time(*conditions.exit_after));
  }
  if (conditions.exit_before) {
    fmt::print("ExitBefore: {}\n", scr::job::format_time(*conditions.exit_before));
  }
  if (conditions.halt_seconds) fmt::print("HaltSeconds: {}\n", *conditions.halt_seconds);
  if (!conditions.exit_reason.empty()) {
    fmt::print("ExitReason: {}{}\n", scr::text::escape(conditions.exit_reason),
               conditions.immediate ? " (immediate)" : "");
  }
}

scr::Result<HaltConditions> run(const JobSettings& job, const Arguments& arguments) {
  if (arguments.list) return scr::read_halt_file(job.fs(), job.halt_file());
  // Tried on a copy first: nothing is written if an argument is wrong.
  HaltConditions trial;
  SCR_RETURN_IF_ERROR(change(job, arguments, trial));
  const auto prefix = job.fs().info(job.prefix(), /*follow=*/true);
  if (!prefix.ok()) return prefix.status();
  SCR_RETURN_IF_ERROR(job.fs().make_directories(job.prefix_scr()));
  return scr::update_halt_file(job.fs(), job.halt_file(), [&](HaltConditions& conditions) {
    (void)change(job, arguments, conditions);
    if (arguments.seconds) add_end_of_job(job, conditions);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Stops a job: at once, or after a checkpoint, when a condition holds.", kName};
  Arguments arguments;
  define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  const auto conditions = run(*job, arguments);
  if (!conditions.ok()) {
    const bool usage = conditions.status().code() == scr::StatusCode::kInvalidArgument;
    return scr::tools::fail(kName, conditions.status(),
                            usage ? scr::tools::kUsage : scr::tools::kFailure);
  }
  arguments.json ? print_json(*conditions) : print(*conditions);
  return scr::tools::kSuccess;
}
