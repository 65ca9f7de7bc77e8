// scr_retries_halt: should the job be started again, or is it to halt.
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/halt_file.hpp"
#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

constexpr const char* kName = "scr_retries_halt";
constexpr int kGoOn = 1;
constexpr int kCannotTell = 3;
constexpr const char* kFooter =
    "Exit codes: 0 halt: do not start the program again, the reason is printed; 1 go on; 2 wrong "
    "use;\n3 the halt file cannot be read.";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tells whether a halt condition keeps a job from being started again.", kName};
  app.footer(kFooter);
  scr::job::JobOverrides overrides;
  bool first = false, json = false;
  app.add_option("-p,--prefix,-d,--dir", overrides.prefix,
                 "Prefix directory (default: SCR_PREFIX or the working directory)");
  app.add_flag("--first", first,
               "Before the first run of a job: that the run before came to its end is no reason");
  app.add_flag("-j,--json", json, "Print JSON: halt, and the reason");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = scr::job::JobSettings::load(scr::file_system(), overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status(), kCannotTell);
  const auto conditions = scr::read_halt_file(job->fs(), job->halt_file());
  if (!conditions.ok()) return scr::tools::fail(kName, conditions.status(), kCannotTell);
  const auto question = first ? scr::HaltQuestion::kRun : scr::HaltQuestion::kRelaunch;
  const auto reason = scr::reason_to_halt(*conditions, std::time(nullptr), question, job->limits());
  if (json) {
    nlohmann::ordered_json told = {{"halt", reason.has_value()}};
    if (reason) told["reason"] = *reason;
    fmt::print("{}\n", told.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  if (!reason) return kGoOn;
  if (!json) fmt::print("{}\n", *reason);
  return scr::tools::kSuccess;
}
