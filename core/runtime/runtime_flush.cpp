// Between cache and prefix directory: which datasets go there, when, and how they come back.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "core/base/log.hpp"
#include "core/base/progress.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/fetch.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/parity.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

constexpr int kTurnTag = 421;

std::string owner_text(FileSystem& fs, const std::string& directory) {
  auto handle = fs.open_directory(directory);
  if (!handle.ok()) return "another job";
  auto owner = read_owner_file(fs, **handle);
  return owner.ok() ? fmt::format("job {} of {} on {}", owner->job_id, owner->user, owner->host)
                    : "another job";
}

// The summary is there, whole, and of the dataset that the index says.
Status check_summary(FileSystem& fs, const std::string& directory,
                     const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(flush::Summary summary, flush::read_summary(fs, directory));
  const bool same = summary.dataset.id == dataset.id && summary.dataset.created == dataset.created;
  if (summary.complete && same) return {};
  return corrupt(
      fmt::format("'{}/{}' {}", directory, flush::kSummaryName,
                  same ? "says that the dataset is not complete" : "is of another dataset"));
}

}  // namespace

// --- the prefix directory at the start
// ------------------------------------------------------------------

// One job at a time works on a prefix directory: rank 0 holds a lock for as long as the job lives.
// Processes that work alone share it among themselves; only one that comes while no other is there
// cleans up after earlier runs.
Status Runtime::open_prefix() {
  Context& c = *context_;
  Status status;
  if (c.rank() == 0) {
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    auto lock = c.fs().open(c.prefix_scr() + "/" + std::string(kOwnerLockName), options);
    status = lock.status();
    if (status.ok()) status = (*lock)->lock(LockMode::kExclusive, /*wait=*/false);
    if (status.code() == StatusCode::kUnavailable && c.alone()) {
      prefix_is_shared_ = true;
      status = (*lock)->lock(LockMode::kShared, /*wait=*/false);
    }
    if (status.code() == StatusCode::kUnavailable) {
      status = failed_precondition(fmt::format("the prefix directory '{}' is in use by {}",
                                               c.job().prefix, owner_text(c.fs(), c.prefix_scr())));
    } else if (!status.ok() && lock.ok()) {
      log::warning("cannot lock the prefix directory ({}): make sure that only one job uses it",
                   status.message());
      status = {};
      prefix_owner_.emplace();
    }
    if (status.ok()) {
      prefix_lock_ = std::move(*lock);
      auto directory = c.fs().open_directory(c.prefix_scr());
      JobOwnerInfo info;
      info.user = c.job().user;
      info.job_id = c.job().job_id;
      info.host = c.host();
      info.heartbeat = std::time(nullptr);
      info.prefix = c.job().prefix;
      status = directory.status();
      if (status.ok() && prefix_owner_) status = check_no_other_job(c.fs(), **directory, info);
      // The launcher's watchdog looks for signs of life here, too.
      const bool watched = config::Environment::current().get("SCR_RUN_ID").has_value();
      if (prefix_owner_ || watched) prefix_owner_ = info;
      if (status.ok()) status = write_owner_file(c.fs(), **directory, info);
    }
    std::vector<std::string> rolled;
    if (status.ok() && !prefix_is_shared_)
      status = flush::roll_forward(c.fs(), c.job().prefix, &rolled);
    for (const std::string& name : rolled)
      log::info("the flush of '{}', which was cut, is complete now", name);
    // After that: what is rolled forward must not come back to a prefix directory that was purged.
    if (status.ok() && c.config().get_bool("SCR_PREFIX_PURGE")) trim_prefix(0);
    if (status.ok()) {
      auto index = flush::read_index(c.fs(), c.job().prefix);
      if (index.ok()) {
        last_dataset_ = index->last_id();
        for (const auto& entry : index->entries()) {
          last_checkpoint_ = std::max(last_checkpoint_, entry.dataset.checkpoint);
          last_created_ = std::max(last_created_, entry.dataset.created);
        }
      }
      status = index.status();
    }
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "opening the prefix directory"));
  std::array<std::int64_t, 2> last = {last_dataset_, last_checkpoint_};
  c.world().all_reduce(last, ReduceOp::kMax);
  last_dataset_ = static_cast<int>(last[0]);
  last_checkpoint_ = static_cast<int>(last[1]);
  return {};
}

