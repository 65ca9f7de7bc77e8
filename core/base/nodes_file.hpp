// The nodes file: how many nodes the last run used (SCR manual §9.6).
//
// The master process of each node writes it to the control directory; scr_run compares the number
// with the nodes that are still healthy before it starts the next run. Format: the key NODES with
// the number as its value.
#pragma once

#include <string_view>

#include "core/base/hash_file.hpp"

namespace scr {

inline constexpr std::string_view kNodesFileName = "nodes.scrinfo";

// 1 or more. kNotFound if there is no such file: then the next run needs every node.
Result<int> nodes_from_hash(const Hash& hash);
Result<int> read_nodes_file(FileSystem& fs, const At& at);
Status write_nodes_file(FileSystem& fs, const At& at, int nodes);

}  // namespace scr
