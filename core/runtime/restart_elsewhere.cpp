#include "core/runtime/restart_elsewhere.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/progress.hpp"
#include "core/runtime/restart_members.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

using redundancy::RedundancySet;

// What all processes know together of the ranks that wrote the dataset.
struct Layout {
  StoredDescriptor common;            // where files are; the sets of all ranks
  std::map<int, int> hosts;           // rank that wrote -> process that has its files
  std::map<int, RedundancySet> sets;  // by id

  // The sets of a rank, its own first.
  StoredDescriptor descriptor_of(int rank) const {
    StoredDescriptor descriptor = common;
    for (const auto& [id, set] : sets) {
      const int index = set.index_of(rank);
      if (index < 0) continue;
      const bool guest = set.members[static_cast<std::size_t>(index)].guest;
      descriptor.sets.insert(guest ? descriptor.sets.end() : descriptor.sets.begin(), set);
    }
    return descriptor;
  }
  bool knows(int rank) const {
    const StoredDescriptor descriptor = descriptor_of(rank);
    if (descriptor.sets.empty()) return false;
    const RedundancySet& own = descriptor.sets.front();
    return !own.members[static_cast<std::size_t>(own.index_of(rank))].guest;
  }
};

struct Elsewhere {
  Context& context;
  Cache& cache;
  DatasetDescriptor dataset;
  Layout layout = {};
  std::unique_ptr<Directory> directory = nullptr;
};

// Everybody tells rank 0 what it has, and rank 0 tells everybody.
Status share_layout(Elsewhere& e) {
  Communicator& world = e.context.world();
  Hash send;
  Hash& mine = send.at("0");
  for (int rank : e.cache.filemap().ranks(e.dataset.id)) {
    const FilemapEntry* entry = e.cache.filemap().get(rank, e.dataset.id);
    SCR_ASSIGN_OR_RETURN(const StoredDescriptor descriptor,
                         StoredDescriptor::from_hash(entry->redundancy));
    mine.set_value("INDEX", descriptor.index);
    mine.set_value("BASE", descriptor.store);
    mine.set_value("DIRECTORY", descriptor.directory);
    mine.at("HOST").at(std::to_string(rank)).set_value("PROCESS", world.rank());
    for (const auto& set : descriptor.sets)
      mine.at("SET").set(std::to_string(set.id), set.to_hash());
  }
  Hash received;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, send, received));
  Hash all;
  for (const auto& element : received.elements()) {
    for (const char* key : {"INDEX", "BASE", "DIRECTORY"}) {
      if (const Hash* value = element.hash.get(key)) all.set(key, *value);
    }
    if (const Hash* sets = element.hash.get("SET")) all.at("SET").merge(*sets);
    if (const Hash* hosts = element.hash.get("HOST")) {
      for (const auto& host : hosts->elements()) all.at("HOST").set(host.key, host.hash);
    }
  }
  SCR_RETURN_IF_ERROR(broadcast_hash(world, all, 0));
  SCR_ASSIGN_OR_RETURN(e.layout.common.index, all.require_uint("INDEX"));
  SCR_ASSIGN_OR_RETURN(e.layout.common.store, all.require_value("BASE"));
  SCR_ASSIGN_OR_RETURN(e.layout.common.directory, all.require_value("DIRECTORY"));
  for (const auto& element : all.at("SET").elements()) {
    SCR_ASSIGN_OR_RETURN(RedundancySet set, RedundancySet::from_hash(element.hash));
    const int id = set.id;
    e.layout.sets.emplace(id, std::move(set));
  }
  for (const auto& element : all.at("HOST").elements()) {
    SCR_ASSIGN_OR_RETURN(const std::int64_t process, element.hash.require_int("PROCESS"));
    e.layout.hosts[std::stoi(element.key)] = static_cast<int>(process);
  }
  return {};
}

// Lost ranks get processes that take their places.
Status place_lost_ranks(Elsewhere& e) {
  std::string unknown;
  for (int rank = 0; rank < e.dataset.ranks; ++rank) {
    if (!e.layout.knows(rank)) unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", rank);
    e.layout.hosts.try_emplace(rank, rank % e.context.size());
  }
  if (unknown.empty()) return {};
  return all_gone(unknown);
}

Status open_directory(Elsewhere& e) {
  SCR_ASSIGN_OR_RETURN(const std::string path, make_dataset_directory(e.context, e.layout.common));
  SCR_ASSIGN_OR_RETURN(e.directory, e.context.fs().open_directory(path));
  return {};
}

struct RegisterContext {
  Elsewhere* elsewhere;
  const RedundancySet* set;
};

