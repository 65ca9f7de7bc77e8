// What is in the cache: room for one more dataset, those that leave it, and the flush file, which
// lists them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/runtime/room.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/fetch.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

// Datasets that stay in the cache beyond SCR_CACHE_SIZE until they are flushed.
constexpr std::size_t kMostQueued = 4;

}  // namespace

// Collective: the next dataset will have at least so many bytes of this process.
void Runtime::expect_bytes(std::uint64_t bytes) {
  last_node_bytes_ = std::max(last_node_bytes_, context_->node().all_reduce(bytes, ReduceOp::kSum));
}

bool Runtime::has_room(const Store& store) {
  std::uint64_t held = 0;  // matters only for a store with a limit of its own
  if (store.descriptor.bytes > 0) {
    for (int dataset : cache_->filemap().datasets()) {
      const FilemapEntry* entry = cache_->filemap().get(context_->rank(), dataset);
      if (entry == nullptr) continue;
      for (const FileMeta& meta : entry->files) held += meta.size;
    }
    held = context_->node().all_reduce(held, ReduceOp::kSum);
  }
  auto available = available_bytes(context_->fs(), *store.directory, store.descriptor.bytes, held);
  if (context_->node().any_true(std::exchange(outgrown_, false))) {
    last_node_bytes_ = std::max(last_node_bytes_, last_available_ + 1);
  }
  last_available_ = available.ok() ? *available : 0;
  const bool room = last_available_ > 0 && last_available_ >= last_node_bytes_;
  return context_->world().all_true(room);
}

bool Runtime::evict_flushed(const Store& store) {
  std::vector<int> going;  // the same on all ranks
  std::uint64_t bytes = 0;
  for (const CachedDataset& cached : cached_) {
    const int id = cached.dataset.id;
    const bool is_safe = cached.usable && is_in_prefix(id) && !flusher_->is_flushing(id);
    if (!is_safe || cached.store != store.descriptor.directory) continue;
    // Only a program that opens its files by their names finds them there without a fetch.
    if (!context_->transparent() && !may_leave(cached)) continue;
    going.push_back(id);
    for (const FilemapEntry* entry : own_entries(cached.dataset)) {
      for (const FileMeta& meta : entry->files) bytes += meta.size;
    }
  }
  bytes = context_->node().all_reduce(bytes, ReduceOp::kSum);
  const bool enough = last_available_ + bytes >= std::max<std::uint64_t>(last_node_bytes_, 1);
  if (!context_->world().all_true(enough)) return false;
  for (const int id : going) {
    if (context_->config().get_bool("SCR_CRC_ON_DELETE")) verify_own_files(id);
    const Status status = forget(id);
    if (!status.ok()) log::warning("{}", status.message());
    if (has_room(store)) return true;
  }
  return false;
}

// Collective: the store that a dataset of an earlier run is on, of which some processes may have
// nothing.
std::string Runtime::agree_on_store(int dataset) {
  std::string mine;
  for (int rank : cache_->filemap().ranks(dataset)) {
    auto descriptor = StoredDescriptor::from_hash(cache_->filemap().get(rank, dataset)->redundancy);
    if (descriptor.ok()) mine = descriptor->store;
  }
  Communicator& world = context_->world();
  const std::int64_t nobody = world.size();
  const std::int64_t teller =
      world.all_reduce(mine.empty() ? nobody : std::int64_t{world.rank()}, ReduceOp::kMin);
  return teller == nobody ? std::string() : world.broadcast_string(mine, static_cast<int>(teller));
}

CachedDataset* Runtime::find_cached(const std::string& name) {
  auto found = std::find_if(cached_.rbegin(), cached_.rend(), [&](const CachedDataset& cached) {
    return cached.dataset.name == name;
  });
  return found == cached_.rend() ? nullptr : &*found;
}

CachedDataset* Runtime::find_cached_id(int id) {
  auto found = std::find_if(cached_.begin(), cached_.end(),
                            [&](const CachedDataset& cached) { return cached.dataset.id == id; });
  return found == cached_.end() ? nullptr : &*found;
}

