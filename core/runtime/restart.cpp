#include "core/runtime/restart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/progress.hpp"
#include "core/base/text.hpp"
#include "core/runtime/file_mover.hpp"
#include "core/runtime/restart_elsewhere.hpp"
#include "core/runtime/restart_twins.hpp"
#include "flush/intent.hpp"
#include "flush/orphans.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

// All that is known of one dataset while it is restored.
struct Restoration {
  Context& context;
  Cache& cache;
  int id = 0;
  DatasetDescriptor dataset;
  std::optional<StoredDescriptor> descriptor;   // of this rank
  std::optional<std::string> directory;         // of this rank's files
  std::unique_ptr<Directory> opened = nullptr;  // the same, once it is certain to stay
  // The first failure on this process to reach data that may be whole all the same.
  Status unreached = {};
  // The node that had the files of this rank, if they are lost and their set could not be rebuilt.
  std::optional<std::string> lost_node = {};
  std::optional<std::string> rebuilt_node = {};  // that had what this rank has got back
  std::uint64_t failed_sets = 0;                 // that this rank is the first member of
  // Of several datasets with this id, none can be restored: all of them stay as they are.
  Status not_restorable = {};

  void note(const Status& status) {
    if (unreached.ok() && status.may_hide_sound_data()) unreached = status;
  }
};

// The largest id below `bound` that any process knows, 0 if there is none.
int next_dataset(Context& context, const Cache& cache, int bound) {
  std::int64_t mine = 0;
  for (int id : cache.filemap().datasets()) {
    if (id < bound) mine = std::max<std::int64_t>(mine, id);
  }
  return static_cast<int>(context.world().all_reduce(mine, ReduceOp::kMax));
}

// Where files of this rank would have to be to be used without moving them: on its node, or on a
// store that its nodes share.
std::string place_of(const Context& context, const std::string& store) {
  for (const auto& descriptor : context.config().stores()) {
    if (descriptor.directory != store || descriptor.group == "NODE") continue;
    if (auto value = context.group_value(descriptor.group); value.ok()) {
      return descriptor.group + "=" + *value;
    }
  }
  return context.host();
}

// Collective. When the copy was created that is to be restored, of those that processes have of the
// id: the newest one that says it is complete (a rank marks its copy only after all ranks have
// their files and redundancy data in place, so one mark is enough). Of several such, the newest one
// that can be restored; if none can, `r.not_restorable` says why.
struct ChosenCopy {
  std::int64_t created = 0;
  bool complete = false;
};
ChosenCopy choose_copy(Restoration& r) {
  Communicator& world = r.context.world();
  // The newest that was created before `bound`, of any or of the complete ones.
  const auto newest_before = [&](std::int64_t bound, bool complete) {
    std::int64_t newest = 0;
    for (int rank : r.cache.filemap().ranks(r.id)) {
      const DatasetDescriptor& dataset = r.cache.filemap().get(rank, r.id)->dataset;
      if (dataset.created < bound && (dataset.complete || !complete))
        newest = std::max(newest, dataset.created);
    }
    return world.all_reduce(newest, ReduceOp::kMax);
  };
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t newest = newest_before(kAny, /*complete=*/true);
  if (newest == 0) return {newest_before(kAny, /*complete=*/false), false};
  if (newest_before(newest, /*complete=*/true) == 0) return {newest, true};
  for (std::int64_t created = newest; created > 0;
       created = newest_before(created, /*complete=*/true)) {
    const Status status = check_restorable(r.context, r.cache, r.id, created);
    if (status.ok()) {
      r.not_restorable = {};
      return {created, true};
    }
    if (r.not_restorable.ok() || status.may_hide_sound_data()) r.not_restorable = status;
    // What could not be read may be the newest state: an older one must not take its place.
    if (status.may_hide_sound_data()) break;
    if (r.context.rank() == 0) {
      log::warning("one of several datasets with the id {} cannot be restored from the cache: {}",
                   r.id, status.message());
    }
  }
  return {newest, true};
}