// Where the prefix directory has no locks, other jobs see by the heartbeat that this one lives;
// scr_run sees that it completes checkpoints.
void Runtime::give_sign_of_life(bool alive) {
  if (!prefix_owner_) return;
  prefix_owner_->heartbeat = alive ? std::time(nullptr) : 0;
  auto directory = context_->fs().open_directory(context_->prefix_scr());
  Status status = directory.status();
  if (status.ok()) status = write_owner_file(context_->fs(), **directory, *prefix_owner_);
  if (!status.ok()) log::warning("{}", status.message());
}

// Once it is known what the cache holds: which of it is in the prefix directory, what cut flushes
// left there, and what is to be flushed right away.
Status Runtime::clean_prefix() {
  Context& c = *context_;
  std::vector<std::int64_t> keep;
  for (const CachedDataset& cached : cached_) {
    if (cached.usable) keep.push_back(cached.dataset.created);
  }
  Status status;
  Hash message;
  if (c.rank() == 0) {
    if (!prefix_is_shared_) status = flush::clean_up(c.fs(), c.job().prefix, keep);
    // From here on other processes that work alone may use the prefix directory too.
    if (c.alone() && prefix_lock_ && !prefix_is_shared_) {
      prefix_is_shared_ = true;
      Status shared = prefix_lock_->lock(LockMode::kShared, /*wait=*/false);
      if (!shared.ok()) log::warning("{}", shared.message());
    }
    auto index = flush::read_index(c.fs(), c.job().prefix);
    if (status.ok()) status = index.status();
    for (const CachedDataset& cached : cached_) {
      if (!index.ok() || !cached.usable) continue;
      const auto& entries = index->entries();
      const bool there =
          std::any_of(entries.begin(), entries.end(), [&](const flush::IndexEntry& entry) {
            return entry.complete && entry.dataset.id == cached.dataset.id &&
                   entry.dataset.created == cached.dataset.created;
          });
      if (there) {
        message.at("THERE").at(std::to_string(cached.dataset.id));
        continue;
      }
      const auto begun = flush::find_intent(c.fs(), c.job().prefix, cached.dataset);
      if (!begun.ok()) log::warning("{}", begun.status().message());
      if (begun.ok() && !begun->empty()) message.at("RESUME").at(std::to_string(cached.dataset.id));
    }
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "cleaning the prefix directory"));
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), message, 0));
  const Hash* there = message.get("THERE");
  const Hash* resume = message.get("RESUME");
  const bool on_restart =
      c.config().get_bool("SCR_FLUSH_ON_RESTART") || c.config().get_bool("SCR_GLOBAL_RESTART");
  const CachedDataset* newest = restart_candidate();
  const int newest_id = newest ? newest->dataset.id : 0;
  for (const CachedDataset& cached : cached_) {
    const std::string id = std::to_string(cached.dataset.id);
    if (there && there->contains(id)) {
      set_flush_state(cached.dataset, false, true);
    } else if ((resume && resume->contains(id)) || (on_restart && cached.dataset.id == newest_id)) {
      to_resume_.push_back(cached.dataset);
    }
  }
  if (!c.transparent()) resume_flushes();
  return {};
}

void Runtime::resume_flushes() {
  for (const DatasetDescriptor& dataset : std::exchange(to_resume_, {})) {
    Status flushed = flush_dataset(dataset, /*background=*/false);
    if (!flushed.ok() && context_->rank() == 0) log::warning("{}", flushed.message());
  }
}

// --- flush
// ----------------------------------------------------------------------------------------------

bool Runtime::in_prefix(const DatasetDescriptor& dataset) {
  const FlushState* state = flush_file_.get(dataset.id);
  return state != nullptr && state->in_prefix;
}

void Runtime::set_flush_state(const DatasetDescriptor& dataset, bool flushing, bool in_prefix) {
  FlushState& state = flush_file_.at(dataset.id);
  state.name = dataset.name;
  state.flushing = flushing;
  state.in_prefix = state.in_prefix || in_prefix;
  state.is_checkpoint = dataset.is_checkpoint();
  state.is_output = dataset.output;
  if (context_->node().rank() != 0) return;
  Status status = write_flush_file(
      context_->fs(), At(context_->control(), std::string(kFlushFileName)), flush_file_);
  if (!status.ok()) log::warning("{}", status.message());
}

