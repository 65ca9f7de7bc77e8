#include "core/base/nodes_file.hpp"

#include <fmt/format.h>

#include <limits>

namespace scr {

Result<int> nodes_from_hash(const Hash& hash) {
  SCR_ASSIGN_OR_RETURN(const std::int64_t nodes, hash.require_int("NODES"));
  if (nodes < 1 || nodes > std::numeric_limits<int>::max())
    return corrupt(fmt::format("key 'NODES' has the impossible value {}", nodes));
  return static_cast<int>(nodes);
}

Result<int> read_nodes_file(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  const auto nodes = nodes_from_hash(hash);
  if (!nodes.ok())
    return nodes.status().with_context(fmt::format("'{}' is not a valid nodes file", at.display()));
  return nodes;
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