// What other datasets with this id have left here goes.
Status remove_other_copies(Restoration& r, std::int64_t created) {
  for (int rank : r.cache.filemap().ranks(r.id)) {
    if (r.cache.filemap().get(rank, r.id)->dataset.created == created) continue;
    // On a store that nodes share, the files of the other dataset have the same names.
    const auto stored = StoredDescriptor::from_hash(r.cache.filemap().get(rank, r.id)->redundancy);
    const bool shared = stored.ok() && place_of(r.context, stored->store) != r.context.host();
    log::info("{} files of rank {} of another dataset with the id {}",
              shared ? "forgetting" : "deleting", rank, r.id);
    SCR_RETURN_IF_ERROR(end_committed_bypass(r.context, r.cache, r.id));
    SCR_RETURN_IF_ERROR(shared ? r.cache.forget(rank, r.id) : r.cache.remove_entry(rank, r.id));
  }
  return {};
}

// The descriptor of the dataset that is to be restored.
Status share_dataset(Restoration& r) {
  Communicator& world = r.context.world();
  const auto [created, complete] = choose_copy(r);
  const DatasetDescriptor* mine = nullptr;
  for (int rank : r.cache.filemap().ranks(r.id)) {
    const DatasetDescriptor& dataset = r.cache.filemap().get(rank, r.id)->dataset;
    if (dataset.created == created && dataset.complete == complete) mine = &dataset;
  }
  const int root = static_cast<int>(
      world.all_reduce(std::int64_t{mine ? world.rank() : world.size()}, ReduceOp::kMin));
  if (root == world.size()) {
    return corrupt(fmt::format("no rank has a usable description of dataset {}", r.id));
  }
  Hash hash;
  if (mine && world.rank() == root) hash = mine->to_hash();
  SCR_RETURN_IF_ERROR(broadcast_hash(world, hash, root));
  SCR_ASSIGN_OR_RETURN(r.dataset, DatasetDescriptor::from_hash(hash));
  return r.not_restorable.ok() ? remove_other_copies(r, created) : Status();
}

// --- distribute
// --------------------------------------------------------------------------------------

// Tells every rank which processes have files of it, and how whole they are.
Result<Hash> announce(Restoration& r) {
  Hash send;
  for (int rank : r.cache.filemap().ranks(r.id)) {
    const FilemapEntry* entry = r.cache.filemap().get(rank, r.id);
    auto descriptor = StoredDescriptor::from_hash(entry->redundancy);
    if (!descriptor.ok()) {
      log::warning("filemap entry of rank {} in dataset {}: {}", rank, r.id,
                   descriptor.status().message());
      continue;
    }
    Filemap single;
    single.at(rank, r.id) = *entry;
    Hash& message = send.at(std::to_string(rank));
    const Status whole = r.cache.check_whole(rank, r.id);
    r.note(whole);
    message.set_value("WHOLE", whole.ok() ? 1 : 0);
    message.set_value("PLACE", place_of(r.context, descriptor->store));
    message.set("MAP", single.to_hash());
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(r.context.world(), send, receive));
  return receive;
}

struct Offer {
  int from = 0;
  bool whole = false;
  bool here = false;  // usable without moving
  FilemapEntry entry;
};

// The best offer: whole and here, whole, here, any.
std::optional<Offer> choose(const Restoration& r, const Hash& offers) {
  std::optional<Offer> best;
  auto quality = [](const Offer& o) { return (o.whole ? 2 : 0) + (o.here ? 1 : 0); };
  for (const auto& element : offers.elements()) {
    auto map = element.hash.get("MAP") ? Filemap::from_hash(*element.hash.get("MAP"))
                                       : Result<Filemap>(corrupt("offer without a filemap"));
    if (!map.ok() || map->get(r.context.rank(), r.id) == nullptr) continue;
    Offer offer;
    offer.from = std::stoi(element.key);
    offer.whole = element.hash.value("WHOLE") == "1";
    offer.entry = *map->get(r.context.rank(), r.id);
    auto descriptor = StoredDescriptor::from_hash(offer.entry.redundancy);
    offer.here =
        descriptor.ok() && element.hash.value("PLACE") == place_of(r.context, descriptor->store);
    if (!best || quality(offer) > quality(*best)) best = std::move(offer);
  }
  return best;
}

// Makes the directory of this rank's files below the job's private directory on that store.
Status prepare_directory(Restoration& r, const StoredDescriptor& descriptor) {
  FileSystem& fs = r.context.fs();
  SCR_RETURN_IF_ERROR(fs.make_directories(descriptor.store));
  SCR_ASSIGN_OR_RETURN(
      auto job_directory,
      prepare_private_directory(fs, descriptor.store, r.context.job().private_path()));
  SCR_RETURN_IF_ERROR(fs.make_directories(At(*job_directory, descriptor.directory), 0700));
  r.directory = job_directory->path() + "/" + descriptor.directory;
  return {};
}

