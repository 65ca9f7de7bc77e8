// Datasets by name: which one is current, which ones are dropped or deleted.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/delete_dataset.hpp"
#include "flush/index.hpp"
#include "flush/roll_forward.hpp"

namespace scr {

// Rank 0 changes the index; every rank gets the id of the named dataset, 0 if the index does not
// have it.
Result<int> Runtime::change_index(
    const std::string& name,
    const std::function<void(flush::Index&, const std::string& directory)>& change) {
  std::int64_t id = 0;
  Status status;
  if (context_->rank() == 0) {
    status = flush::update_index(context_->fs(), context_->job().prefix,
                                 [&](flush::Index& index) -> Status {
                                   const flush::IndexEntry* entry = index.find_name(name);
                                   if (entry == nullptr) return {};
                                   id = entry->id();
                                   change(index, std::string(entry->directory));
                                   return {};
                                 });
  }
  SCR_RETURN_IF_ERROR(agree(context_->world(), status, "changing the index"));
  return static_cast<int>(context_->world().all_reduce(id, ReduceOp::kMax));
}

Status Runtime::unknown_dataset(const std::string& name) {
  Status status = not_found(
      fmt::format("there is no dataset '{}', neither in the cache nor in the index", name));
  if (context_->rank() == 0) log::error("{}", status.message());
  return status;
}

Status Runtime::check_no_dataset_in_hand(std::string_view call) const {
  if (in_dataset()) return wrong_moment(fmt::format("{} while a dataset is being written", call));
  if (in_restart_) return wrong_moment(fmt::format("{} during a restart", call));
  return {};
}

// Collective: before datasets leave the index. A flush of theirs that failed at the end would be
// ended by the next start, which would bring them back.
Status Runtime::end_flushes_of(const std::function<bool(const DatasetDescriptor&)>& leaving) {
  Status status;
  if (context_->rank() == 0)
    status = flush::end_flushes_of(context_->fs(), context_->job().prefix, leaving);
  return agree(context_->world(), status, "ending flushes");
}

// Datasets written from here on are newer than all that exist: ids never go back.
Status Runtime::set_current(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Current"));
  settle(flusher_->wait());  // or what is being flushed would make itself current afterwards
  const bool drop_newer = context_->config().get_bool("SCR_DROP_AFTER_CURRENT");
  if (drop_newer) {
    // Which ones are newer is known under the lock of the index only; to end more of them is no
    // harm.
    SCR_RETURN_IF_ERROR(end_flushes_of([](const DatasetDescriptor&) { return true; }));
  }
  SCR_ASSIGN_OR_RETURN(
      int id, change_index(name, [&](flush::Index& index, const std::string& directory) {
        index.set_current(directory);
        const int current = index.find_directory(directory)->id();
        std::vector<std::string> newer;
        for (const auto& entry : index.entries()) {
          if (entry.id() > current) newer.push_back(entry.directory);
        }
        if (drop_newer)
          std::for_each(newer.begin(), newer.end(), [&](const auto& d) { index.remove(d); });
      }));
  const CachedDataset* cached = find_cached(name);
  if (cached == nullptr && id == 0) return unknown_dataset(name);
  if (drop_newer) {
    const int current = cached ? cached->dataset.id : id;
    std::vector<int> newer;
    for (const CachedDataset& other : cached_) {
      if (other.dataset.id > current) newer.push_back(other.dataset.id);
    }
    Status status;
    for (int newer_id : newer) {
      Status one = forget(newer_id);
      if (status.ok()) status = one;
    }
    return agree(context_->world(), status, "dropping newer datasets");
  }
  return {};
}

// Out of the cache and the index; flushed files stay where they are.
Status Runtime::drop(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Drop"));
  settle(flusher_->wait());
  SCR_RETURN_IF_ERROR(
      end_flushes_of([&](const DatasetDescriptor& dataset) { return dataset.name == name; }));
  SCR_ASSIGN_OR_RETURN(int id,
                       change_index(name, [](flush::Index& index, const std::string& directory) {
                         index.remove(directory);
                         if (index.current() == directory) index.set_current("");
                       }));
  const CachedDataset* cached = find_cached(name);
  if (cached == nullptr && id == 0) return unknown_dataset(name);
  if (in_place_ && in_place_->dataset.dataset.id == id) in_place_.reset();
  if (cached == nullptr) return {};
  return agree(context_->world(), forget(cached->dataset.id), "dropping a dataset");
}

Status Runtime::remove(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Delete"));
  settle(flusher_->wait());
  SCR_RETURN_IF_ERROR(
      end_flushes_of([&](const DatasetDescriptor& dataset) { return dataset.name == name; }));
  std::string directory_name;
  SCR_ASSIGN_OR_RETURN(int id, change_index(name, [&](flush::Index&, const std::string& directory) {
                         directory_name = directory;
                       }));
  const CachedDataset* cached = find_cached(name);
  if (cached == nullptr && id == 0) return unknown_dataset(name);
  if (in_place_ && in_place_->dataset.dataset.id == id) in_place_.reset();
  Status status;
  if (cached != nullptr) status = forget(cached->dataset.id);
  if (status.ok() && context_->rank() == 0 && id != 0) {
    status = flush::delete_dataset(context_->fs(), context_->job().prefix, directory_name);
  }
  return agree(context_->world(), status, "deleting a dataset");
}

}  // namespace scr