Status Runtime::flush_dataset(const DatasetDescriptor& dataset, bool background) {
  if (in_prefix(dataset) || flusher_->is_flushing(dataset.id)) return {};
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

void Runtime::settle(const std::vector<FlushOutcome>& outcomes) {
  for (const FlushOutcome& outcome : outcomes) (void)settle_one(outcome);
}

// Collective. What ended: into the flush file and the log. A flush that failed is tried again with
// the next one, or at once if what it failed for is mended. Gives what came of it.
Status Runtime::settle_one(FlushOutcome outcome) {
  if (repair_for_flush(outcome)) outcome.status = flusher_->flush(outcome.dataset);
  const bool ok = outcome.status.ok();
  set_flush_state(outcome.dataset, false, ok);
  flush_leftovers_ = flush_leftovers_ || !ok;
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
  if (flush_leftovers_) remove_flush_leftovers();
  return outcome.status;
}

// Temporary files of flushes that failed, whose datasets have left the cache since.
void Runtime::remove_flush_leftovers() {
  if (prefix_is_shared_) return;  // they may be another process's
  std::vector<std::int64_t> keep;
  for (const CachedDataset& cached : cached_) keep.push_back(cached.dataset.created);
  Status status = flush::clean_up(context_->fs(), context_->job().prefix, keep);
  if (!status.ok()) log::warning("{}", status.message());
}

void Runtime::trim_prefix(std::uint64_t keep) {
  if (context_->rank() != 0) return;
  FileSystem& fs = context_->fs();
  auto index = flush::read_index(fs, context_->job().prefix);
  if (!index.ok()) {
    log::warning("{}", index.status().message());
    return;
  }
  std::uint64_t kept = 0;
  for (const flush::IndexEntry& entry : index->entries()) {  // newest first
    if (!entry.dataset.is_checkpoint() || entry.dataset.output || !entry.complete) continue;
    if (kept < keep) {
      // One that is known to be damaged stays beside those that count.
      if (entry.failed.empty()) ++kept;
      continue;
    }
    log::info("deleting dataset {} ('{}') from the prefix directory", entry.id(),
              entry.dataset.name);
    Status status = flush::delete_dataset(fs, context_->job().prefix, entry.directory);
    if (!status.ok()) log::warning("{}", status.message());
  }
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

Result<std::pair<std::uint64_t, std::uint64_t>> Runtime::flush_progress(
    const std::string& name) const {
  for (const CachedDataset& cached : cached_) {
    if (cached.dataset.name != name) continue;
    if (auto progress = flusher_->progress(cached.dataset.id)) return *progress;
    std::uint64_t bytes = 0;
    for (const FilemapEntry* entry : own_entries(cached.dataset)) {
      for (const FileMeta& meta : entry->files)
        bytes += meta.type == FileType::kFull ? meta.size : 0;
    }
    const FlushState* state = flush_file_.get(cached.dataset.id);
    return std::pair(state && state->in_prefix ? bytes : 0, bytes);
  }
  return not_found(fmt::format("there is no dataset '{}' in the cache", name));
}

Status Runtime::flush_wait(const std::string& name) {
  context_->meet("SCR_Flush_wait");
  settle(flusher_->wait());
  for (const CachedDataset& cached : std::vector<CachedDataset>(cached_)) {
    if (!cached.usable || (!name.empty() && cached.dataset.name != name)) continue;
    SCR_RETURN_IF_ERROR(flush_dataset(cached.dataset, /*background=*/false));
    if (!name.empty()) return {};
  }
  return name.empty() ? Status()
                      : not_found(fmt::format("there is no dataset '{}' in the cache", name));
}

// --- fetch
// ----------------------------------------------------------------------------------------------

// On rank 0: the checkpoints of the prefix directory that a restart should use rather than what the
// cache has, best first: newer ones, or the one that the user has chosen and those before it.
Result<Hash> Runtime::list_restarts(const CachedDataset* cached) {
  Context& c = *context_;
  Hash message;
  SCR_ASSIGN_OR_RETURN(flush::Index index, flush::read_index(c.fs(), c.job().prefix));
  const bool chosen = restart_below_ == 0 && user_chose(index, cached);
  const bool all = chosen || cached == nullptr || c.config().get_bool("SCR_GLOBAL_RESTART");
  if (chosen) message.set_value("CHOSEN", 1);
  int position = 0;
  for (const auto* entry : index.restart_candidates()) {
    if (!all && entry->dataset.created <= cached->dataset.created) continue;
    if (restart_below_ > 0 && entry->id() >= restart_below_) continue;
    Hash& candidate = message.at("LIST").at(std::to_string(position++));
    candidate.set_value("DIR", entry->directory);
    candidate.set("DSET", entry->dataset.to_hash());
  }
  return message;
}

namespace {

// A file names it for every run; scr_run says which run is not the first of its job.
std::string wanted_by_name(const config::Config& config) {
  const config::Source source = config.origin("SCR_CURRENT").source;
  const bool of_file = source == config::Source::kUserFile || source == config::Source::kSystemFile;
  const bool again = config::Environment::current().get("SCR_RUN_AGAIN").has_value();
  return of_file && again ? std::string() : config.get_string("SCR_CURRENT");
}

}  // namespace

// Whether a user said which checkpoint to restart from: by SCR_CURRENT, which becomes current here,
// or by making one current that is not the newest. What was written since then counts for more.
bool Runtime::user_chose(flush::Index& index, const CachedDataset* cached) {
  const Context& c = *context_;
  const std::string wanted = wanted_by_name(c.config());
  if (const flush::IndexEntry* entry = index.find_name(wanted); entry && !wanted.empty()) {
    index.set_current(std::string(entry->directory));
    return true;
  }
  if (!wanted.empty()) log::warning("SCR_CURRENT names '{}', which is not in the index", wanted);
  return cached != nullptr &&
         flush::made_current_since(c.fs(), c.job().prefix, index, cached->dataset.created);
}

// Brings the checkpoint to restart from to the cache, if that has none, or an older one, or not the
// one that the user wants.
Status Runtime::fetch_newest() {
  Context& c = *context_;
  if (!c.config().get_bool("SCR_FETCH")) return {};
  const CachedDataset* cached = restart_candidate();
  Result<Hash> listed = Hash();
  if (c.rank() == 0) listed = list_restarts(cached);
  SCR_RETURN_IF_ERROR(agree(c.world(), listed.status(), "reading the index"));
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), *listed, 0));
  const Hash* list = listed->get("LIST");
  const bool chosen = listed->contains("CHOSEN");
  bool passed_over = false;  // one that may be sound
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Hash& candidate = *list->get(std::to_string(i));
    SCR_ASSIGN_OR_RETURN(DatasetDescriptor dataset,
                         DatasetDescriptor::from_hash(*candidate.get("DSET")));
    SCR_ASSIGN_OR_RETURN(std::string directory_name, candidate.require_value("DIR"));
    Status status = is_usable_in_cache(dataset) && !reads_in_place()
                        ? Status()
                        : try_fetch(dataset, directory_name, !passed_over);
    if (status.ok()) {
      if (chosen) restart_from(dataset);
      return {};
    }
    passed_over = passed_over || status.may_hide_sound_data();
    // Another number of ranks is no fault of the data.
    if (status.code() != StatusCode::kFailedPrecondition) continue;
    if (cached == nullptr) return status;
    break;
  }
  return {};
}

