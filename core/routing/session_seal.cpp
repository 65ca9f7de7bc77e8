// Sealing windows, and versions of one file on several ranks.

#include <algorithm>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/routing/name_keeper.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

namespace {

enum VoteField : std::size_t { kOpen, kClosed, kNotCopied, kCloses };
enum Closed : std::int64_t { kNothing, kOutgrown, kSomething };  // there is to seal

}  // namespace

// --- collective points ---------------------------------------------------------------------------

Session::Vote Session::vote() {
  std::lock_guard lock(mutex_);
  Vote vote{};
  if (!runtime_) return vote;
  move_flushed_files();
  move_passed_files();
  vote[kOpen] = has_open_writers() ? 1 : 0;
  vote[kClosed] = has_something_to_seal() ? kSomething : window_is_outgrown_ ? kOutgrown : kNothing;
  vote[kNotCopied] = !runtime_->idle() && !runtime_->flush_ready() ? 1 : 0;
  vote[kCloses] = closed_in_all_;
  return vote;
}

bool Session::decide(const Vote& votes) {
  std::lock_guard lock(mutex_);
  if (!runtime_ || off_) return false;
  const bool flushing = !runtime_->idle();  // the same on all ranks
  if (votes[kOpen] == 0 && votes[kClosed] == kOutgrown && renew_window()) return true;
  if (votes[kOpen] == 0 && votes[kClosed] == kSomething) {
    // Another thread may have opened a file since the vote. All ranks are here now, and none of
    // them waits for anything but its own lock, so the lock can be held.
    const Sealing guard;
    if (!runtime_->context().world().any_true(has_open_writers())) seal();
    return true;
  }
  note_passed(votes[kOpen] != 0 && votes[kClosed] == kSomething, votes[kCloses]);
  if (flushing && votes[kNotCopied] == 0) {
    runtime_->poll();
    note_flushed();
  }
  return votes[kOpen] != 0 || votes[kClosed] != 0;
}

// Collective: all files of a window that had no room for them are at their names. The next one
// looks for more room.
bool Session::renew_window() {
  const Sealing guard;
  const bool is_used = has_open_writers() || has_something_to_seal();
  if (runtime_->context().world().any_true(is_used)) return false;
  runtime_->close_window();
  closes_.clear();
  open_window();
  return true;
}

// The user has said that every rank closes so many files of a dataset (COMPLETE=CLOSE): all come
// here. While they come, the lock is free for the other threads, on which their coming may depend;
// then none waits for anything but its own lock, as in decide().
void Session::seal_at_close(std::unique_lock<std::mutex>& lock) {
  const Sealing guard;
  lock.unlock();
  close_point_->barrier();
  lock.lock();
  if (!runtime_) return;
  Communicator& world = runtime_->context().world();
  if (world.all_true(!has_open_writers())) {
    // Those of all ranks may have been moved to their names.
    if (world.any_true(has_something_to_seal()))
      seal();
    else
      (void)renew_window();
  } else if (runtime_->context().rank() == 0) {
    report_.warn_once("a dataset is not sealed at the close of its last file",
                      "other routed files are open; it is sealed at the next collective call");
  }
}

// Files that are open while the program goes on to write others keep these from being sealed.
void Session::note_passed(bool waiting, std::int64_t closes) {
  if (waiting && closes > closes_seen_) {
    for (RoutedFile* file : writers_) ++file->passed_;
    for (auto& [absolute, file] : shared_window_) file.passed += file.open ? 1 : 0;
    move_passed_shared();
  }
  closes_seen_ = closes;
}

void Session::seal() {
  const Sealing guard;
  drop_missing();
  settle_versions();
  std::string name;
  int flags = kFlagNone;
  const bool every_one = config()->get_uint("SCR_FLUSH") == 1;
  const auto take = [&](const Route& route) {
    if (name.empty()) name = dataset_name(route.rule, route.relative);
    const bool output = route.type == config::RouteRule::Type::kOutput;
    if (!output) flags |= kFlagCheckpoint;
    if (output || (every_one && route.keep_all) || must_be_at_names()) flags |= kFlagOutput;
  };
  for (const auto& [absolute, file] : window_) take(file.route);
  for (const auto& [absolute, file] : shared_window_) take(file.route);
  const int dataset = runtime_->window();
  seals_shared_ = runtime_->context().world().any_true(!shared_window_.empty());
  const Status status = runtime_->seal_window(name, flags, !window_is_incomplete_);
  seals_shared_ = false;
  if (status.ok()) {
    report_.count_dataset();
    const auto& cached = runtime_->cached();
    const bool in_cache = std::any_of(cached.begin(), cached.end(), [&](const CachedDataset& d) {
      return d.dataset.id == dataset;
    });
    if (in_cache) {
      for (const auto& [absolute, file] : shared_window_) {
        services_.note_sealed(
            dataset, {file.marker.id, file.log_id, file.first_rank == runtime_->context().rank()});
      }
    } else {  // it went straight to the prefix directory
      report_.count_flushed();
      for (const auto& [absolute, file] : window_) drop_marker(file.marker);
    }
  }
  std::set<std::string> written;
  for (const auto& [absolute, file] : window_) written.insert(absolute);
  for (const auto& [absolute, file] : shared_window_) written.insert(absolute);
  window_.clear();
  shared_window_.clear();
  end_renames(status.ok(), written);
  dropped_shared_.clear();
  closes_.clear();
  window_is_incomplete_ = false;
  window_is_outgrown_ = false;
  next_index_ = 0;
  if (must_be_at_names()) runtime_->wait_for_flushes();
  note_flushed();
  if (attached_) open_window();
}