// Brings the files of every rank to the process that has this rank now. Incomplete files are not
// moved: redundancy rebuilds them in place.
Status distribute(Restoration& r) {
  Communicator& world = r.context.world();
  auto offers = announce(r);
  SCR_RETURN_IF_ERROR(agree(world, offers.status(), "distributing filemaps"));
  std::optional<Offer> offer = choose(r, *offers);
  Status status;
  if (offer) {
    auto descriptor = StoredDescriptor::from_hash(offer->entry.redundancy);
    status = descriptor.status();
    if (status.ok()) status = prepare_directory(r, *descriptor);
    if (status.ok()) r.descriptor = std::move(*descriptor);
  }
  SCR_RETURN_IF_ERROR(agree(world, status, "making the dataset directory"));

  const bool take_over = offer && offer->here && offer->from != world.rank();
  const bool move = offer && offer->whole && !offer->here;
  if (take_over) {
    status = r.cache.update(world.rank(), r.id, [&](FilemapEntry& entry) { entry = offer->entry; });
  }
  SCR_RETURN_IF_ERROR(agree(world, status, "taking over filemap entries"));

  // Tell each process that made an offer what becomes of it.
  Hash answers;
  for (const auto& element : offers->elements()) {
    const bool chosen = offer && std::stoi(element.key) == offer->from;
    const char* answer = !chosen ? "NO" : move ? "MOVE" : take_over ? "TAKEN" : "KEEP";
    answers.at(element.key).set_value("ANSWER", answer);
  }
  Hash decisions;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, answers, decisions));
  std::vector<OutgoingFiles> outgoing;
  for (const auto& element : decisions.elements()) {
    const int rank = std::stoi(element.key);
    const auto answer = element.hash.value("ANSWER");
    if (answer == "MOVE") outgoing.push_back({rank});
    if (answer == "TAKEN") status = r.cache.forget(rank, r.id);
  }
  std::optional<IncomingFiles> incoming;
  if (move) {
    incoming = IncomingFiles{offer->from, offer->entry};
    incoming->entry.directory = *r.directory;
  }
  Status moved = move_files(r.context, r.cache, r.id, outgoing, incoming);
  if (!moved.ok()) log::warning("dataset {}: {}", r.id, moved.message());
  r.note(moved);
  return agree(world, status, "distributing files");
}

// --- rebuild
// ------------------------------------------------------------------------------------------

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
  SCR_RETURN_IF_ERROR(prepare_directory(r, descriptor));
  r.descriptor = std::move(descriptor);
  return {};
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
  return {
      StatusCode::kUnrecoverable,
      fmt::format(
          "the files of rank {} are gone together with those of all members of their redundancy "
          "sets; the nodes that had them are not in this run, or have lost them",
          names)};
}

struct RegisterContext {
  Restoration* restoration;
};

// Lists the files of a rebuilt member before they are created.
Status register_rebuilt(void* context, const redundancy::HostedMember& member) {
  Restoration& r = *static_cast<RegisterContext*>(context)->restoration;
  return r.cache.update(r.context.rank(), r.id, [&](FilemapEntry& entry) {
    entry.dataset = r.dataset;
    entry.directory = *r.directory;
    entry.redundancy = r.descriptor->to_hash();
    for (const FileMeta& meta : member.content.files) entry.put(meta);
    if (!member.content.redundancy.file.empty()) entry.put(member.content.redundancy);
    if (!member.content.flush.empty()) entry.flush = member.content.flush;
  });
}

// Ok if the member's files are there, with their sizes.
Status check_member(const Restoration& r, const redundancy::MemberFiles& member,
                    const redundancy::RedundancySet& set, const Directory& directory) {
  for (const FileMeta& meta : member.files) {
    SCR_RETURN_IF_ERROR(check_cached_file(r.context.fs(), directory, meta));
  }
  if (set.scheme == redundancy::Scheme::kSingle) return {};
  if (member.redundancy.file.empty()) return not_found("its redundancy file is not listed");
  return check_cached_file(r.context.fs(), directory, member.redundancy);
}

