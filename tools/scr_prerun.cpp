// scr_prerun: makes ready for the runs of a job.
#include "core/job/installation.hpp"
#include "core/job/job_settings.hpp"
#include "core/job/process.hpp"
#include "tools/command.hpp"

namespace {

constexpr const char* kName = "scr_prerun";
constexpr const char* kFooter =
    "Makes the directory .scr in the prefix directory and runs scr_test_runtime. scr_run does the "
    "same by itself;\nthis is for scripts that start programs on their own.\n"
    "Exit codes: 0 ready; 1 not ready, and what is wrong was printed; 2 wrong use.";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Makes ready for the runs of a job.", kName};
  app.footer(kFooter);
  scr::job::JobOverrides overrides;
  std::string program;
  app.add_option("PROGRAM", program, "The program that will run");
  app.add_option("-p,--prefix", overrides.prefix, "Prefix directory of the job");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = scr::job::JobSettings::load(scr::file_system(), overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  scr::job::Words test = {scr::job::find_installation().bin + "/scr_test_runtime", "--quiet",
                          "--prefix", job->prefix()};
  if (!program.empty()) test.push_back(program);
  const auto result = scr::job::run_program(test);
  fmt::print(stderr, "{}{}", result.output, result.errors);
  if (!result.ok()) return scr::tools::kFailure;
  const scr::Status made = job->fs().make_directories(job->prefix_scr());
  return made.ok() ? scr::tools::kSuccess : scr::tools::fail(kName, made);
}