// Files of the window that another process of this node has deleted or moved to their names.
void Session::drop_missing() {
  for (auto file = window_.begin(); file != window_.end();) {
    auto exists = fs_.exists(file->second.path);
    if (!exists.ok() || *exists) {
      ++file;
      continue;
    }
    Status status = runtime_->unregister_file(file->first);
    if (!status.ok()) log::warning("{}", status.message());
    file = window_.erase(file);
  }
}

// A version of a file in the window, as the rank that looks after its name sees it.
namespace {

struct Version {
  std::string rank;
  std::string kind;  // "OWN": a file of one rank; "LOGS": of several; "GONE": it was deleted then
  std::uint64_t generation = 0;
  std::string host;
  std::uint64_t id = 0;  // of several ranks' logs: all of one version have the same
};

using Versions = std::map<std::string, std::vector<Version>>;  // by name

Versions versions_from(const Hash& received) {
  Versions versions;
  for (const Hash::Element& rank : received.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      for (const Hash::Element& kind : name.hash.elements()) {
        versions[name.key].push_back({rank.key, kind.key, number(kind.hash, "GENERATION"),
                                      std::string(kind.hash.value("HOST").value_or("")),
                                      number(kind.hash, "ID")});
      }
    }
  }
  return versions;
}

// By rank, name and kind: the versions that are not the newest of their name. One that is as new as
// that is not an older version, but in conflict with it, and is not to be lost.
Hash losers_among(const Versions& versions) {
  Hash verdicts;
  for (const auto& [name, all] : versions) {
    const auto newest = std::max_element(
        all.begin(), all.end(),
        [](const Version& a, const Version& b) { return a.generation < b.generation; });
    std::set<std::string> saved;  // one process of a node has the file that they have together
    for (const Version& version : all) {
      if (&version == &*newest || (version.id != 0 && version.id == newest->id)) continue;
      // On one node both versions are one file, which the other rank goes on to list.
      const bool same_file =
          version.kind == "OWN" && newest->kind == "OWN" && version.host == newest->host;
      Hash& verdict = verdicts.at(version.rank).at(name).at(version.kind);
      verdict.set_value("SAME_FILE", same_file);
      const bool conflict = version.generation == newest->generation && !same_file &&
                            version.kind != "GONE" && newest->kind != "GONE";
      const bool other = version.kind == "LOGS" || saved.insert(version.host).second;
      verdict.set_value("CONFLICT", conflict && other);
    }
  }
  return verdicts;
}

}  // namespace

// Collective: where several ranks have written a file of one name (a file that is passed on like a
// baton), or one rank and then several together, the newest version stays. Each name is looked
// after by one rank.
void Session::settle_versions() {
  Communicator& world = runtime_->context().world();
  if (world.size() == 1) return;
  Hash send;
  const auto tell = [&](const std::string& relative, const char* kind, std::uint64_t generation,
                        std::uint64_t id) {
    Hash& entry = send.at(keeper_of(relative, world)).at(relative).at(kind);
    entry.set_value("GENERATION", generation);
    entry.set_value("HOST", host());
    entry.set_value("ID", id);
  };
  for (const auto& [absolute, file] : window_) {
    tell(file.route.relative, "OWN", file.marker.generation, 0);
  }
  for (const auto& [absolute, file] : shared_window_) {
    tell(file.route.relative, "LOGS", file.marker.generation, file.marker.id);
  }
  for (const auto& [relative, generation] : dropped_shared_) tell(relative, "GONE", generation, 0);
  Hash received;
  Status status = exchange_hashes(world, send, received);
  if (!status.ok()) log::error("{}", status.message());
  Hash losers;
  status = exchange_hashes(world, losers_among(versions_from(received)), losers);
  if (!status.ok()) log::error("{}", status.message());
  std::set<std::string> conflicts;
  for (const Hash::Element& rank : losers.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      const Hash* logs = name.hash.get("LOGS");
      if (logs != nullptr && number(*logs, "CONFLICT") != 0)
        conflicts.insert(prefix() + "/" + name.key);
    }
  }
  save_shared_conflicts(conflicts);
  for (const Hash::Element& rank : losers.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) drop_versions(name.key, name.hash);
  }
}

// Versions of this rank that others have overwritten since.
void Session::drop_versions(const std::string& relative, const Hash& kinds) {
  const std::string absolute = prefix() + "/" + relative;
  const auto logs = shared_window_.find(absolute);
  if (kinds.contains("LOGS") && logs != shared_window_.end()) {
    // Who deleted the file may have done so before it was closed and marked.
    const SharedWindowFile& shared = logs->second;
    if (shared.first_rank == runtime_->context().rank()) drop_marker(shared.marker);
    forget_shared(absolute);
  }
  const Hash* own = kinds.get("OWN");
  const auto file = window_.find(absolute);
  if (own == nullptr || file == window_.end()) return;
  Status status;
  if (number(*own, "CONFLICT") != 0) {
    const std::string kept = conflict_name(absolute, runtime_->context().rank());
    status = make_temporary(fs_, kept, absolute);
    if (status.ok()) status = copy_file(fs_, file->second.path, kept);
    tell_of_conflict(absolute, status.ok() ? kept : file->second.path + " on " + host());
  }
  // What could not be copied stays where it is.
  const bool goes = status.ok() && number(*own, "SAME_FILE") == 0;
  Status unlisted = runtime_->unregister_file(absolute);
  if (status.ok()) status = unlisted;
  if (status.ok() && goes) status = fs_.remove_if_exists(file->second.path);
  if (!status.ok()) log::warning("{}", status.message());
  window_.erase(file);
}

}  // namespace scr::routing