bool Runtime::is_usable_in_cache(const DatasetDescriptor& dataset) {
  const CachedDataset* cached = find_cached_id(dataset.id);
  return cached != nullptr && cached->usable && cached->dataset.created == dataset.created;
}

// Of what the cache has, newer checkpoints stay, but are not offered in this run.
void Runtime::restart_from(const DatasetDescriptor& dataset) {
  const bool newer = std::any_of(cached_.begin(), cached_.end(), [&](const CachedDataset& cached) {
    return cached.usable && cached.dataset.is_checkpoint() && cached.dataset.id > dataset.id;
  });
  if (newer && context_->rank() == 0) {
    log::warning(
        "restarting from dataset {} ('{}'), which is current, although a newer one is in "
        "the cache",
        dataset.id, dataset.name);
  }
  restart_below_ = dataset.id + 1;
}

// With `make_current` a later run begins with this one, too.
Status Runtime::try_fetch(const DatasetDescriptor& dataset, const std::string& directory_name,
                          bool make_current) {
  const bool tells = context_->rank() == 0;
  EventToken event;
  if (tells) event = log_.begin(EventType::kFetch, dataset.id, dataset.name);
  Status status = fetch(dataset, directory_name);
  if (tells) {
    log_.end(event,
             {.ok = status.ok(), .bytes = dataset.size, .note = std::string(status.message())});
    if (status.ok())
      log::info("dataset {} ('{}') {} the prefix directory", dataset.id, dataset.name,
                in_place_ ? "will be read in" : "fetched from");
    else
      log::warning("cannot fetch dataset {} ('{}'): {}", dataset.id, dataset.name,
                   status.message());
  }
  // Neither is a disk that is full or out of reach a fault of the data.
  const bool faulty = !status.ok() && status.code() != StatusCode::kFailedPrecondition &&
                      !status.may_hide_sound_data();
  if (status.ok() || faulty) mark_fetched(directory_name, status.ok(), make_current);
  return status;
}

