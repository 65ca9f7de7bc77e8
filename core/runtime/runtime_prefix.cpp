// The prefix directory: taken at the start, cleaned of what cut flushes left, kept to its size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/clean_up.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/roll_forward.hpp"

namespace scr {

namespace {

std::string owner_text(FileSystem& fs, const std::string& directory) {
  auto handle = fs.open_directory(directory);
  if (!handle.ok()) return "another job";
  auto owner = read_owner_file(fs, **handle);
  return owner.ok() ? fmt::format("job {} of {} on {}", owner->job_id, owner->user, owner->host)
                    : "another job";
}

}  // namespace

// One job at a time works on a prefix directory: rank 0 holds a lock for as long as the job lives.
// Processes that work alone share it among themselves; only one that comes while no other is there
// cleans up after earlier runs.
Status Runtime::take_prefix() {
  Context& c = *context_;
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(auto lock,
                       c.fs().open(c.prefix_scr() + "/" + std::string(kOwnerLockName), options));
  Status locked = lock->lock(LockMode::kExclusive, /*wait=*/false);
  if (locked.code() == StatusCode::kUnavailable && c.alone()) {
    prefix_is_shared_ = true;
    locked = lock->lock(LockMode::kShared, /*wait=*/false);
  }
  if (locked.code() == StatusCode::kUnavailable) {
    return failed_precondition(fmt::format("the prefix directory '{}' is in use by {}",
                                           c.job().prefix, owner_text(c.fs(), c.prefix_scr())));
  }
  if (!locked.ok()) {
    log::warning("cannot lock the prefix directory ({}): make sure that only one job uses it",
                 locked.message());
  }
  prefix_lock_ = std::move(lock);
  return make_room_for([&] { return sign_prefix(/*locked=*/locked.ok()); });
}

// By rank 0, at the start: a step that may fail because what cut flushes left fills the prefix
// directory. Which of these could be taken up again is not known yet. Their datasets are in the
// cache then, and are flushed from the beginning.
Status Runtime::make_room_for(const std::function<Status()>& step) {
  Status status = step();
  if (status.code() != StatusCode::kNoSpace || prefix_is_shared_) return status;
  const Status cleaned = flush::clean_up(context_->fs(), context_->job().prefix, {});
  if (!cleaned.ok()) log::warning("{}", cleaned.message());
  return step();
}

// Writes whose the prefix directory is. Without locks this is all that keeps other jobs away.
Status Runtime::sign_prefix(bool locked) {
  Context& c = *context_;
  JobOwnerInfo info;
  info.user = c.job().user;
  info.job_id = c.job().job_id;
  info.host = c.host();
  info.heartbeat = std::time(nullptr);
  info.prefix = c.job().prefix;
  // The launcher's watchdog looks for signs of life here, too.
  const bool watched = config::Environment::current().get("SCR_RUN_ID").has_value();
  if (!locked || watched) prefix_owner_ = info;
  SCR_ASSIGN_OR_RETURN(const auto directory, c.fs().open_directory(c.prefix_scr()));
  if (!locked) SCR_RETURN_IF_ERROR(check_no_other_job(c.fs(), *directory, info));
  return write_owner_file(c.fs(), *directory, info);
}

// Datasets of this run get ids and times after all that the index has.
Status Runtime::count_on_from_index() {
  SCR_ASSIGN_OR_RETURN(const flush::Index index,
                       flush::read_index(context_->fs(), context_->job().prefix));
  last_dataset_ = index.last_id();
  last_created_ = std::max(last_created_, index.chosen());
  for (const auto& entry : index.entries()) {
    last_checkpoint_ = std::max(last_checkpoint_, entry.dataset.checkpoint);
    last_created_ = std::max(last_created_, entry.dataset.created);
  }
  return {};
}

// By rank 0, once the prefix directory is taken.
Status Runtime::begin_prefix() {
  Context& c = *context_;
  std::vector<std::string> rolled;
  Status status;
  if (!prefix_is_shared_) status = flush::roll_forward(c.fs(), c.job().prefix, &rolled);
  for (const std::string& name : rolled)
    log::info("the flush of '{}', which was cut, is complete now", name);
  SCR_RETURN_IF_ERROR(status);
  // After that: what is rolled forward must not come back to a prefix directory that was purged.
  if (c.config().get_bool("SCR_PREFIX_PURGE")) trim_prefix(0);
  return count_on_from_index();
}

Status Runtime::open_prefix() {
  Context& c = *context_;
  Status status;
  if (c.rank() == 0) {
    status = take_prefix();
    if (status.ok()) status = make_room_for([this] { return begin_prefix(); });
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

// Whoever watches the job sees that it completes datasets.
void Runtime::tell_alive() {
  Status status;
  if (context_->node().rank() == 0 && owner_) {
    status = owner_->beat(context_->fs(), context_->control());
  }
  if (!status.ok()) log::warning("{}", status.message());
  give_sign_of_life(true);
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

}  // namespace scr
