// scr_list_down_nodes: which nodes of the job cannot be used, and why.
#include <nlohmann/json.hpp>

#include "core/job/batch_system.hpp"
#include "core/job/down_nodes.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::DownNode;
using scr::job::Hosts;
using scr::job::JobSettings;

constexpr const char* kName = "scr_list_down_nodes";
constexpr int kSomeDown = 1;
constexpr int kCannotTell = 3;
constexpr const char* kFooter =
    "Tests, in this order: --down, SCR_EXCLUDE_NODES, what the batch system says, ping, "
    "scr_check_node on the\nnode itself (by srun, pdsh, ssh or mpirun; SCR_REMOTE_SHELL).\n"
    "Exit codes: 0 all nodes can be used; 1 some cannot, and are printed; 2 wrong use; 3 it cannot "
    "be told.";

struct Arguments {
  std::string nodes;
  std::string down;
  double timeout = 60;
  bool reason = false, log = false, free = false, no_ping = false, json = false;
};

scr::Result<std::vector<DownNode>> search(const JobSettings& job, const Arguments& arguments) {
  scr::job::DownNodeOptions options;
  if (arguments.nodes.empty()) {
    SCR_ASSIGN_OR_RETURN(options.nodes,
                         scr::job::job_nodes(job.fs(), job.config(), job.environment()));
  } else {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, scr::job::expand_hosts(arguments.nodes));
    options.nodes = scr::job::unique_hosts(hosts);
  }
  SCR_ASSIGN_OR_RETURN(const Hosts down, scr::job::expand_hosts(arguments.down));
  for (const std::string& host : down) options.known.push_back({host, "it was given as down"});
  options.ping = !arguments.no_ping;
  if (arguments.free) options.space = scr::job::SpaceTest::kFree;
  options.timeout = std::chrono::milliseconds(static_cast<long>(arguments.timeout * 1000));
  SCR_ASSIGN_OR_RETURN(const auto shell,
                       scr::job::RemoteShell::choose(job.config(), job.environment()));
  return scr::job::find_down_nodes(job, shell, options);
}

void print(const std::vector<DownNode>& down, const Arguments& arguments) {
  if (arguments.json) {
    auto told = nlohmann::ordered_json::array();
    for (const DownNode& node : down) {
      told.push_back({{"node", node.host}, {"reason", node.reason}});
    }
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", told.dump(2, ' ', false, replace));
  } else if (arguments.reason) {
    for (const DownNode& node : down) fmt::print("{}: {}\n", node.host, node.reason);
  } else if (!down.empty()) {
    fmt::print("{}\n", scr::job::compress_hosts(names_of(down)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints the nodes of the job that cannot be used.", kName};
  app.footer(kFooter);
  Arguments arguments;
  app.add_option("NODES", arguments.nodes, "Nodes to test (default: scr_env --nodes)");
  app.add_option("-d,--down", arguments.down, "Nodes that are down, without a test")
      ->type_name("LIST");
  app.add_flag("-r,--reason", arguments.reason, "Print a line for each node, with the reason");
  app.add_flag("-l,--log", arguments.log, "Also write them to the job's log (SCR_LOG_ENABLE)");
  app.add_flag(
      "-f,--free", arguments.free,
      "The size that a store must have (BYTES) must be free, and not only be there in all");
  app.add_flag("--no-ping", arguments.no_ping, "Leave out the test with ping");
  app.add_option("--timeout", arguments.timeout, "Seconds to wait for a node's answer")
      ->check(scr::tools::number_between(0.1, 1e6))
      ->capture_default_str();
  app.add_flag("-j,--json", arguments.json, "Print a JSON array");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = JobSettings::load(scr::file_system());
  if (!job.ok()) return scr::tools::fail(kName, job.status(), kCannotTell);
  const auto down = search(*job, arguments);
  if (!down.ok()) return scr::tools::fail(kName, down.status(), kCannotTell);
  print(*down, arguments);
  if (arguments.log) {
    scr::EventLog log = job->open_log(kName);
    for (const DownNode& node : *down) {
      log.once(scr::EventType::kNodeFailure,
               {.ok = false, .down_nodes = {node.host}, .note = node.reason});
    }
  }
  return down->empty() ? scr::tools::kSuccess : kSomeDown;
}