void Runtime::mark_fetched(const std::string& directory_name, bool ok, bool make_current) {
  if (context_->rank() != 0) return;
  Status status = flush::update_index(
      context_->fs(), context_->job().prefix, [&](flush::Index& index) -> Status {
        flush::IndexEntry* entry = index.find_directory(directory_name);
        if (entry == nullptr) return {};
        (ok ? entry->fetched : entry->failed).push_back(flush::timestamp_now());
        if (ok && make_current) index.set_current(directory_name);
        if (!ok && index.current() == directory_name) index.set_current("");
        return {};
      });
  if (!status.ok()) log::warning("{}", status.message());
}

Status Runtime::fetch(const DatasetDescriptor& dataset, const std::string& directory_name) {
  Context& c = *context_;
  const std::string directory = c.prefix_scr() + "/" + directory_name;
  Status described;
  if (c.rank() == 0) described = check_summary(c.fs(), directory, dataset);
  SCR_RETURN_IF_ERROR(agree(c.world(), described, "reading the summary", Report::kQuiet));
  SCR_ASSIGN_OR_RETURN(auto shared, shared_files_of(directory));
  if (shared) return offer_in_place(dataset, directory_name, std::move(*shared));
  auto files = flush::read_rank2file(c.world(), c.fs(), directory);
  SCR_RETURN_IF_ERROR(agree(c.world(), files.status(), "reading rank2file", Report::kQuiet));
  const bool contained = c.world().any_true(
      std::any_of(files->begin(), files->end(), [](const auto& file) { return file.contained(); }));
  if (reads_in_place()) {
    if (!contained) return offer_in_place(dataset, directory_name, std::move(*files));
    if (c.rank() == 0) {
      log::warning(
          "dataset {} ('{}') is in containers, so its files cannot be read where they are "
          "(SCR_FETCH_BYPASS, SCR_GLOBAL_RESTART): each rank gets its own files in the cache",
          dataset.id, dataset.name);
    }
    const CachedDataset* cached = find_cached_id(dataset.id);
    if (cached != nullptr && cached->usable) return {};
  }
  if (const CachedDataset* rival = find_cached_id(dataset.id)) {
    const bool another = rival->dataset.created != dataset.created;
    if (another && !in_prefix(rival->dataset)) {
      Status kept = keep_rival(dataset, rival->dataset, contained);
      if (!kept.ok()) return kept;
      return offer_in_place(dataset, directory_name, std::move(*files));
    }
    SCR_RETURN_IF_ERROR(make_way(dataset, directory_name, *files));
  }
  writing_.emplace();
  writing_->dataset = dataset;
  writing_->dataset.complete = false;
  writing_->redundancy = &c.redundancy_for(dataset.id, dataset.output);
  std::uint64_t bytes = 0;
  for (const flush::StoredFile& file : *files) bytes += file.to_cache() ? file.size : 0;
  expect_bytes(bytes);
  Status status = begin_writing(/*fetching=*/true);
  if (status.ok() && writing_->bypass) {
    status = {StatusCode::kNoSpace, "there is no room for it in the cache"};
  }
  if (status.ok()) status = fetch_to_cache(directory_name, *files);
  if (status.ok()) status = agree(c.world(), record_files(true), "fetching");
  if (status.ok()) status = encode();
  if (status.ok()) status = agree(c.world(), check_fetched(*files), "fetching");
  if (status.ok()) status = seal();
  if (!status.ok()) (void)cache_->remove_dataset(dataset.id);
  writing_.reset();
  if (status.ok()) set_flush_state(dataset, false, true);
  if (!contained && c.world().any_true(status.code() == StatusCode::kNoSpace)) {
    if (c.rank() == 0) {
      log::warning(
          "dataset {} ('{}') is not fetched to the cache: {}; its files are read in the prefix "
          "directory",
          dataset.id, dataset.name, status.message());
    }
    return offer_in_place(dataset, directory_name, std::move(*files));
  }
  return status;
}