// All files of the rank in the set are listed, as the filemap expected them.
bool entry_is_complete(const FilemapEntry* entry) {
  return entry != nullptr && entry->expected_files == static_cast<int>(entry->files.size());
}

// The dataset directory may have gone together with the last file that moved away from it.
Status open_directory(Restoration& r) {
  SCR_RETURN_IF_ERROR(prepare_directory(r, *r.descriptor));
  SCR_ASSIGN_OR_RETURN(r.opened, r.context.fs().open_directory(*r.directory));
  return {};
}

// Every member must come to redundancy::rebuild, so nothing here may fail before it.
Status rebuild_set(Restoration& r, const redundancy::RedundancySet& set, bool verify,
                   bool& rebuilt) {
  const FilemapEntry* entry = r.cache.filemap().get(r.context.rank(), r.id);
  redundancy::HostedMember member;
  member.index = set.index_of(r.context.rank());
  member.directory = r.opened.get();
  if (entry_is_complete(entry)) {
    member.content = member_files(*entry, *r.descriptor, set, r.context.rank());
    Status checked = check_member(r, member.content, set, *r.opened);
    member.present = checked.ok();
    if (checked.may_hide_sound_data()) member.problem = checked;
  }
  member.content.index = member.index;
  std::vector<int> hosts;
  for (const auto& m : set.members) hosts.push_back(m.rank);
  std::vector<redundancy::HostedMember> mine{std::move(member)};
  RegisterContext context{&r};
  redundancy::EncodeOptions options;
  options.progress =
      watch_growing_progress(r.context.rank(), fmt::format("rebuild of dataset {}", r.id));
  auto result = redundancy::rebuild(r.context.world(), r.context.fs(), set, hosts, mine, verify,
                                    register_rebuilt, &context, options);
  if (!result.ok()) {
    const auto& self = set.members[static_cast<std::size_t>(mine.front().index)];
    if (!mine.front().lost_because.empty()) r.lost_node = self.host;
    if (self.rank == set.members.front().rank) ++r.failed_sets;
    return result.status();
  }
  if (mine.front().rebuilt) {
    rebuilt = true;
    r.rebuilt_node = set.members[static_cast<std::size_t>(mine.front().index)].host;
    return register_rebuilt(&context, mine.front());
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

Status check_rank_count(const Restoration& r) {
  if (r.dataset.ranks == r.context.size()) return {};
  return failed_precondition(
      fmt::format("the cache holds dataset {} ('{}') of {} ranks, but this run has {}. Start it "
                  "with {} ranks; or bring "
                  "the data to the prefix directory with 'scr_scavenge --prefix {}'; or set "
                  "SCR_CACHE_PURGE=1 to "
                  "delete it",
                  r.id, r.dataset.name, r.dataset.ranks, r.context.size(), r.dataset.ranks,
                  r.context.job().prefix));
}

Status restore(Restoration& r, bool verify, CachedDataset& result) {
  SCR_RETURN_IF_ERROR(r.not_restorable);
  SCR_RETURN_IF_ERROR(distribute(r));
  SCR_RETURN_IF_ERROR(agree(r.context.world(), share_sets(r), "finding redundancy sets"));
  SCR_RETURN_IF_ERROR(report_unknown_ranks(r));
  SCR_RETURN_IF_ERROR(agree(r.context.world(), open_directory(r), "opening the dataset directory"));
  SCR_RETURN_IF_ERROR(rebuild_all(r, verify, result));
  result.usable = true;
  result.verified = verify;
  return {};
}

constexpr std::string_view kUnreachedAdvice =
    "the cache cannot be read as a whole, and what cannot be read may be sound, so nothing is "
    "given up (try "
    "again, or set SCR_CACHE_PURGE=1 to go on without what the cache holds)";

// Collective: whether a dataset that was not restored may be whole, and could only not be read. The
// run must not go on without it then: it would start from an older state, and its next checkpoint
// would take the place of this one.
Status agree_unreached(Restoration& r, const Status& status, const Status& filemaps) {
  const Status& mine = status.may_hide_sound_data() ? status
                       : !r.unreached.ok()          ? r.unreached
                                                    : filemaps;
  const Status all = agree(r.context.world(), mine, "reading the cache", Report::kQuiet);
  return all.with_context(
      fmt::format("dataset {} ('{}'): {}", r.id, r.dataset.name, kUnreachedAdvice));
}

// A move or rebuild that was killed leaves files under temporary names beside those it was to make.
// They are told by these: nothing else in the directories is touched, for other ranks use them too.
void remove_leftovers(FileSystem& fs, const Directory& directory, const std::string& folder,
                      const std::set<std::string>& files, const std::vector<std::string>& starts) {
  auto entries = fs.list(At(directory, folder.empty() ? "." : folder));
  if (!entries.ok()) return;
  for (const DirectoryEntry& found : *entries) {
    if (found.type != FileInfo::Type::kRegular || !found.name.starts_with('.')) continue;
    const std::string path = folder.empty() ? found.name : folder + "/" + found.name;
    const bool rebuilt =
        folder.empty() && std::ranges::any_of(starts, [&](const auto& start) {
          return found.name.starts_with(start) && text::parse_uint(found.name.substr(start.size()));
        });
    if (!rebuilt && !files.contains(path)) continue;
    Status removed = fs.remove_if_exists(At(directory, path));
    if (removed.ok()) {
      log::info("removed '{}/{}', which a killed run left", directory.path(), path);
    } else {
      log::warning("{}", removed.message());
    }
  }
}

// Not collective. Before any process moves or rebuilds a file.
void remove_leftovers(Context& context, const Cache& cache, int rank, int id) {
  const FilemapEntry& entry = *cache.filemap().get(rank, id);
  auto descriptor = StoredDescriptor::from_hash(entry.redundancy);
  auto directory = context.fs().open_directory(entry.directory);
  if (!descriptor.ok() || !directory.ok() || entry.directory == context.job().prefix) return;
  std::set<std::string> files;
  std::set<std::string> folders = {""};
  for (const FileMeta& meta : entry.files) {
    files.insert(moving_name(meta.file));
    const std::size_t slash = meta.file.rfind('/');
    if (slash != std::string::npos) folders.insert(meta.file.substr(0, slash));
  }
  for (const FileMeta& meta : entry.files) files.erase(meta.file);  // the program calls one so
  std::vector<std::string> starts;
  for (const auto& set : descriptor->sets) {
    starts.push_back(redundancy::temporary_name_start(set, set.index_of(rank)));
  }
  for (const std::string& folder : folders) {
    remove_leftovers(context.fs(), **directory, folder, files, starts);
  }
}

// --- a dataset that went past the cache and was cut

struct LeftInPrefix {
  std::set<std::string> directories;  // of the prefix directory, that this process's ranks wrote to
  bool complete = true;               // every rank's files are listed by some process
};

// Collective.
LeftInPrefix left_in_prefix(const Restoration& r) {
  LeftInPrefix left;
  std::array<std::int64_t, 2> sums = {0, 0};  // ranks that are listed, directories
  for (const int rank : r.cache.filemap().ranks(r.id)) {
    const FilemapEntry& entry = *r.cache.filemap().get(rank, r.id);
    ++sums[0];
    if (entry.directory != r.context.job().prefix) continue;
    for (const FileMeta& meta : entry.files) {
      const std::size_t slash = meta.file.rfind('/');
      left.directories.insert(slash == std::string::npos ? "." : meta.file.substr(0, slash));
    }
  }
  sums[1] = static_cast<std::int64_t>(left.directories.size());
  r.context.world().all_reduce(sums, ReduceOp::kSum);
  left.complete = sums[1] == 0 || sums[0] >= r.dataset.ranks;
  return left;
}

// Collective. Files of ranks whose node is lost lie beside those of others: one process looks
// there, and only if there can be some. What cannot be removed is in nobody's way.
void remove_orphans(const Restoration& r, const LeftInPrefix& left) {
  if (left.complete) return;
  Context& c = r.context;
  Hash send;
  for (const std::string& directory : left.directories) send.at("0").at(directory);
  Hash receive;
  Status status = exchange_hashes(c.world(), send, receive);
  if (c.rank() == 0 && status.ok()) {
    std::set<std::string> directories;
    for (const auto& process : receive.elements()) {
      for (const auto& element : process.hash.elements()) directories.insert(element.key);
    }
    status = flush::remove_orphans(c.fs(), c.job().prefix, directories, r.dataset);
  }
  if (!status.ok())
    log::warning("files of dataset {} may be left in the prefix directory: {}", r.id,
                 status.message());
  if (c.rank() == 0 && status.ok())
    log::info(
        "a node was lost while dataset {} was written to the prefix directory; what its ranks left "
        "in directories of their own 'scr_index --clean' removes",
        r.id);
}

}  // namespace

Status end_committed_bypass(Context& context, const Cache& cache, int dataset) {
  if (!context.alone()) return {};
  const std::string& prefix = context.job().prefix;
  for (const int rank : cache.filemap().ranks(dataset)) {
    const FilemapEntry* entry = cache.filemap().get(rank, dataset);
    if (entry->directory != prefix) continue;
    SCR_ASSIGN_OR_RETURN(const bool ended,
                         flush::roll_forward_dataset(context.fs(), prefix, entry->dataset));
    if (ended) {
      log::info("dataset {} ('{}') was committed in the prefix directory: it is complete now",
                dataset, entry->dataset.name);
    }
  }
  return {};
}

Result<std::vector<CachedDataset>> restore_cache(Context& context, Cache& cache) {
  for (const int id : cache.filemap().datasets()) {
    for (const int rank : cache.filemap().ranks(id)) remove_leftovers(context, cache, rank, id);
  }
  std::vector<CachedDataset> datasets;
  bool have_checkpoint = false;
  const Status filemaps = cache.unreadable_filemap();
  for (int id = next_dataset(context, cache, std::numeric_limits<int>::max()); id > 0;
       id = next_dataset(context, cache, id)) {
    Restoration r{context, cache, id, {}, {}, {}};
    SCR_RETURN_IF_ERROR(agree(context.world(), share_dataset(r), "reading a dataset's descriptor"));
    if (!r.dataset.complete) {
      if (context.rank() == 0) {
        log::info("dataset {} ('{}') was not complete when the last run ended: deleting it", id,
                  r.dataset.name);
      }
      const LeftInPrefix left = left_in_prefix(r);
      Status gone = end_committed_bypass(context, cache, id);
      if (gone.ok()) gone = cache.remove_dataset(id);
      SCR_RETURN_IF_ERROR(agree(context.world(), gone, "deleting a dataset"));
      remove_orphans(r, left);
      continue;
    }
    const bool elsewhere = r.dataset.ranks != context.size() && r.not_restorable.ok() &&
                           has_only_shared_files(context, cache, id);
    if (!elsewhere && r.not_restorable.ok()) SCR_RETURN_IF_ERROR(check_rank_count(r));
    CachedDataset result{.dataset = r.dataset};
    const bool verify = r.dataset.is_checkpoint() && !have_checkpoint;
    Status status = elsewhere ? restore_elsewhere(context, cache, r.dataset, verify, result)
                              : restore(r, verify, result);
    if (!status.ok()) {
      const Status unreached = agree_unreached(r, status, filemaps);
      if (!unreached.ok() && (!have_checkpoint || r.dataset.output)) return unreached;
      if (context.rank() == 0) {
        log::warning("dataset {} ('{}') cannot be restored from the cache: {}", id, r.dataset.name,
                     status.message());
      }
    } else if (context.rank() == 0) {
      log::info("dataset {} ('{}') restored from the cache, {} rank(s) rebuilt", id, r.dataset.name,
                result.rebuilt_ranks);
    }
    have_checkpoint = have_checkpoint || (result.usable && r.dataset.is_checkpoint());
    datasets.insert(datasets.begin(), std::move(result));
  }
  if (datasets.empty() && !filemaps.ok()) return filemaps.with_context(kUnreachedAdvice);
  return datasets;
}

Status verify_cached_dataset(Context& context, Cache& cache, CachedDataset& dataset) {
  if (dataset.verified) return {};
  Restoration r{context, cache, dataset.dataset.id, dataset.dataset, {}, {}};
  const bool elsewhere = dataset.dataset.ranks != context.size();
  Status status = elsewhere
                      ? restore_elsewhere(context, cache, dataset.dataset, /*verify=*/true, dataset)
                      : restore(r, /*verify=*/true, dataset);
  if (status.ok()) return {};
  SCR_RETURN_IF_ERROR(agree_unreached(r, status, {}));
  if (context.rank() == 0) {
    log::warning("dataset {} ('{}') is damaged: {}", r.id, r.dataset.name, status.message());
  }
  dataset.usable = false;
  return {};
}

}  // namespace scr
