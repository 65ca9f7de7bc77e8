// scr_run: starts a program with everything set, and again after a failure.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/installation.hpp"
#include "core/job/process.hpp"
#include "core/job/run_loop.hpp"
#include "core/job/run_plan.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::Hdf5Way;
using scr::job::JobSettings;
using scr::job::LaunchCommand;
using scr::job::RunLoop;
using scr::job::Words;

constexpr const char* kName = "scr_run";
constexpr const char* kFooter =
    "COMMAND is how you start the program without h5scr, for example:\n"
    "  scr_run -- mpirun -n 64 ./simulation input.txt\n"
    "The program's processes, and no others, get HDF5_DRIVER, HDF5_PLUGIN_PATH, LD_PRELOAD, "
    "SCR_HALT_EXIT=1 and\n"
    "all SCR_* variables. After a failure the program is started again, SCR_RUNS times in all, on "
    "the nodes that\n"
    "are left. In the end the newest checkpoint is brought to the prefix directory (scr_postrun).\n"
    "\n"
    "Exit codes: that of the program's last run; 2 wrong use; 125 scr_run could not start it. With "
    "--check: 0, or 1 if\n"
    "scr_test_runtime finds faults.\n"
    "docs/commands.md tells how nodes are left out for each launcher.";

struct Arguments {
  Words command;
  std::string restart_command;
  std::string hdf5 = "auto";
  std::string drill;
  scr::job::RunLoopOptions loop;
  bool check = false, force = false, no_post_run = false, with_drill = false, json = false;
};

void define(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.add_option("COMMAND", arguments.command, "Launcher, its options, program, its arguments");
  app.positionals_at_end();  // what follows the first word of COMMAND is COMMAND's
  app.add_option("--restart-cmd", arguments.restart_command,
                 "Program and arguments that take their place if there is a checkpoint to restart "
                 "from; SCR_CKPT_NAME in it becomes the checkpoint's name")
      ->type_name("WORDS");
  app.add_option("--runs", arguments.loop.runs, "Start it at most N times; -1: no limit (SCR_RUNS)")
      ->type_name("N");
  app.add_option("--min-nodes", arguments.loop.min_nodes,
                 "Nodes that the program needs (SCR_MIN_NODES)")
      ->type_name("N");
  app.add_option("--wait", arguments.loop.wait, "Seconds to wait before it is started again")
      ->check(scr::tools::number_between(0, 1e6))
      ->capture_default_str();
  app.add_flag("--outside", arguments.loop.outside,
               "This host need not be a node of the job (login and launch nodes)");
  app.add_flag("--transfer", arguments.loop.transfer,
               "Run scr_transfer on each node; so does SCR_FLUSH_TYPE=DAEMON");
  app.add_option("--hdf5", arguments.hdf5,
                 "Which HDF5 the program has: plugin (1.14 and later), legacy (1.10, 1.12), none")
      ->check(CLI::IsMember({"auto", "plugin", "legacy", "none"}))
      ->capture_default_str();
  app.add_flag("--force", arguments.force, "Start although scr_test_runtime finds faults");
  app.add_flag("--no-postrun", arguments.no_post_run, "Do not run scr_postrun in the end");
  app.add_flag("--check", arguments.check,
               "Only print the plan: what is routed, where, which losses it survives");
  app.add_flag("--json", arguments.json, "With --check: print the plan as JSON");
  app.add_option(
         "--drill", arguments.drill,
         "Lose a node on purpose (this one, or any) after the first checkpoint, and tell how "
         "the restart went")
      ->type_name("[NODE]")
      ->expected(0, 1);
}

// An option that scr_run does not have is refused by the parser, but for words that look like none
// ("---x"), and after `--`.
scr::Status check_use(const Arguments& arguments) {
  if (arguments.command.empty()) {
    return scr::invalid_argument("which program? scr_run [options] -- COMMAND");
  }
  const std::string& first = arguments.command.front();
  if (first.empty() || first.starts_with('-')) {
    return scr::invalid_argument(fmt::format("'{}' is neither an option of scr_run nor a program",
                                             scr::text::escape(first)));
  }
  if (arguments.json && !arguments.check) return scr::invalid_argument("--json is for --check");
  return {};
}

struct RuntimeTest {
  bool ok = false;
  Hdf5Way hdf5 = Hdf5Way::kUnknown;
  std::string text;  // lines for people
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
};