// Lists the files of a rebuilt member before they are created.
Status register_rebuilt(void* context, const redundancy::HostedMember& member) {
  const auto& [elsewhere, set] = *static_cast<RegisterContext*>(context);
  Elsewhere& e = *elsewhere;
  const int rank = set->members[static_cast<std::size_t>(member.index)].rank;
  return e.cache.update(rank, e.dataset.id, [&](FilemapEntry& entry) {
    entry.dataset = e.dataset;
    entry.directory = e.directory->path();
    entry.redundancy = e.layout.descriptor_of(rank).to_hash();
    list_rebuilt(entry, member.content);
  });
}

// For processes that host a member; all of them come here.
Status rebuild_set(Elsewhere& e, const RedundancySet& set, bool verify, std::uint64_t& rebuilt) {
  std::vector<int> hosts;
  std::vector<redundancy::HostedMember> mine;
  for (const auto& member : set.members) {
    hosts.push_back(e.layout.hosts.at(member.rank));
    if (hosts.back() != e.context.rank()) continue;
    const FilemapEntry* entry = e.cache.filemap().get(member.rank, e.dataset.id);
    mine.push_back(hosted_member(e.context.fs(), *e.directory, entry,
                                 e.layout.descriptor_of(member.rank), set, member.rank));
  }
  if (mine.empty()) return {};
  RegisterContext context{&e, &set};
  redundancy::EncodeOptions options;
  options.progress =
      watch_growing_progress(e.context.rank(), fmt::format("rebuild of dataset {}", e.dataset.id));
  auto result = redundancy::rebuild(e.context.world(), e.context.fs(), set, hosts, mine, verify,
                                    register_rebuilt, &context, options);
  if (!result.ok()) return result.status();
  for (const redundancy::HostedMember& member : mine) {
    if (!member.rebuilt) continue;
    ++rebuilt;
    SCR_RETURN_IF_ERROR(register_rebuilt(&context, member));
  }
  return {};
}

// All is there: the entries are whole, and the dataset is complete.
Status complete_entries(Elsewhere& e) {
  for (const auto& [rank, process] : e.layout.hosts) {
    if (process != e.context.rank()) continue;
    SCR_RETURN_IF_ERROR(e.cache.update(rank, e.dataset.id, [&](FilemapEntry& entry) {
      entry.dataset = e.dataset;
      entry.dataset.complete = true;
      entry.directory = e.directory->path();
      entry.expected_files = static_cast<int>(entry.files.size());
    }));
  }
  return {};
}

}  // namespace

bool has_only_shared_files(Context& context, const Cache& cache, int dataset) {
  bool others = false;
  for (int rank : cache.filemap().ranks(dataset)) {
    for (const FileMeta& meta : cache.filemap().get(rank, dataset)->files) {
      others = others || (meta.type == FileType::kFull && meta.shared.empty());
    }
  }
  return !context.world().any_true(others);
}

Status restore_elsewhere(Context& context, Cache& cache, const DatasetDescriptor& dataset,
                         bool verify, CachedDataset& result) {
  Communicator& world = context.world();
  Elsewhere e{context, cache, dataset};
  SCR_RETURN_IF_ERROR(agree(world, share_layout(e), "finding redundancy sets"));
  SCR_RETURN_IF_ERROR(place_lost_ranks(e));  // the same everywhere
  SCR_RETURN_IF_ERROR(agree(world, open_directory(e), "opening the dataset directory"));
  Status status;
  std::uint64_t rebuilt = 0;
  for (const auto& [id, set] : e.layout.sets) {
    Status one = rebuild_set(e, set, verify, rebuilt);
    if (status.ok()) status = one;
  }
  result.rebuilt_ranks = world.all_reduce(rebuilt, ReduceOp::kSum);
  SCR_RETURN_IF_ERROR(agree(world, status, "rebuilding files", Report::kQuiet));
  SCR_RETURN_IF_ERROR(agree(world, complete_entries(e), "writing the filemaps"));
  result.usable = true;
  result.verified = verify;
  return {};
}

std::vector<const FilemapEntry*> own_entries(const Context& context, const Cache& cache,
                                             const DatasetDescriptor& dataset) {
  std::vector<const FilemapEntry*> entries;
  if (dataset.ranks == context.size()) {
    if (const FilemapEntry* entry = cache.filemap().get(context.rank(), dataset.id)) {
      entries.push_back(entry);
    }
    return entries;
  }
  for (int rank : cache.filemap().ranks(dataset.id)) {
    entries.push_back(cache.filemap().get(rank, dataset.id));
  }
  return entries;
}

}  // namespace scr
