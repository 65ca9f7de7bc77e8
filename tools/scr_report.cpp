// scr_report: one HTML page (or JSON) about the runs of a job, from its event log.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "tools/command.hpp"
#include "tools/report/report.hpp"

namespace {

struct Options {
  std::string prefix = ".";
  std::string log;
  std::string job;
  std::string output = "scr_report.html";
  bool json = false;
  std::optional<double> mtbf;
};

scr::Status run(const Options& options) {
  const std::string path = options.log.empty() ? options.prefix + "/.scr/log.jsonl" : options.log;
  SCR_ASSIGN_OR_RETURN(const auto all, scr::tools::read_run_log(scr::file_system(), path));
  const std::string job = options.job.empty() ? all.last_job() : options.job;
  const scr::tools::RunLog log = all.only_job(job);
  if (log.events.empty()) {
    return scr::not_found(
        fmt::format("'{}' has no event of job '{}'", path, scr::text::escape(job)));
  }
  const scr::tools::IntervalInput input{{}, options.mtbf, {}};
  if (options.json) {
    fmt::print("{}\n", scr::tools::report_json(log, input)
                           .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  const std::string page = scr::tools::report_html(log, input);
  if (options.output == "-") {
    fmt::print("{}", page);
    return {};
  }
  SCR_RETURN_IF_ERROR(scr::file_system().write_file_atomically(
      options.output, std::as_bytes(std::span(page)), /*durable=*/false));
  fmt::print("{}: {} run(s), {} failure(s)\n", options.output, log.runs.size(), log.failures());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Makes a page about the runs of a job: time line, costs, bandwidths, failures."};
  app.footer(
      "The page is one HTML file that needs nothing else. It is made from the event log of the\n"
      "prefix directory, which runs write with SCR_LOG_ENABLE=1.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong arguments.");
  Options options;
  app.add_option("-p,--prefix", options.prefix, "Prefix directory (default: the working directory)")
      ->type_name("DIR");
  app.add_option("--log", options.log,
                 "Event log (default: .scr/log.jsonl in the prefix directory)")
      ->type_name("FILE");
  app.add_option("--job", options.job, "Job to report on (default: the last one in the log)")
      ->type_name("ID");
  app.add_option("-o,--output", options.output,
                 "File to write (default: scr_report.html), '-' for standard output")
      ->type_name("FILE");
  app.add_option("--mtbf", options.mtbf, "Mean time between failures, instead of the log's")
      ->type_name("SECONDS")
      ->check(scr::tools::positive_number());
  app.add_flag("-j,--json", options.json, "Print JSON instead");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  if (options.output.ends_with('/')) {
    const std::string text = fmt::format("'{}' names a directory: --output needs a file",
                                         scr::text::escape(options.output));
    return scr::tools::fail("scr_report", scr::invalid_argument(text), scr::tools::kUsage);
  }
  const scr::Status status = run(options);
  return status.ok() ? 0 : scr::tools::fail("scr_report", status);
}
