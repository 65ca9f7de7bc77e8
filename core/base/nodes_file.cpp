#include "core/base/nodes_file.hpp"

#include <fmt/format.h>

#include <limits>

namespace scr {

Result<int> read_nodes_file(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  const std::string context = fmt::format("'{}' is not a valid nodes file", at.display());
  const auto nodes = hash.require_int("NODES");
  if (!nodes.ok()) return nodes.status().with_context(context);
  if (*nodes < 1 || *nodes > std::numeric_limits<int>::max()) {
    return corrupt(fmt::format("{}: key 'NODES' has the impossible value {}", context, *nodes));
  }
  return static_cast<int>(*nodes);
}

Status write_nodes_file(FileSystem& fs, const At& at, int nodes) {
  if (nodes < 1) {
    return invalid_argument(
        fmt::format("cannot write '{}': {} is not a number of nodes", at.display(), nodes));
  }
  Hash hash;
  hash.set_value("NODES", nodes);
  return write_hash_file(fs, at, hash, Durability::kVolatile, 0600);
}

}  // namespace scr
