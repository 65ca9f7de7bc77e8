#include "core/runtime/restart.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/base/log.hpp"
#include "core/runtime/restart_elsewhere.hpp"
#include "core/runtime/restart_leftovers.hpp"
#include "core/runtime/restart_steps.hpp"
#include "core/runtime/restart_twins.hpp"

namespace scr {

namespace {

// The largest id below `bound` that any process knows, 0 if there is none.
int next_dataset(Context& context, const Cache& cache, int bound) {
  std::int64_t mine = 0;
  for (int id : cache.filemap().datasets()) {
    if (id < bound) mine = std::max<std::int64_t>(mine, id);
  }
  return static_cast<int>(context.world().all_reduce(mine, ReduceOp::kMax));
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
  SCR_RETURN_IF_ERROR(rebuild(r, verify, result));
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

}  // namespace

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
      const LeftInPrefix left = left_in_prefix(context, cache, r.dataset);
      Status gone = end_committed_bypass(context, cache, id);
      if (gone.ok()) gone = cache.remove_dataset(id);
      SCR_RETURN_IF_ERROR(agree(context.world(), gone, "deleting a dataset"));
      remove_orphans(context, r.dataset, left);
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
