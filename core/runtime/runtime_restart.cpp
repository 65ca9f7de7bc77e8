// Restart from the cache: what SCR_Init finds there, and what the program is offered.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/runtime/program.hpp"
#include "core/runtime/restart_leftovers.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/index.hpp"

namespace scr {

// What earlier runs left in the cache: distributed, rebuilt, counted on from.
Status Runtime::restore() {
  Context& c = *context_;
  const bool purge = c.config().get_bool("SCR_CACHE_PURGE");
  SCR_ASSIGN_OR_RETURN(const Claim claim, claim_cache(c, purge, run_lock_));
  SCR_RETURN_IF_ERROR(cache_->start());
  if (!purge && !c.config().get_bool("SCR_DISTRIBUTE")) SCR_RETURN_IF_ERROR(check_expendable());
  if (purge) SCR_RETURN_IF_ERROR(clear_cache("SCR_CACHE_PURGE=1"));
  if (!c.config().get_bool("SCR_DISTRIBUTE")) SCR_RETURN_IF_ERROR(clear_cache("SCR_DISTRIBUTE=0"));
  if (claim == Claim::kOutdated) {
    SCR_RETURN_IF_ERROR(clear_cache("of a run in another prefix directory, and saved there"));
  }
  const bool any = c.world().any_true(!cache_->filemap().empty());
  if (any && c.transparent() && !c.alone()) SCR_RETURN_IF_ERROR(check_program(c));
  SCR_RETURN_IF_ERROR(record_claim(c));
  EventToken event;
  if (any && c.rank() == 0) event = log_.begin(EventType::kRebuild);
  auto cached = restore_cache(c, *cache_);
  if (!cached.ok()) {
    if (c.rank() == 0) log::error("{}", cached.status().message());
    return cached.status();
  }
  cached_ = std::move(*cached);
  std::uint64_t rebuilt = 0;
  std::uint64_t rebuilt_bytes = 0;
  std::set<std::string> lost;
  for (CachedDataset& dataset : cached_) {
    dataset.store = agree_on_store(dataset.dataset.id);
    last_dataset_ = std::max(last_dataset_, dataset.dataset.id);
    last_checkpoint_ = std::max(last_checkpoint_, dataset.dataset.checkpoint);
    last_created_ = std::max(last_created_, dataset.dataset.created);
    rebuilt += dataset.rebuilt_ranks;
    rebuilt_bytes += dataset.rebuilt_bytes;
    lost.insert(dataset.lost_nodes.begin(), dataset.lost_nodes.end());
    if (dataset.usable)
      SCR_RETURN_IF_ERROR(agree(c.world(), remember(dataset), "writing the flush file"));
  }
  if (any && c.rank() == 0) {
    log_.end(event, {.bytes = rebuilt_bytes > 0 ? std::optional(rebuilt_bytes) : std::nullopt,
                     .down_nodes = {lost.begin(), lost.end()},
                     .note = fmt::format("{} dataset(s) in cache, {} rank(s) rebuilt",
                                         cached_.size(), rebuilt)});
  }
  std::uint64_t bytes = 0;
  const int newest = cached_.empty() ? 0 : cached_.back().dataset.id;
  if (const FilemapEntry* entry = cache_->filemap().get(c.rank(), newest)) {
    for (const FileMeta& meta : entry->files) bytes += meta.size;
  }
  last_node_bytes_ = c.node().all_reduce(bytes, ReduceOp::kSum);
  return {};
}

// SCR_DISTRIBUTE=0 says that nothing in the cache is to be used, not that it may be lost.
Status Runtime::check_expendable() {
  Context& c = *context_;
  Status status;
  if (c.node().rank() == 0) {
    auto old = read_flush_file(c.fs(), At(c.control(), std::string(kFlushFileName)));
    if (!old.ok() && old.status().code() != StatusCode::kNotFound) status = old.status();
    if (old.ok() && !old->datasets_to_save().empty()) {
      const int id = old->datasets_to_save().back();
      status = failed_precondition(fmt::format(
          "SCR_DISTRIBUTE=0, but dataset {} ('{}') is only in the cache: save it with scr_postrun, "
          "or start with SCR_DISTRIBUTE=1, or delete it with SCR_CACHE_PURGE=1",
          id, old->get(id)->name));
    }
  }
  return agree_all(c.world(), status, "looking at the cache");
}

Status Runtime::clear_cache(std::string_view why) {
  if (context_->world().any_true(!cache_->filemap().empty()) && context_->rank() == 0) {
    log::info("deleting all cached datasets ({})", why);
  }
  cache_->give_up_unreadable();
  Status status;
  for (int dataset : cache_->filemap().datasets()) {
    Status one = end_committed_bypass(*context_, *cache_, dataset);
    if (one.ok()) one = cache_->remove_dataset(dataset);
    if (status.ok()) status = one;
  }
  if (status.ok()) status = save_flush_file();
  return agree(context_->world(), status, "deleting cached datasets");
}

// The newest usable checkpoint that has not failed in this run.
CachedDataset* Runtime::restart_candidate() {
  const auto wanted = [this](const CachedDataset& cached) {
    return cached.usable && cached.dataset.is_checkpoint() &&
           (restart_below_ == 0 || cached.dataset.id < restart_below_);
  };
  const auto newest = std::find_if(cached_.rbegin(), cached_.rend(), wanted);
  CachedDataset* candidate = newest == cached_.rend() ? nullptr : &*newest;
  const bool in_place = in_place_ && wanted(in_place_->dataset) &&
                        (!candidate || candidate->dataset.id <= in_place_->dataset.dataset.id);
  return in_place ? &in_place_->dataset : candidate;
}

Result<std::optional<std::string>> Runtime::have_restart() {
  if (in_dataset()) return wrong_moment("SCR_Have_restart while a dataset is being written");
  context_->meet("the question for a restart");
  while (CachedDataset* candidate = restart_candidate()) {
    if (is_in_place(candidate)) return std::optional<std::string>(candidate->dataset.name);
    Status status = verify_cached_dataset(*context_, *cache_, *candidate);
    if (!status.ok()) {
      if (context_->rank() == 0) log::error("{}", status.message());
      return status;
    }
    if (candidate->usable) return std::optional<std::string>(candidate->dataset.name);
  }
  return std::optional<std::string>();
}

// Collective. Programs that do not call SCR_* read any dataset of the cache, and not only the one
// to restart from: files on a device that lost power may have their sizes and not their bytes. One
// that is damaged beyond repair stays, for some of its files may be all that there is of them.
void Runtime::verify_cached() {
  for (CachedDataset& cached : cached_) {
    if (!cached.usable || cached.verified) continue;
    CachedDataset checked = cached;
    const Status status = verify_cached_dataset(*context_, *cache_, checked);
    if (!status.ok() && context_->rank() == 0) log::warning("{}", status.message());
    if (status.ok() && checked.usable) cached = checked;
  }
}

Result<std::string> Runtime::start_restart() {
  if (in_dataset()) return wrong_moment("SCR_Start_restart while a dataset is being written");
  if (in_restart_) return wrong_moment("SCR_Start_restart twice without SCR_Complete_restart");
  SCR_ASSIGN_OR_RETURN(auto name, have_restart());
  if (!name) return wrong_moment("SCR_Start_restart, but there is no checkpoint to restart from");
  in_restart_ = true;
  return *name;
}

Status Runtime::complete_restart(bool valid) {
  if (!in_restart_) return wrong_moment("SCR_Complete_restart without SCR_Start_restart");
  context_->meet("the end of the restart");
  in_restart_ = false;
  CachedDataset* candidate = restart_candidate();
  Status status = agree(context_->world(),
                        valid ? Status()
                              : failed_precondition(fmt::format(
                                    "the program could not read its files of dataset {} ('{}')",
                                    candidate->dataset.id, candidate->dataset.name)),
                        "the restart");
  if (context_->rank() == 0) {
    log_.once(EventType::kRestart, {.ok = status.ok(), .note = std::string(status.message())},
              candidate->dataset.id, candidate->dataset.name);
  }
  if (!status.ok()) offer_older_than(DatasetDescriptor(candidate->dataset));
  return status;
}

// A checkpoint that the program cannot read stays where it is, but is not offered again: in this
// run an older one is, of the cache or of the prefix directory.
void Runtime::offer_older_than(const DatasetDescriptor& failed) {
  restart_below_ = failed.id;
  Status status;
  if (context_->rank() == 0) {
    status = flush::update_index(
        context_->fs(), context_->job().prefix, [&](flush::Index& index) -> Status {
          for (const flush::IndexEntry& entry : index.entries()) {
            if (entry.id() != failed.id || entry.dataset.created != failed.created) continue;
            index.find_directory(entry.directory)->failed.push_back(flush::timestamp_now());
            if (index.current() == entry.directory) index.set_current("");
            break;
          }
          return {};
        });
  }
  if (!status.ok()) log::warning("{}", status.message());
  if (context_->transparent()) return;
  status = fetch_newest();
  if (!status.ok() && context_->rank() == 0) log::warning("{}", status.message());
}

// During a restart a rank finds the files that it wrote, and no others, unless the dataset is read
// where it is in the prefix directory.
Result<std::string> Runtime::route_for_reading(const std::string& absolute) {
  SCR_ASSIGN_OR_RETURN(std::string relative, relative_to_prefix(absolute));
  const CachedDataset* candidate = restart_candidate();
  if (candidate == nullptr) {
    return not_found(
        fmt::format("cannot find '{}': there is no checkpoint to restart from, and no dataset "
                    "was started",
                    absolute));
  }
  if (is_in_place(candidate)) {
    SCR_ASSIGN_OR_RETURN(const bool there, context_->fs().exists(absolute));
    if (there) return absolute;
    return not_found(fmt::format("cannot find '{}' of dataset {} ('{}') in the prefix directory",
                                 absolute, candidate->dataset.id, candidate->dataset.name));
  }
  const FilemapEntry* entry = cache_->filemap().get(context_->rank(), candidate->dataset.id);
  const bool known =
      entry != nullptr &&
      std::any_of(entry->files.begin(), entry->files.end(), [&](const FileMeta& meta) {
        return meta.type == FileType::kFull && meta.file == relative;
      });
  if (!known) {
    return not_found(
        fmt::format("cannot find '{}': rank {} wrote no such file in dataset {} ('{}')", absolute,
                    context_->rank(), candidate->dataset.id, candidate->dataset.name));
  }
  return entry->directory + "/" + relative;
}

}  // namespace scr