// Two allocations that worked in the same prefix directory may have given the same id. What one of
// them has only in the cache stays there; plain files can be read without it. Ok: do that.
Status Runtime::keep_rival(const DatasetDescriptor& dataset, const DatasetDescriptor& rival,
                           bool contained) {
  const std::string what = fmt::format(
      "the cache has another dataset with the id {}, '{}', which is not in the prefix "
      "directory",
      rival.id, rival.name);
  if (contained) {
    return {StatusCode::kUnavailable,
            what + "; flush it (SCR_FLUSH_ON_RESTART, scr_postrun), and start again"};
  }
  if (context_->rank() == 0)
    log::warning("{}: it stays, and '{}' is read in the prefix directory", what, dataset.name);
  return {};
}

// Collective: remains of the same dataset in the cache that could not be rebuilt go, once it is
// certain that the prefix directory has it whole: in another run redundancy data may suffice.
Status Runtime::make_way(const DatasetDescriptor& dataset, const std::string& directory_name,
                         const flush::RankFiles& files) {
  SCR_RETURN_IF_ERROR(verify_in_prefix(dataset, directory_name, files));
  return agree(context_->world(), forget(dataset.id), "fetching");
}

// Collective: reads every file where it is; what is damaged in containers is repaired.
Status Runtime::verify_in_prefix(const DatasetDescriptor& dataset,
                                 const std::string& directory_name, const flush::RankFiles& files) {
  Context& c = *context_;
  return read_or_repair(directory_name, files, [&]() -> Status {
    return fetch_in_turns(
        files, fmt::format("check of dataset {}", dataset.id), [&](const auto& progress) {
          return flush::verify_files(c.fs(), c.job().prefix, directory_name, files,
                                     c.config().get_bytes("SCR_FILE_BUF_SIZE"), progress);
        });
  });
}

// Collective: if another number of processes wrote the dataset, and it has shared files only, these
// files, dealt out to the processes of this run; nothing otherwise.
Result<std::optional<flush::RankFiles>> Runtime::shared_files_of(const std::string& directory) {
  Context& c = *context_;
  Hash message;
  Status status;
  if (c.rank() == 0) {
    auto ranks = flush::read_rank_count(c.fs(), directory);
    status = ranks.status();
    bool only_shared = ranks.ok() && *ranks != c.size();
    flush::RankFiles all;
    for (int block = 0; only_shared && block < flush::rank2file_block_count(*ranks); ++block) {
      auto files = flush::read_rank2file_block(c.fs(), directory, block);
      if (status.ok()) status = files.status();
      if (!files.ok()) break;
      for (const auto& [rank, list] : *files) {
        for (const flush::StoredFile& file : list) {
          if (!file.fetch) continue;
          only_shared = only_shared && file.shared;
          all.push_back(file);
        }
      }
    }
    if (only_shared && status.ok() && !all.empty()) {
      message.set("FILES", flush::rank_files_to_hash(all));
    }
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "reading rank2file", Report::kQuiet));
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), message, 0));
  const Hash* files = message.get("FILES");
  if (files == nullptr) return std::optional<flush::RankFiles>();
  SCR_ASSIGN_OR_RETURN(const flush::RankFiles all, flush::rank_files_from_hash(*files));
  flush::RankFiles mine;
  for (auto i = static_cast<std::size_t>(c.rank()); i < all.size();
       i += static_cast<std::size_t>(c.size())) {
    mine.push_back(all[i]);
  }
  return std::optional<flush::RankFiles>(std::move(mine));
}

