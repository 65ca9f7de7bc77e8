// scr_cntl_dir: prints the control directory or the cache directories of a job.
#include <nlohmann/json.hpp>

#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::JobOverrides;
using scr::job::JobSettings;

constexpr const char* kName = "scr_cntl_dir";
constexpr const char* kFooter =
    "The directory is <base>/<user>/scr.<job id>. Run it where SCR_* and the working directory are "
    "those of the\njob. Exit codes: 0 success; 1 the configuration has errors; 2 wrong use.";

struct Arguments {
  std::string what = "cntl";
  JobOverrides overrides;
  bool base = false;
  bool json = false;
};

std::vector<std::string> directories(const JobSettings& job, const Arguments& arguments) {
  std::vector<std::string> result;
  if (arguments.what == "cntl") {
    return {arguments.base ? job.config().get_path("SCR_CNTL_BASE") : job.control_directory()};
  }
  if (!arguments.base) return job.cache_directories();
  for (const auto* store : job.stores()) result.push_back(store->directory);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints the control directory or the cache directories of a job on each node.",
               kName};
  app.footer(kFooter);
  Arguments arguments;
  app.add_option("WHAT", arguments.what,
                 "cntl: the control directory; cache: the directories of "
                 "all stores, one a line")
      ->check(CLI::IsMember({"cntl", "cache"}))
      ->capture_default_str();
  app.add_flag("-b,--base", arguments.base, "Print the bases only");
  app.add_option("-u,--user", arguments.overrides.user,
                 "Name of the user (default: scr_env --user)");
  app.add_option("-j,--jobid", arguments.overrides.job_id,
                 "Id of the job (default: scr_env --jobid)");
  app.add_option("-p,--prefix", arguments.overrides.prefix, "Prefix directory of the job");
  app.add_flag("--json", arguments.json, "Print a JSON array");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  const std::vector<std::string> result = directories(*job, arguments);
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::json(result).dump());
  } else {
    for (const std::string& path : result) fmt::print("{}\n", path);
  }
  return scr::tools::kSuccess;
}