Hdf5Way hdf5_way(const std::string& name) {
  for (Hdf5Way way : {Hdf5Way::kNone, Hdf5Way::kPlugin, Hdf5Way::kLegacy}) {
    if (scr::job::hdf5_way_name(way) == name) return way;
  }
  return Hdf5Way::kUnknown;
}

// In a process of its own, which may load the program's libraries.
RuntimeTest test_runtime(const JobSettings& job, const LaunchCommand& command) {
  Words words = {scr::job::find_installation().bin + "/scr_test_runtime", "--json", "--prefix",
                 job.prefix()};
  if (!command.program().empty()) words.push_back(command.program().front());
  const auto result = scr::job::run_program(words);
  const auto told = nlohmann::ordered_json::parse(result.output, nullptr, false);
  RuntimeTest test;
  if (!told.is_object()) {
    test.text = result.summary() + "\n";
    return test;
  }
  test.ok = told.value("ok", false);
  test.hdf5 = hdf5_way(told.value("hdf5", ""));
  test.findings = told["findings"];
  for (const auto& finding : test.findings) {
    test.text +=
        fmt::format("{:<6} {}: {}\n", finding.value("state", ""), finding.value("subject", ""),
                    scr::text::escape(finding.value("text", "")));
  }
  return test;
}

// With SCR_ENABLE=0 there is nothing to do for us.
int run_plainly(const Words& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return scr::tools::fail(kName, scr::errno_status(errno, "start", command.front()),
                          RunLoop::kOwnFailure);
}

int run(const JobSettings& job, Arguments& arguments) {
  auto command = LaunchCommand::parse(arguments.command);
  if (!command.ok()) return scr::tools::fail(kName, command.status(), scr::tools::kUsage);
  auto restart = scr::job::split_words(arguments.restart_command);
  if (!restart.ok()) return scr::tools::fail(kName, restart.status(), scr::tools::kUsage);
  arguments.loop.restart_program = *std::move(restart);
  arguments.loop.post_run = !arguments.no_post_run;
  if (arguments.with_drill) arguments.loop.drill = arguments.drill;
  if (job.config().flush_type() == scr::config::FlushType::kDaemon) arguments.loop.transfer = true;

  RuntimeTest test = test_runtime(job, *command);
  if (arguments.hdf5 != "auto") test.hdf5 = hdf5_way(arguments.hdf5);
  if (arguments.check && !arguments.json) fmt::print("{}", test.text);
  if (!test.ok && !arguments.check && !arguments.force) {
    fmt::print(stderr, "{}", test.text);
    return scr::tools::fail(kName,
                            scr::failed_precondition("not started: see above, or use --force"),
                            RunLoop::kOwnFailure);
  }
  if (!arguments.check) {
    const scr::Status made = job.fs().make_directories(job.prefix_scr());
    if (!made.ok()) return scr::tools::fail(kName, made, RunLoop::kOwnFailure);
  }
  auto loop = RunLoop::prepare(job, *std::move(command), test.hdf5, arguments.loop);
  if (!loop.ok()) return scr::tools::fail(kName, loop.status(), RunLoop::kOwnFailure);
  if (!arguments.check) return loop->run();
  if (arguments.json) {
    nlohmann::ordered_json json = {{"ok", test.ok}, {"findings", test.findings}};
    json.update(scr::job::plan_json(job, *loop));
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", scr::job::describe_plan(job, *loop));
  }
  return test.ok ? scr::tools::kSuccess : scr::tools::kFailure;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Starts a parallel program with h5scr, and again after a failure.", kName};
  Arguments arguments;
  define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  arguments.with_drill = app.count("--drill") > 0;
  if (const scr::Status used = check_use(arguments); !used.ok()) {
    return scr::tools::fail(kName, used, scr::tools::kUsage);
  }
  const auto job = JobSettings::load(scr::file_system());
  if (!job.ok()) return scr::tools::fail(kName, job.status(), RunLoop::kOwnFailure);
  if (!job->config().get_bool("SCR_ENABLE")) {
    if (!arguments.check) return run_plainly(arguments.command);
    fmt::print("{}\n", arguments.json ? "{\"enabled\": false}"
                                      : "SCR_ENABLE=0: the command is started as it is, without "
                                        "h5scr.");
    return scr::tools::kSuccess;
  }
  return run(*job, arguments);
}
