// scr_env: what is known of the job and the batch system it runs under.
#include <nlohmann/json.hpp>

#include "core/job/batch_system.hpp"
#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::Hosts;
using scr::job::JobSettings;

constexpr const char* kName = "scr_env";
constexpr const char* kFooter =
    "Sources are the variables and commands of Slurm, PBS, LSF or Flux, and the parameters "
    "SCR_USER_NAME,\n"
    "SCR_JOB_ID, SCR_NODELIST and SCR_END_TIME, which win. Without options all is printed.\n"
    "Exit codes: 0 success; 1 it cannot be told; 2 wrong use.";

struct Arguments {
  bool user = false, job_id = false, nodes = false, down = false, end_time = false, json = false;
  bool all() const { return !user && !job_id && !nodes && !down && !end_time; }
};

scr::Status run(const Arguments& arguments) {
  SCR_ASSIGN_OR_RETURN(const JobSettings job, JobSettings::load(scr::file_system()));
  nlohmann::ordered_json told;
  const bool all = arguments.all();
  if (all) {
    told["batch_system"] =
        scr::job::batch_system_name(scr::job::detect_batch_system(job.environment()));
  }
  if (all || arguments.user) told["user"] = job.info().user;
  if (all || arguments.job_id) told["jobid"] = job.info().job_id;
  if (all || arguments.nodes || arguments.down) {
    SCR_ASSIGN_OR_RETURN(const Hosts nodes,
                         scr::job::job_nodes(job.fs(), job.config(), job.environment()));
    if (all || arguments.nodes) told["nodes"] = scr::job::compress_hosts(nodes);
    if (all || arguments.down) {
      const Hosts down = scr::job::nodes_known_as_down(job.environment(), nodes);
      told["down"] = scr::job::compress_hosts(down);
    }
  }
  if (all || arguments.end_time) {
    const auto end = scr::job::job_end_time(job.config(), job.environment());
    if (!end && !all) return scr::not_found("the end of the job is not known");
    told["endtime"] = end.value_or(0);
  }
  if (arguments.json) {
    fmt::print("{}\n", told.dump(2));
    return {};
  }
  for (const auto& [key, value] : told.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    fmt::print("{}{}\n", told.size() > 1 ? key + "=" : "", text);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints what is known of the job: user, id, nodes, end.", kName};
  app.footer(kFooter);
  Arguments arguments;
  app.add_flag("-u,--user", arguments.user, "Name of the user");
  app.add_flag("-j,--jobid", arguments.job_id, "Id of the job");
  app.add_flag("-n,--nodes", arguments.nodes, "Nodes of the job");
  app.add_flag("-d,--down", arguments.down, "Nodes of the job that the batch system has as down");
  app.add_flag("-e,--endtime", arguments.end_time,
               "End of the job, in seconds since 1970-01-01 UTC");
  app.add_flag("--json", arguments.json, "Print a JSON object");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const scr::Status status = run(arguments);
  return status.ok() ? scr::tools::kSuccess : scr::tools::fail(kName, status);
}