// A checkpoint makes way for a newer checkpoint, and for no output that came after it: the newest
// one stays. So does what was sealed just now, which may be an older one that was fetched.
bool Runtime::may_leave(const CachedDataset& cached) const {
  if (writing_ && writing_->dataset.id == cached.dataset.id) return false;
  if (!cached.dataset.is_checkpoint()) return true;
  return std::any_of(cached_.begin(), cached_.end(), [&](const CachedDataset& other) {
    return other.usable && other.dataset.is_checkpoint() && other.dataset.id > cached.dataset.id;
  });
}

Status Runtime::evict(const std::string& store, std::uint64_t keep) {
  std::vector<int> here;   // usable ones on this store, oldest first
  std::vector<int> going;  // the same on all ranks
  for (const CachedDataset& cached : cached_) {
    const bool newer_exists = std::any_of(
        cached_.begin(), cached_.end(),
        [&](const CachedDataset& d) { return d.usable && d.dataset.id > cached.dataset.id; });
    if (cached.usable) {
      if (cached.store == store) here.push_back(cached.dataset.id);
    } else if (keep == 0 || (newer_exists && may_leave(cached))) {
      going.push_back(cached.dataset.id);
    }
  }
  for (std::size_t i = 0; i + keep < here.size(); ++i) {
    if (keep == 0 || may_leave(*find_cached_id(here[i]))) going.push_back(here[i]);
  }
  Status first;
  for (int id : going) {
    if (flusher_->is_flushing(id)) {
      // The program does not wait for a slow file system while there is room; it goes later. Only
      // a process by itself does: HDF5 1.10 opens targets of external links past our driver, so
      // what it closed should be at its name soon.
      if (keep > 0 && !context_->alone() && flusher_->queued() <= kMostQueued) continue;
      settle(flusher_->wait());
    }
    const CachedDataset* cached = find_cached_id(id);
    if (cached->dataset.output && cached->usable && !is_in_prefix(id)) continue;
    if (!cached->usable && context_->rank() == 0) {
      log::warning(
          "deleting dataset {} ('{}'), which could not be rebuilt: a newer one is complete", id,
          cached->dataset.name);
    }
    if (cached->usable && context_->config().get_bool("SCR_CRC_ON_DELETE")) verify_own_files(id);
    Status status = forget(id);
    if (first.ok()) first = status;
  }
  return first;
}

// SCR_CRC_ON_DELETE: the dataset is not needed any more, but storage that damages files should be
// known of before one is.
void Runtime::verify_own_files(int dataset) {
  const FilemapEntry* entry = cache_->filemap().get(context_->rank(), dataset);
  if (entry == nullptr) return;
  for (const FileMeta& meta : entry->files) {
    auto found = flush::checksum_file(context_->fs(), entry->directory + "/" + meta.file);
    if (!found.ok()) {
      log::warning("before the delete: {}", found.status().message());
    } else if (meta.crc && (found->first != meta.size || found->second != *meta.crc)) {
      log::warning(
          "'{}/{}' of dataset {} was damaged in the cache, as its checksum says: the storage of "
          "this node is not to be trusted",
          entry->directory, meta.file, dataset);
    }
  }
}

Status Runtime::remember(const CachedDataset& cached) {
  FlushState& state = flush_file_.at(cached.dataset.id);
  state.name = cached.dataset.name;
  state.in_cache = true;
  state.is_checkpoint = cached.dataset.is_checkpoint();
  state.is_output = cached.dataset.output;
  return save_flush_file();
}

Status Runtime::forget(int dataset) {
  if (const CachedDataset* cached = find_cached_id(dataset); cached != nullptr && on_forget_) {
    for (const FilemapEntry* entry : own_entries(cached->dataset)) on_forget_(*entry);
  }
  if (const CachedDataset* cached = find_cached_id(dataset); cached && is_in_prefix(dataset))
    flushed_bytes_[cached->dataset.name] = own_bytes(cached->dataset);
  std::erase_if(cached_, [&](const CachedDataset& cached) { return cached.dataset.id == dataset; });
  flush_file_.remove(dataset);
  Status status = cache_->remove_dataset(dataset);
  const Status written = save_flush_file();
  remove_cut_flushes();
  return status.ok() ? written : status;
}

// One process of the node has it on disk, for commands and for the next run.
Status Runtime::save_flush_file() {
  if (context_->node().rank() != 0) return {};
  return write_flush_file(context_->fs(), At(context_->control(), std::string(kFlushFileName)),
                          flush_file_);
}

}  // namespace scr
