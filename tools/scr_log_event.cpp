// scr_log_event: adds an event to the log of a job, for scripts.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/job/host_list.hpp"
#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

using scr::EventType;

constexpr const char* kName = "scr_log_event";
constexpr const char* kFooter =
    "Writes where SCR_LOG_* say, also if SCR_LOG_ENABLE is not set: whoever calls this wants it.\n"
    "Exit codes: 0 success; 1 the configuration has errors, or the log cannot be written; 2 wrong "
    "use.";

struct Arguments {
  scr::job::JobOverrides overrides;
  std::string type, name, note, down, run_id = kName;
  int dataset = 0;
  std::optional<double> seconds;
  std::optional<std::uint64_t> bytes, files;
  bool failed = false;
};

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const EventType type : scr::event_types()) names.emplace_back(scr::event_type_name(type));
  return names;
}

EventType type_of(const std::string& name) {
  const auto types = scr::event_types();
  return *std::find_if(types.begin(), types.end(),
                       [&](EventType type) { return scr::event_type_name(type) == name; });
}

void define(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.add_option("-T,--type", arguments.type, "What happened")
      ->required()
      ->check(CLI::IsMember(type_names()));
  app.add_option("-N,--note", arguments.note, "What else is worth knowing");
  app.add_option("-D,--dset", arguments.dataset, "Id of the dataset it is about")
      ->check(scr::tools::number_not_negative());
  app.add_option("-n,--name", arguments.name, "Name of the dataset it is about");
  app.add_option("-L,--secs", arguments.seconds, "Seconds that it took")
      ->check(scr::tools::number_not_negative());
  app.add_option("-B,--bytes", arguments.bytes, "Bytes that were written or read")
      ->check(scr::tools::number_not_negative());
  app.add_option("-F,--files", arguments.files, "Files that were written or read")
      ->check(scr::tools::number_not_negative());
  app.add_option("--down", arguments.down, "Nodes that are down")->type_name("LIST");
  app.add_flag("--failed", arguments.failed, "It did not succeed");
  app.add_option("-i,--jobid", arguments.overrides.job_id, "Id of the job");
  app.add_option("-p,--prefix", arguments.overrides.prefix, "Prefix directory of the job");
  app.add_option("-r,--run", arguments.run_id, "Who writes")->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Adds an event to the log of a job.", kName};
  Arguments arguments;
  define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto down = scr::job::expand_hosts(arguments.down);
  if (!down.ok()) return scr::tools::fail(kName, down.status(), scr::tools::kUsage);
  const auto job = scr::job::JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  // The log makes missing directories, which a job that is not there must not get.
  const scr::Status found = scr::tools::check_directory(job->fs(), job->prefix());
  if (!found.ok()) return scr::tools::fail(kName, found);
  scr::EventLog log = job->open_log(arguments.run_id, /*always=*/true);
  log.once(type_of(arguments.type),
           {.ok = !arguments.failed,
            .bytes = arguments.bytes,
            .files = arguments.files,
            .seconds = arguments.seconds,
            .down_nodes = *down,
            .note = arguments.note},
           arguments.dataset, arguments.name);
  if (const scr::Status failure = log.first_failure(); !failure.ok())
    return scr::tools::fail(kName, failure);
  return scr::tools::kSuccess;
}
