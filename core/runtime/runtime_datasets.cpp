// Datasets by name: which one is current, which ones are dropped or deleted.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/delete_dataset.hpp"
#include "flush/index.hpp"
#include "flush/roll_forward.hpp"

namespace scr {

// Collective: a name may have been used several times, and what is said of it concerns the newest
// dataset in cache and index, in both of them. Its id is 0 if there is none.
Result<Runtime::Named> Runtime::find_named(const std::string& name) {
  Hash message;
  Status status;
  if (context_->rank() == 0) {
    const auto index = flush::read_index(context_->fs(), context_->job().prefix);
    status = index.status();
    const flush::IndexEntry* entry = index.ok() ? index->find_name(name) : nullptr;
    const CachedDataset* cached = find_cached(name);
    if (cached != nullptr && (entry == nullptr || entry->dataset.created < cached->dataset.created))
      message.set("DSET", cached->dataset.to_hash());
    else if (entry != nullptr) {
      message.set("DSET", entry->dataset.to_hash());
      message.set_value("DIR", entry->directory);
      message.set_value("COMPLETE", entry->complete ? 1 : 0);
    }
  }
  SCR_RETURN_IF_ERROR(agree(context_->world(), status, "reading the index"));
  SCR_RETURN_IF_ERROR(broadcast_hash(context_->world(), message, 0));
  Named named;
  if (!message.contains("DSET")) return named;
  SCR_ASSIGN_OR_RETURN(named.dataset, DatasetDescriptor::from_hash(*message.get("DSET")));
  named.directory = std::string(message.value("DIR").value_or(""));
  named.complete = message.value("COMPLETE") == "1";
  return named;
}

CachedDataset* Runtime::find_cached_dataset(const DatasetDescriptor& dataset) {
  CachedDataset* cached = find_cached_id(dataset.id);
  return cached != nullptr && cached->dataset.created == dataset.created ? cached : nullptr;
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

// The next run may find nothing but the prefix directory: what is current has to be there.
Status Runtime::flush_for_current(Named& named) {
  if (!named.complete) {
    const CachedDataset* cached = find_cached_dataset(named.dataset);
    if (cached != nullptr && cached->usable && cached->dataset.is_checkpoint())
      SCR_RETURN_IF_ERROR(flush_dataset(cached->dataset, /*background=*/false));
    SCR_ASSIGN_OR_RETURN(named, find_named(named.dataset.name));
  }
  flush::IndexEntry entry;
  entry.dataset = named.dataset;
  entry.complete = named.complete;
  const Status status = flush::check_restartable(entry);
  if (!status.ok() && context_->rank() == 0) log::error("{}", status.message());
  return status;
}

Status Runtime::drop_newer_cached(const DatasetDescriptor& current) {
  std::vector<int> newer;
  for (const CachedDataset& other : cached_) {
    if (other.dataset.id > current.id) newer.push_back(other.dataset.id);
  }
  Status status;
  for (int id : newer) {
    Status one = forget(id);
    if (status.ok()) status = one;
  }
  return agree(context_->world(), status, "dropping newer datasets");
}

// Datasets written from here on are newer than all that exist: ids never go back.
Status Runtime::set_current(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Current"));
  settle(flusher_->wait());  // or what is being flushed would make itself current afterwards
  SCR_ASSIGN_OR_RETURN(Named named, find_named(name));
  if (named.dataset.id == 0) return unknown_dataset(name);
  SCR_RETURN_IF_ERROR(flush_for_current(named));
  const bool drop_newer = context_->config().get_bool("SCR_DROP_AFTER_CURRENT");
  if (drop_newer) {
    // Which ones are newer is known under the lock of the index only; to end more of them is no
    // harm.
    SCR_RETURN_IF_ERROR(end_flushes_of([](const DatasetDescriptor&) { return true; }));
  }
  Status status;
  if (context_->rank() == 0) {
    const auto change = [&](flush::Index& index) -> Status {
      last_created_ = std::max(last_created_, flush::choice_time(index));
      index.choose_current(named.directory, last_created_);
      std::vector<std::string> newer;
      for (const auto& entry : index.entries()) {
        if (drop_newer && entry.id() > named.dataset.id) newer.push_back(entry.directory);
      }
      std::ranges::for_each(newer, [&](const auto& directory) { index.remove(directory); });
      return {};
    };
    status = flush::update_index(context_->fs(), context_->job().prefix, change);
  }
  SCR_RETURN_IF_ERROR(agree(context_->world(), status, "changing the index"));
  return drop_newer ? drop_newer_cached(named.dataset) : Status();
}

// Out of the cache and the index; flushed files stay where they are.
Status Runtime::drop(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Drop"));
  settle(flusher_->wait());
  SCR_RETURN_IF_ERROR(
      end_flushes_of([&](const DatasetDescriptor& dataset) { return dataset.name == name; }));
  SCR_ASSIGN_OR_RETURN(const Named named, find_named(name));
  if (named.dataset.id == 0) return unknown_dataset(name);
  Status status;
  if (context_->rank() == 0 && !named.directory.empty()) {
    const auto change = [&](flush::Index& index) -> Status {
      index.remove(named.directory);
      if (index.current() == named.directory) index.set_current("");
      return {};
    };
    status = flush::update_index(context_->fs(), context_->job().prefix, change);
  }
  SCR_RETURN_IF_ERROR(agree(context_->world(), status, "changing the index"));
  return agree(context_->world(), forget_named(named.dataset), "dropping a dataset");
}

Status Runtime::remove(const std::string& name) {
  SCR_RETURN_IF_ERROR(check_no_dataset_in_hand("SCR_Delete"));
  settle(flusher_->wait());
  SCR_RETURN_IF_ERROR(
      end_flushes_of([&](const DatasetDescriptor& dataset) { return dataset.name == name; }));
  SCR_ASSIGN_OR_RETURN(const Named named, find_named(name));
  if (named.dataset.id == 0) return unknown_dataset(name);
  Status status = forget_named(named.dataset);
  if (status.ok() && context_->rank() == 0 && !named.directory.empty()) {
    status = flush::delete_dataset(context_->fs(), context_->job().prefix, named.directory);
  }
  return agree(context_->world(), status, "deleting a dataset");
}

// What this process has of it, in the cache or read in place.
Status Runtime::forget_named(const DatasetDescriptor& dataset) {
  if (in_place_ && in_place_->dataset.dataset.id == dataset.id) in_place_.reset();
  const Status status = find_cached_dataset(dataset) ? forget(dataset.id) : Status();
  flushed_bytes_.erase(dataset.name);
  return status;
}

}  // namespace scr
