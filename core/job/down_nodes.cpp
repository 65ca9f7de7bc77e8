#include "core/job/down_nodes.hpp"

#include <fmt/format.h>

#include <map>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/installation.hpp"

namespace scr::job {
namespace {

class Search {
 public:
  Search(const JobSettings& job, const RemoteShell& shell, const DownNodeOptions& options)
      : job_(job), shell_(shell), options_(options) {}

  void mark(const std::string& host, const std::string& reason) {
    // Names of users and batch systems may have a domain, or lack one.
    const std::string name = name_in_list(options_.nodes, host);
    if (!name.empty()) down_.try_emplace(name, reason);
  }

  // A host that all are cut off from by a firewall for ICMP would look like a cluster that is down
  // as a whole, so answers count only if some node gave one.
  void ping() {
    if (!options_.ping || !find_program("ping")) return;
    const Hosts hosts =
        hosts_minus(left(), Hosts{own_name_in_list(options_.nodes, log::host_name())});
    std::vector<Words> programs;
    for (const std::string& host : hosts) {
      programs.push_back({"ping", "-n", "-q", "-c", "1", "-W", "5", host});
    }
    const auto results = run_programs(programs, {.timeout = std::chrono::seconds(10)});
    Hosts silent;
    std::size_t answers = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      constexpr int kNoReply = 1;  // others mean that ping itself does not work
      if (results[i].ok()) ++answers;
      if (results[i].exit_code == kNoReply || results[i].timed_out) silent.push_back(hosts[i]);
    }
    if (answers == 0) return;
    for (const std::string& host : silent) mark(host, "it does not answer to ping");
  }

  void check_directories() {
    const Hosts hosts = left();
    const ProcessOptions options{.timeout = options_.timeout};
    for (const RemoteResult& result : shell_.run(hosts, check_command(), options)) {
      if (result.process.ok()) continue;
      constexpr std::string_view kFail = "FAIL: ";
      const std::string& output = result.process.output;
      const std::size_t found = output.find(kFail);
      mark(result.host,
           found == std::string::npos
               ? fmt::format("scr_check_node cannot run there: {}", result.process.summary())
               : text::escape(text::trim(std::string_view(output).substr(
                     found + kFail.size(), output.find('\n', found) - found - kFail.size()))));
    }
  }

  std::vector<DownNode> take() {
    std::vector<DownNode> result;
    for (const std::string& host : options_.nodes) {
      if (const auto found = down_.find(host); found != down_.end()) {
        result.push_back({host, found->second});
      }
    }
    return result;
  }

  Hosts left() const {
    Hosts hosts;
    for (const std::string& host : options_.nodes) {
      if (!down_.contains(host)) hosts.push_back(host);
    }
    return hosts;
  }

 private:
  Words check_command() const {
    Words words = {find_installation().bin + "/scr_check_node"};
    const auto needed = needed_directories(job_);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      words.push_back((i == 0 ? "--cntl=" : "--cache=") + needed[i].to_text());
      if (needed[i].make) words.push_back("--mkdir=" + needed[i].path);
    }
    if (options_.space == SpaceTest::kFree) words.emplace_back("--free");
    return words;
  }

  const JobSettings& job_;
  const RemoteShell& shell_;
  const DownNodeOptions& options_;
  std::map<std::string, std::string> down_;
};

}  // namespace

Result<std::vector<DownNode>> find_down_nodes(const JobSettings& job, const RemoteShell& shell,
                                              const DownNodeOptions& options) {
  auto excluded = expand_hosts(job.config().get_string("SCR_EXCLUDE_NODES"));
  if (!excluded.ok()) return excluded.status().with_context("SCR_EXCLUDE_NODES");
  Search search(job, shell, options);
  for (const DownNode& node : options.known) search.mark(node.host, node.reason);
  for (const std::string& host : *excluded) search.mark(host, "SCR_EXCLUDE_NODES names it");
  for (const std::string& host : nodes_known_as_down(job.environment(), search.left())) {
    search.mark(host, fmt::format("{} says that it is down",
                                  batch_system_name(detect_batch_system(job.environment()))));
  }
  search.ping();
  search.check_directories();
  return search.take();
}

std::vector<NeededDirectory> needed_directories(const JobSettings& job) {
  std::vector<NeededDirectory> needed = {{job.config().get_path("SCR_CNTL_BASE"), 0, false}};
  for (const config::StoreDescriptor* store : job.stores()) {
    needed.push_back({store->directory, store->bytes, store->make_directory});
  }
  return needed;
}

Hosts names_of(const std::vector<DownNode>& down) {
  Hosts names;
  for (const DownNode& node : down) names.push_back(node.host);
  return names;
}

}  // namespace scr::job