bool Runtime::reads_in_place() const {
  return context_->config().get_bool("SCR_FETCH_BYPASS") ||
         context_->config().get_bool("SCR_GLOBAL_RESTART");
}

// The files stay where they are; every byte is read once, so that no damaged one is offered.
Status Runtime::offer_in_place(const DatasetDescriptor& dataset, const std::string& directory_name,
                               flush::RankFiles files) {
  SCR_RETURN_IF_ERROR(verify_in_prefix(dataset, directory_name, files));
  in_place_ = InPlace{{dataset, true, true, 0}, std::move(files)};
  return {};
}

// Collective: at most SCR_FETCH_WIDTH processes read at a time.
Status Runtime::fetch_in_turns(
    const flush::RankFiles& files, const std::string& what,
    const std::function<Status(const std::function<void(std::uint64_t)>& progress)>& read) {
  Context& c = *context_;
  std::uint64_t bytes = 0;
  for (const flush::StoredFile& file : files) bytes += file.to_cache() ? file.size : 0;
  const int width = std::max(1, static_cast<int>(c.config().get_uint("SCR_FETCH_WIDTH")));
  if (c.rank() >= width) c.world().receive({}, c.rank() - width, kTurnTag);
  Status mine = read(watch_progress(c.rank(), what, bytes));
  if (c.rank() + width < c.size()) c.world().send({}, c.rank() + width, kTurnTag);
  return agree(c.world(), mine, "fetching", Report::kQuiet);
}

// What was encoded is what was fetched: between the two it went through the cache device.
Status Runtime::check_fetched(const flush::RankFiles& files) {
  FilemapEntry entry = *cache_->filemap().get(context_->rank(), writing_->dataset.id);
  for (const flush::StoredFile& file : files) {
    if (!file.to_cache()) continue;
    const FileMeta* meta = entry.find(file.file);
    if (meta == nullptr || meta->crc != file.crc) {
      return corrupt(fmt::format("'{}/{}' changed between writing and reading it", entry.directory,
                                 file.file));
    }
  }
  return {};
}

// Lists the files, reads them (SCR_FETCH_WIDTH processes at a time).
Status Runtime::fetch_to_cache(const std::string& directory_name, const flush::RankFiles& files) {
  Context& c = *context_;
  Status status = cache_->update(c.rank(), writing_->dataset.id, [&](FilemapEntry& entry) {
    for (const flush::StoredFile& file : files) {
      if (!file.to_cache()) continue;
      FileMeta meta;
      meta.file = file.file;
      meta.ranks = c.size();
      meta.original = c.job().prefix + "/" + file.file;
      meta.path = meta.original.substr(0, meta.original.rfind('/'));
      meta.name = meta.original.substr(meta.original.rfind('/') + 1);
      entry.put(std::move(meta));
    }
  });
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "fetching"));
  return read_or_repair(directory_name, files, [&]() -> Status {
    return fetch_in_turns(
        files, fmt::format("fetch of dataset {}", writing_->dataset.id), [&](const auto& progress) {
          return flush::fetch_files(c.fs(), c.job().prefix, directory_name, files,
                                    writing_->directory->path(),
                                    c.config().get_bytes("SCR_FILE_BUF_SIZE"), progress);
        });
  });
}

// Collective: if the files of containers cannot be read, parity may help.
Status Runtime::read_or_repair(const std::string& directory_name, const flush::RankFiles& files,
                               const std::function<Status()>& read) {
  Context& c = *context_;
  const Status status = read();
  const bool contained =
      std::any_of(files.begin(), files.end(), [](const auto& file) { return file.contained(); });
  if (status.ok() || !c.world().any_true(contained)) return status;
  bool repaired = false;
  if (c.rank() == 0) {
    auto names = flush::repair_containers(c.fs(), c.prefix_scr() + "/" + directory_name);
    repaired = names.ok() && !names->empty();
    if (repaired)
      log::warning("{}; {} container(s) rebuilt from parity", status.message(), names->size());
    else if (!names.ok())
      log::warning("{}", names.status().message());
  }
  return c.world().any_true(repaired) ? read() : status;
}

}  // namespace scr
