// scr_ckpt_interval: how often to write checkpoints, from the event log of real runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/base/path.hpp"
#include "tools/command.hpp"
#include "tools/report/interval.hpp"

namespace {

struct Options {
  std::string prefix = ".";
  std::string log;
  std::string job;
  bool json = false;
  std::optional<double> cost;
  std::optional<double> mtbf;
  std::optional<double> restart;
};

scr::Status run(const Options& options) {
  const std::string path = options.log.empty() ? options.prefix + "/.scr/log.jsonl" : options.log;
  scr::tools::RunLog log;
  auto read = scr::tools::read_run_log(scr::file_system(), path);
  const bool enough = options.cost && options.mtbf;  // without a log
  if (!read.ok() && !(enough && read.status().code() == scr::StatusCode::kNotFound)) {
    return read.status();
  }
  if (read.ok()) log = options.job.empty() ? *std::move(read) : read->only_job(options.job);
  SCR_ASSIGN_OR_RETURN(const auto advice,
                       scr::tools::advise(log, {options.cost, options.mtbf, options.restart}));
  if (options.json) {
    fmt::print("{}\n", scr::tools::to_json(advice).dump(2));
  } else {
    fmt::print("{}", scr::tools::to_text(advice));
  }
  if (log.unreadable > 0) {
    fmt::print(stderr, "scr_ckpt_interval: {} of {} line(s) of the log cannot be read\n",
               log.unreadable, log.lines);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Tells how often to write checkpoints, from what they cost and how often runs fail."};
  app.footer(
      "Costs and failures come from the event log of the prefix directory (SCR_LOG_ENABLE=1), of\n"
      "all jobs or of one. The interval is the time of computing between two checkpoints, by the\n"
      "formulas of Young and of Daly; SCR_CHECKPOINT_SECONDS sets it for SCR_Need_checkpoint.\n"
      "With --cost and --mtbf no log is needed.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong arguments.");
  Options options;
  app.add_option("-p,--prefix", options.prefix, "Prefix directory (default: the working directory)")
      ->type_name("DIR");
  app.add_option("--log", options.log,
                 "Event log (default: .scr/log.jsonl in the prefix directory)")
      ->type_name("FILE");
  app.add_option("--job", options.job, "Look at the runs of this job only")->type_name("ID");
  app.add_option("--cost", options.cost, "What a checkpoint costs, instead of what the log says")
      ->type_name("SECONDS")
      ->check(scr::tools::positive_number());
  app.add_option("--mtbf", options.mtbf, "Mean time between failures, instead of the log's")
      ->type_name("SECONDS")
      ->check(scr::tools::positive_number());
  app.add_option("--restart", options.restart, "What a restart costs, instead of the log's")
      ->type_name("SECONDS")
      ->check(scr::tools::number_not_negative());
  app.add_flag("-j,--json", options.json, "Print JSON");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const scr::Status status = run(options);
  return status.ok() ? 0 : scr::tools::fail("scr_ckpt_interval", status);
}
