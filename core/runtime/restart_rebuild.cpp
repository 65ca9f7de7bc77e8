#include "core/runtime/restart_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "core/base/progress.hpp"
#include "core/runtime/restart_members.hpp"
#include "redundancy/redundancy.hpp"

namespace scr {

namespace {

// A rank whose node was lost knows nothing of its sets; the other members tell it.
Status share_sets(Restoration& r) {
  Communicator& world = r.context.world();
  if (!world.any_true(!r.descriptor)) return {};
  Hash send;
  if (r.descriptor) {
    for (const auto& set : r.descriptor->sets) {
      for (const auto& member : set.members) {
        if (member.rank == world.rank()) continue;
        Hash& message = send.at(std::to_string(member.rank));
        message.set_value("INDEX", r.descriptor->index);
        message.set_value("BASE", r.descriptor->store);
        message.set_value("DIRECTORY", r.descriptor->directory);
        message.at("SET").set(std::to_string(set.id), set.to_hash());
      }
    }
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, send, receive));
  if (r.descriptor || receive.empty()) return {};

  // Own set first, then the others by id; several members may have sent the same.
  Hash merged;
  for (const auto& element : receive.elements()) {
    for (const char* key : {"INDEX", "BASE", "DIRECTORY"}) merged.set(key, *element.hash.get(key));
    merged.at("SETS").merge(*element.hash.get("SET"));
  }
  std::vector<redundancy::RedundancySet> sets;
  for (const auto& element : merged.get("SETS")->elements()) {
    SCR_ASSIGN_OR_RETURN(auto set, redundancy::RedundancySet::from_hash(element.hash));
    const int index = set.index_of(world.rank());
    if (index < 0) return corrupt("received a redundancy set of others");
    const bool guest = set.members[static_cast<std::size_t>(index)].guest;
    sets.insert(guest ? sets.end() : sets.begin(), std::move(set));
  }
  // Members of guest sets alone cannot tell the own set: then its files are beyond recovery.
  if (sets.front().members[static_cast<std::size_t>(sets.front().index_of(world.rank()))].guest)
    return {};
  StoredDescriptor descriptor;
  SCR_ASSIGN_OR_RETURN(descriptor.index, merged.require_uint("INDEX"));
  SCR_ASSIGN_OR_RETURN(descriptor.store, merged.require_value("BASE"));
  SCR_ASSIGN_OR_RETURN(descriptor.directory, merged.require_value("DIRECTORY"));
  descriptor.sets = std::move(sets);
  return r.protected_by(std::move(descriptor));
}

// Names the ranks of which nothing at all is left, on every rank. Which nodes had them, nobody
// knows any more.
Status report_unknown_ranks(Restoration& r) {
  constexpr int kNamed = 20;
  Communicator& world = r.context.world();
  if (!world.any_true(!r.descriptor)) return {};
  const std::byte unknown{r.descriptor ? std::uint8_t{0} : std::uint8_t{1}};
  const std::vector<std::byte> all = world.all_gather(std::span(&unknown, 1));
  std::string names;
  int count = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] == std::byte{0} || ++count > kNamed) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  if (count > kNamed) names += fmt::format(" and {} more", count - kNamed);
  return all_gone(names);
}

// Lists the files of a rebuilt member before they are created.
Status register_rebuilt(void* context, const redundancy::HostedMember& member) {
  Restoration& r = *static_cast<Restoration*>(context);
  return r.cache.update(r.context.rank(), r.id, [&](FilemapEntry& entry) {
    entry.dataset = r.dataset;
    entry.directory = *r.directory;
    entry.redundancy = r.descriptor->to_hash();
    list_rebuilt(entry, member.content);
  });
}

// The dataset directory may have gone together with the last file that moved away from it.
Status open_directory(Restoration& r) {
  SCR_ASSIGN_OR_RETURN(r.directory, make_dataset_directory(r.context, *r.descriptor));
  SCR_ASSIGN_OR_RETURN(r.opened, r.context.fs().open_directory(*r.directory));
  return {};
}

// Every member must come to redundancy::rebuild, so nothing here may fail before it.
Status rebuild_set(Restoration& r, const redundancy::RedundancySet& set, bool verify,
                   bool& rebuilt) {
  const FilemapEntry* entry = r.cache.filemap().get(r.context.rank(), r.id);
  std::vector<int> hosts;
  for (const auto& m : set.members) hosts.push_back(m.rank);
  std::vector<redundancy::HostedMember> mine = {
      hosted_member(r.context.fs(), *r.opened, entry, *r.descriptor, set, r.context.rank())};
  redundancy::EncodeOptions options;
  options.progress =
      watch_growing_progress(r.context.rank(), fmt::format("rebuild of dataset {}", r.id));
  auto result = redundancy::rebuild(r.context.world(), r.context.fs(), set, hosts, mine, verify,
                                    register_rebuilt, &r, options);
  if (!result.ok()) {
    const auto& self = set.members[static_cast<std::size_t>(mine.front().index)];
    if (!mine.front().lost_because.empty()) r.lost_node = self.host;
    if (self.rank == set.members.front().rank) ++r.failed_sets;
    return result.status();
  }
  if (mine.front().rebuilt) {
    rebuilt = true;
    r.rebuilt_node = set.members[static_cast<std::size_t>(mine.front().index)].host;
    return register_rebuilt(&r, mine.front());
  }
  return {};
}

