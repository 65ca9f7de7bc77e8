// Which nodes of a job cannot be used, and why.
//
// The tests of the SCR manual §11.2.3, cheapest first; a node that failed one is not asked again:
// nodes that the user excludes or names, nodes that the batch system takes for down, no answer to
// ping, and the node's own check of its directories (scr_check_node).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/job/job_settings.hpp"
#include "core/job/node_check.hpp"
#include "core/job/remote.hpp"

namespace scr::job {

struct DownNode {
  std::string host;
  std::string reason;
  bool operator==(const DownNode&) const = default;
};

struct DownNodeOptions {
  Hosts nodes = {};                  // to test
  std::vector<DownNode> known = {};  // down already, and why
  SpaceTest space = SpaceTest::kCapacity;
  bool ping = true;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // for a node's answer
};

// In the order of the nodes.
Result<std::vector<DownNode>> find_down_nodes(const JobSettings& job, const RemoteShell& shell,
                                              const DownNodeOptions& options);

// The directories that every node of the job needs.
std::vector<NeededDirectory> needed_directories(const JobSettings& job);

Hosts names_of(const std::vector<DownNode>& down);

}  // namespace scr::job
