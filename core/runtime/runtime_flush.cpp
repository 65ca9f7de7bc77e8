// Flush: which datasets go to the prefix directory, and when.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/clean_up.hpp"

namespace scr {

// Collective: written by a program that calls SCR_*, whose SCR_Init in this process may still come.
bool Runtime::is_native(const DatasetDescriptor& dataset) {
  const auto entries = own_entries(dataset);
  return context_->world().any_true(std::ranges::any_of(entries, [](const FilemapEntry* entry) {
    const auto descriptor = flush::FlushDescriptor::of(*entry);
    return descriptor.ok() && !descriptor->keep_newer;
  }));
}

// A flush of the native API is left to it: it has settings of its own.
void Runtime::resume_flushes() {
  for (const DatasetDescriptor& dataset : std::exchange(to_resume_, {})) {
    if (context_->transparent() && is_native(dataset)) {
      if (context_->rank() == 0) cut_flushes_.push_back(dataset);
      continue;
    }
    Status flushed = flush_dataset(dataset, /*background=*/false);
    if (!flushed.ok() && context_->rank() == 0) log::warning("{}", flushed.message());
  }
}

void Runtime::set_flush_state(const DatasetDescriptor& dataset, bool flushing, bool in_prefix) {
  FlushState& state = flush_file_.at(dataset.id);
  state.name = dataset.name;
  state.flushing = flushing;
  state.in_prefix = state.in_prefix || in_prefix;
  state.is_checkpoint = dataset.is_checkpoint();
  state.is_output = dataset.output;
  Status status = save_flush_file();
  if (!status.ok()) log::warning("{}", status.message());
}

Status Runtime::flush_dataset(const DatasetDescriptor& dataset, bool background) {
  if (is_in_prefix(dataset.id) || flusher_->is_flushing(dataset.id)) return {};
  remove_cut_flushes();
  set_flush_state(dataset, true, false);
  if (background) {
    const Status begun = flusher_->begin(dataset);
    return begun.ok() ? begun : settle_one({dataset, begun, 0});
  }
  const double start = now();
  FlushOutcome outcome{dataset, flusher_->flush(dataset), 0};
  outcome.seconds = now() - start;
  return settle_one(std::move(outcome));
}

// Collective: whether the flush failed because a cached file is damaged, and redundancy data has
// mended that. One that is beyond repair stays as it is: it may be all that there is.
bool Runtime::repair_for_flush(const FlushOutcome& outcome) {
  Communicator& world = context_->world();
  if (outcome.status.ok() || !world.any_true(outcome.status.code() == StatusCode::kCorrupt))
    return false;
  CachedDataset* cached = find_cached_id(outcome.dataset.id);
  if (cached == nullptr || !cached->usable || cached->dataset.created != outcome.dataset.created)
    return false;
  cached->verified = false;
  CachedDataset checked = *cached;
  checked.rebuilt_ranks = 0;
  const Status status = verify_cached_dataset(*context_, *cache_, checked);
  if (!status.ok() && context_->rank() == 0) log::warning("{}", status.message());
  if (!status.ok() || !checked.usable || checked.rebuilt_ranks == 0) return false;
  *cached = checked;
  if (context_->rank() == 0) {
    log::warning("{}; {} rank(s) of dataset {} ('{}') rebuilt, flushing it again",
                 outcome.status.message(), checked.rebuilt_ranks, checked.dataset.id,
                 checked.dataset.name);
  }
  return true;
}

// Collective: what a flush that failed has written stays for the next try, unless it is in the way
// of that: where there was no room, it would be for nobody.
void Runtime::note_cut_flush(const FlushOutcome& outcome) {
  const bool no_room = context_->world().any_true(outcome.status.code() == StatusCode::kNoSpace);
  if (context_->rank() != 0) return;
  Status status;
  if (no_room)
    status = flush::remove_cut_of(context_->fs(), context_->job().prefix, outcome.dataset);
  if (!status.ok()) log::warning("{}", status.message());
  if (!no_room || !status.ok()) cut_flushes_.push_back(outcome.dataset);
}

// Temporary files of flushes that failed, whose datasets have left the cache since: they take room
// that the next flush may need. All ranks come here before it begins, or none is flushing.
void Runtime::remove_cut_flushes() {
  std::erase_if(cut_flushes_, [this](const DatasetDescriptor& dataset) {
    const CachedDataset* cached = find_cached_id(dataset.id);
    if (cached != nullptr && cached->dataset.created == dataset.created) return false;
    const Status status = flush::remove_cut_of(context_->fs(), context_->job().prefix, dataset);
    if (!status.ok()) log::warning("{}", status.message());
    return status.ok();
  });
}

void Runtime::settle(const std::vector<FlushOutcome>& outcomes) {
  for (const FlushOutcome& outcome : outcomes) (void)settle_one(outcome);
}

// Collective. What ended: into the flush file and the log. A flush that failed is tried again with
// the next one, or at once if what it failed for is mended. Gives what came of it.
Status Runtime::settle_one(FlushOutcome outcome) {
  if (repair_for_flush(outcome)) outcome.status = flusher_->flush(outcome.dataset);
  const bool ok = outcome.status.ok();
  set_flush_state(outcome.dataset, false, ok);
  if (!ok) note_cut_flush(outcome);
  if (outcome.dataset.is_checkpoint()) flush_overdue_ = !ok;
  if (context_->rank() != 0) return outcome.status;
  log_.once(EventType::kFlush,
            {.ok = ok,
             .bytes = outcome.dataset.size,
             .files = outcome.dataset.files,
             .seconds = outcome.seconds,
             .note = std::string(outcome.status.message())},
            outcome.dataset.id, outcome.dataset.name);
  if (!ok) {
    log::error("dataset {} ('{}') could not be flushed, its copy in the cache stays: {}",
               outcome.dataset.id, outcome.dataset.name, outcome.status.message());
    return outcome.status;
  }
  const std::uint64_t keep = context_->config().get_uint("SCR_PREFIX_SIZE");
  if (keep > 0) trim_prefix(keep);
  log::info("dataset {} ('{}') flushed: {} bytes in {} files, {:.2f} s", outcome.dataset.id,
            outcome.dataset.name, outcome.dataset.size, outcome.dataset.files, outcome.seconds);
  return outcome.status;
}

// Output always; of checkpoints every SCR_FLUSH-th by its id, so that the rhythm is kept across
// restarts, and the next one after a flush that failed.
Status Runtime::flush_if_due() {
  const config::Config& config = context_->config();
  const auto interval = static_cast<std::int64_t>(config.get_uint("SCR_FLUSH"));
  Status first;
  const std::vector<CachedDataset> cached = cached_;
  for (const CachedDataset& dataset : cached) {
    const bool newest = &dataset == &cached.back();
    const bool due =
        dataset.dataset.output || (newest && interval > 0 && dataset.dataset.is_checkpoint() &&
                                   (flush_overdue_ || dataset.dataset.checkpoint % interval == 0));
    if (!due || !dataset.usable) continue;
    const bool background = flusher_->type_of(dataset.dataset) != config::FlushType::kSync;
    Status status = flush_dataset(dataset.dataset, background);
    if (first.ok()) first = status;
  }
  return first;
}

Status Runtime::final_flush() {
  settle(flusher_->wait());
  Status first;
  const std::vector<CachedDataset> cached = cached_;
  for (auto dataset = cached.rbegin(); dataset != cached.rend(); ++dataset) {
    const bool newest_checkpoint =
        restart_candidate() != nullptr && dataset->dataset.id == restart_candidate()->dataset.id;
    const bool wanted = dataset->dataset.output ||
                        (newest_checkpoint && context_->config().get_uint("SCR_FLUSH") > 0);
    if (!dataset->usable || !wanted) continue;
    Status status = flush_dataset(dataset->dataset, /*background=*/false);
    if (first.ok()) first = status;
  }
  return first;
}

std::uint64_t Runtime::own_bytes(const DatasetDescriptor& dataset) const {
  std::uint64_t bytes = 0;
  for (const FilemapEntry* entry : own_entries(dataset)) {
    for (const FileMeta& meta : entry->files) bytes += meta.type == FileType::kFull ? meta.size : 0;
  }
  return bytes;
}

Result<std::pair<std::uint64_t, std::uint64_t>> Runtime::flush_progress(
    const std::string& name) const {
  const auto cached = std::ranges::find(cached_.rbegin(), cached_.rend(), name,
                                        [](const CachedDataset& one) { return one.dataset.name; });
  if (cached != cached_.rend()) {
    if (auto progress = flusher_->progress(cached->dataset.id)) return *progress;
    const std::uint64_t bytes = own_bytes(cached->dataset);
    return std::pair(is_in_prefix(cached->dataset.id) ? bytes : 0, bytes);
  }
  if (const auto flushed = flushed_bytes_.find(name); flushed != flushed_bytes_.end())
    return std::pair(flushed->second, flushed->second);
  Status status = not_found(fmt::format(
      "SCR_Flush_progress: there is no dataset '{}' in the cache, and none of this run has left it "
      "for the prefix directory",
      name));
  log::error("{}", status.message());
  return status;
}

Status Runtime::flush_wait(const std::string& name) {
  context_->meet("SCR_Flush_wait");
  settle(flusher_->wait());
  if (!name.empty()) {
    SCR_ASSIGN_OR_RETURN(const Named named, find_named(name));
    if (named.dataset.id == 0) return unknown_dataset(name);
    if (named.complete) return {};
    const CachedDataset* cached = find_cached_dataset(named.dataset);
    if (cached != nullptr && cached->usable)
      return flush_dataset(cached->dataset, /*background=*/false);
    Status status = failed_precondition(
        fmt::format("dataset {} ('{}') cannot be flushed: the cache has no copy of it that can be "
                    "used",
                    named.dataset.id, name));
    if (context_->rank() == 0) log::error("{}", status.message());
    return status;
  }
  for (const CachedDataset& cached : std::vector<CachedDataset>(cached_)) {
    if (cached.usable) SCR_RETURN_IF_ERROR(flush_dataset(cached.dataset, /*background=*/false));
  }
  return {};
}

}  // namespace scr