// "node1 (rank 2, 3), node2 (rank 4)", of bounded length.
std::string losses_in_words(const std::map<std::string, std::vector<int>>& ranks_by_node) {
  constexpr std::size_t kNodes = 16;
  constexpr std::size_t kRanks = 32;  // of a node
  std::string text;
  std::size_t nodes = 0;
  for (const auto& [node, ranks] : ranks_by_node) {
    if (++nodes > kNodes) continue;
    const std::span<const int> named(ranks.data(), std::min(ranks.size(), kRanks));
    const std::string more =
        ranks.size() > kRanks ? fmt::format(" and {} more", ranks.size() - kRanks) : "";
    text += fmt::format("{}{} (rank {}{})", text.empty() ? "" : ", ", node, fmt::join(named, ", "),
                        more);
  }
  if (nodes > kNodes) text += fmt::format(" and {} more nodes", nodes - kNodes);
  return text;
}

// Collective. On rank 0 the nodes that ranks have named, and these ranks.
std::map<std::string, std::vector<int>> collect_nodes(Communicator& world,
                                                      const std::optional<std::string>& node) {
  std::vector<RankMessage> mine;
  if (node) {
    const auto bytes = std::as_bytes(std::span(*node));
    mine.push_back({0, {bytes.begin(), bytes.end()}});
  }
  std::map<std::string, std::vector<int>> ranks_by_node;
  for (const RankMessage& message : world.sparse_exchange(std::move(mine))) {
    const std::string name(reinterpret_cast<const char*>(message.data.data()), message.data.size());
    ranks_by_node[name].push_back(message.rank);
  }
  return ranks_by_node;
}

// Collective. The failure of one set names what this set has lost; where several have failed, all
// that is lost is named.
Status with_all_losses(Restoration& r, const Status& status) {
  Communicator& world = r.context.world();
  const std::uint64_t sets = world.all_reduce(r.failed_sets, ReduceOp::kSum);
  if (sets < 2) return status;
  const auto ranks_by_node = collect_nodes(world, r.lost_node);
  const std::string losses = world.broadcast_string(losses_in_words(ranks_by_node), 0);
  return {status.code(),
          fmt::format(
              "{}; in all {} redundancy sets cannot be rebuilt, for the files of these nodes are "
              "lost: {}",
              status.message(), sets, losses)};
}

std::uint64_t application_bytes(const FilemapEntry& entry) {
  std::uint64_t sum = 0;
  for (const FileMeta& meta : entry.files) sum += meta.type == FileType::kFull ? meta.size : 0;
  return sum;
}

// Rebuilds every set of this rank, in the order of their ids. A set that fails does not keep the
// others from being tried: all processes must come to all their sets.
Status rebuild_all(Restoration& r, bool verify, CachedDataset& result) {
  std::vector<const redundancy::RedundancySet*> sets;
  for (const auto& set : r.descriptor->sets) sets.push_back(&set);
  std::sort(sets.begin(), sets.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  Status status;
  bool rebuilt = false;
  for (const auto* set : sets) {
    Status one = rebuild_set(r, *set, verify, rebuilt);
    if (status.ok()) status = one;
  }
  Communicator& world = r.context.world();
  result.rebuilt_ranks = world.all_reduce(std::uint64_t{rebuilt ? 1u : 0u}, ReduceOp::kSum);
  if (result.rebuilt_ranks > 0) {
    const FilemapEntry* entry = r.cache.filemap().get(world.rank(), r.id);
    const std::uint64_t bytes = rebuilt && entry != nullptr ? application_bytes(*entry) : 0;
    result.rebuilt_bytes = world.all_reduce(bytes, ReduceOp::kSum);
    for (const auto& [node, ranks] : collect_nodes(world, r.rebuilt_node)) {
      result.lost_nodes.push_back(node);
    }
  }
  status = agree(world, status, "rebuilding files", Report::kQuiet);
  if (!status.ok()) return with_all_losses(r, status);
  // Now that everything is there: the entry is whole and the dataset is complete.
  status = r.cache.update(world.rank(), r.id, [&](FilemapEntry& entry) {
    entry.dataset = r.dataset;
    entry.dataset.complete = true;
    entry.directory = *r.directory;
    entry.redundancy = r.descriptor->to_hash();
    entry.expected_files = static_cast<int>(entry.files.size());
  });
  return agree(world, status, "writing the filemaps");
}

}  // namespace

Status Restoration::protected_by(StoredDescriptor stored) {
  SCR_ASSIGN_OR_RETURN(directory, make_dataset_directory(context, stored));
  descriptor = std::move(stored);
  return {};
}

Status rebuild(Restoration& r, bool verify, CachedDataset& result) {
  SCR_RETURN_IF_ERROR(agree(r.context.world(), share_sets(r), "finding redundancy sets"));
  SCR_RETURN_IF_ERROR(report_unknown_ranks(r));
  SCR_RETURN_IF_ERROR(agree(r.context.world(), open_directory(r), "opening the dataset directory"));
  return rebuild_all(r, verify, result);
}

}  // namespace scr
