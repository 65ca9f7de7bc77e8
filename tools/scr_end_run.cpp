// scr_end_run: ends what a failed run left on this node; scr_run calls it on each node.
#include "core/base/log.hpp"
#include "core/job/leftovers.hpp"
#include "tools/command.hpp"

namespace {

constexpr const char* kName = "scr_end_run";
constexpr const char* kFooter =
    "Processes are found by the variable SCR_RUN_ID in their environment, which scr_run sets.\n"
    "Exit codes: 0 none is left; 1 some do not end; 2 wrong use.";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Kills the processes on this node that a run of scr_run left behind.", kName};
  app.footer(kFooter);
  std::string run;
  bool list = false;
  app.add_option("RUN", run, "Id of the run")->required();
  app.add_flag("-l,--list", list, "Only print their process ids");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  if (list) {
    for (pid_t pid : scr::job::processes_of_run(scr::file_system(), run)) fmt::print("{}\n", pid);
    return scr::tools::kSuccess;
  }
  const auto killed = scr::job::kill_processes_of_run(scr::file_system(), run);
  if (!killed.ok()) return scr::tools::fail(kName, killed.status());
  if (*killed > 0) fmt::print("killed {} processes on {}\n", *killed, scr::log::host_name());
  return scr::tools::kSuccess;
}
