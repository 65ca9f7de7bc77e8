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
    "checkpoint is complete\n"
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
      ->check(scr::tools::positive_number());
  app.add_option("-b,--before", arguments.before,
                 "Stop so early that the job is over at TIME; see --seconds")
      ->type_name("TIME");
  app.add_option("-a,--after", arguments.after, "Stop after the first checkpoint after TIME")
      ->type_name("TIME");
  app.add_option("-s,--seconds", arguments.seconds,
                 "Stop N seconds before the time of --before, or before the end of the job")
      ->type_name("N")
      ->check(scr::tools::number_not_negative());
  app.add_flag("-i,--immediate", arguments.immediate,
               "Stop now: scr_run ends the program and saves the newest complete checkpoint");
  app.add_option("-r,--reason", arguments.reason, "Text for the log")->type_name("TEXT");
  app.add_flag("-l,--list", arguments.list,
               "Print the conditions that are set, and the end of the job if it is known here");
  app.add_flag("--unset-checkpoints", arguments.unset_checkpoints, "Take back --checkpoints");
  app.add_flag("--unset-before", arguments.unset_before, "Take back --before");
  app.add_flag("--unset-after", arguments.unset_after, "Take back --after");
  app.add_flag("--unset-seconds", arguments.unset_seconds, "Take back --seconds");
  app.add_flag("--unset-reason", arguments.unset_reason,
               "Take back a halt without a condition, and --immediate");
  app.add_flag("--unset,--remove", arguments.remove,
               "Take back all conditions, also if the halt file is damaged");
  app.add_flag("-j,--json", arguments.json, "Print the conditions as JSON");
}

void forget_end_of_job(HaltConditions& conditions) {
  conditions.job_end.reset();
  conditions.job_id.clear();
}

scr::Status change(const JobSettings& job, const Arguments& arguments, HaltConditions& conditions) {
  const std::int64_t now = std::time(nullptr);
  if (arguments.remove) conditions = {};
  if (arguments.unset_checkpoints) conditions.checkpoints_left.reset();
  if (arguments.unset_before) conditions.exit_before.reset();
  if (arguments.unset_after) conditions.exit_after.reset();
  if (arguments.unset_seconds) {
    conditions.halt_seconds.reset();
    forget_end_of_job(conditions);
  }
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

// The end of the job is what --seconds counts from. A program that scr_run started knows it; for
// one that was started by hand it is written down, for this job alone.
void add_end_of_job(const JobSettings& job, HaltConditions& conditions) {
  forget_end_of_job(conditions);
  if (conditions.exit_before) return;
  conditions.job_end = scr::job::job_end_time(job.config(), job.environment());
  if (conditions.job_end) {
    conditions.job_id = job.info().job_id;
    return;
  }
  fmt::print(stderr,
             "{}: warning: the end of the job is not known here (--before, SCR_END_TIME, the batch "
             "system): --seconds has an effect only if the program was told, as by scr_run\n",
             kName);
}

struct Listed {
  HaltConditions conditions;
  scr::JobLimits limits = {};  // what the job says by itself; for --list
};

void print_json(const Listed& listed) {
  const HaltConditions& conditions = listed.conditions;
  nlohmann::ordered_json told = nlohmann::ordered_json::object();
  if (conditions.checkpoints_left) told["checkpoints_left"] = *conditions.checkpoints_left;
  if (conditions.exit_after) told["exit_after"] = *conditions.exit_after;
  if (conditions.exit_before) told["exit_before"] = *conditions.exit_before;
  if (conditions.halt_seconds) told["halt_seconds"] = *conditions.halt_seconds;
  if (conditions.job_end) told["job_end"] = *conditions.job_end;
  if (!conditions.job_id.empty()) told["job_id"] = conditions.job_id;
  if (!conditions.exit_reason.empty()) told["exit_reason"] = conditions.exit_reason;
  if (conditions.immediate) told["immediate"] = true;
  if (listed.limits.end > 0) told["end_time"] = listed.limits.end;
  if (listed.limits.halt_seconds > 0) told["end_seconds"] = listed.limits.halt_seconds;
  const auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", told.dump(2, ' ', false, replace));
}

void print(const Listed& listed) {
  const HaltConditions& conditions = listed.conditions;
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
  if (conditions.job_end) {
    fmt::print("JobEnd: {} (of job {})\n", scr::job::format_time(*conditions.job_end),
               scr::text::escape(conditions.job_id));
  }
  if (!conditions.exit_reason.empty()) {
    fmt::print("ExitReason: {}{}\n", scr::text::escape(conditions.exit_reason),
               conditions.immediate ? " (immediate)" : "");
  }
  if (listed.limits.end > 0) {
    fmt::print("the job ends at {}{}\n", scr::job::format_time(listed.limits.end),
               listed.limits.halt_seconds > 0
                   ? fmt::format(", SCR_HALT_SECONDS is {}", listed.limits.halt_seconds)
                   : "");
  }
}

scr::Result<Listed> list(const JobSettings& job) {
  SCR_ASSIGN_OR_RETURN(HaltConditions conditions, scr::read_halt_file(job.fs(), job.halt_file()));
  return Listed{std::move(conditions), job.limits()};
}

scr::Result<Listed> run(const JobSettings& job, const Arguments& arguments) {
  if (arguments.list) return list(job);
  // Tried on a copy first: nothing is written if an argument is wrong.
  HaltConditions trial;
  SCR_RETURN_IF_ERROR(change(job, arguments, trial));
  const auto prefix = job.fs().info(job.prefix(), /*follow=*/true);
  if (!prefix.ok()) return prefix.status();
  SCR_RETURN_IF_ERROR(job.fs().make_directories(job.prefix_scr()));
  const auto change_all = [&](HaltConditions& conditions) {
    (void)change(job, arguments, conditions);
    if (arguments.seconds) add_end_of_job(job, conditions);
  };
  // Who takes all back need not know what it was.
  scr::Status damage;
  SCR_ASSIGN_OR_RETURN(HaltConditions conditions,
                       scr::update_halt_file(job.fs(), job.halt_file(), change_all,
                                             arguments.remove ? &damage : nullptr));
  if (!damage.ok()) {
    fmt::print(stderr, "{}: the halt file was damaged, and is made anew: {}\n", kName,
               damage.message());
  }
  return Listed{std::move(conditions)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Stops a job: at once, or after a checkpoint, when a condition holds.", kName};
  Arguments arguments;
  define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  const auto listed = run(*job, arguments);
  if (!listed.ok()) {
    return scr::tools::fail(kName, listed.status(), scr::tools::exit_code(listed.status()));
  }
  arguments.json ? print_json(*listed) : print(*listed);
  return scr::tools::kSuccess;
}
