// Shared files that leave the window by another way than a seal: those that stay open move to their
// names, and what cannot be sealed is written out.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/access.hpp"
#include "core/base/checksum.hpp"
#include "core/base/holes.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"
#include "core/shared_file/log_file.hpp"

namespace scr::routing {

namespace {

using shared_file::LogFile;

}  // namespace

// Collective over `comm`: see LogFile::move().
Status Session::move_shared(const std::string& absolute, LogFile& file, Communicator& comm) {
  const std::string temporary = path_beside(absolute, "", ".scr-moving");
  bool mine = false;  // the temporary file
  LogFile::Move move;
  move.open = [&](bool first) {
    mine = first;
    OpenOptions options = first ? OpenOptions::create_truncate() : OpenOptions::read_write();
    options.access = OpenOptions::Access::kReadWrite;
    options.no_follow = true;
    options.mode = temporary_mode(fs_, absolute);
    return fs_.open(temporary, options);
  };
  move.commit = [&] { return rename_durably(temporary, absolute); };
  Status status = file.move(comm, move);
  if (status.ok()) return {};
  if (mine) (void)fs_.remove_if_exists(temporary);
  log::warning("{}",
               status.with_context(fmt::format("'{}' stays in the cache", absolute)).message());
  return status;
}

// This process's log of a file that has been moved to its name is of no use any more.
void Session::forget_moved(const std::string& absolute, std::string_view why) {
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end()) return;
  const Marker marker = known->second.marker;
  if (known->second.first_rank == runtime_->context().rank()) {
    report_.warn_once(
        fmt::format("'{}' {}", absolute, why),
        "it is written at its name from now on, without protection; close a file to have it "
        "protected");
    report_.count_moved();
    (void)markers_->drop(marker);
    (void)fs_.remove_if_exists(path_of_more(absolute));
  }
  const bool gone = known->second.gone;
  shared_moved_.insert(absolute);
  hide(absolute);
  forget_older(known->second);
  forget_shared(absolute);
  // Who has it open goes on with a file without a name.
  if (gone) (void)fs_.remove_if_exists(absolute);
}

// What has no room in the logs of a file, until that is closed and moved to its name.
std::string Session::path_of_more(const std::string& absolute) {
  return path_beside(absolute, "", ".more.scr-moving");
}

// Collective, at the close.
void Session::move_outgrown(const std::string& absolute, LogFile& file, Communicator& comm) {
  const bool moved = move_shared(absolute, file, comm).ok();
  const std::lock_guard lock(mutex_);
  if (!runtime_) return;
  note_no_room();
  if (moved) forget_moved(absolute, "has no room in the cache");
}

// Collective: every process copies its share.
Status Session::copy_together(Communicator& comm, File& from, const std::string& to, mode_t mode) {
  using shared_file::kStripeSize;
  const bool first = comm.rank() == 0;
  const auto info = from.info();
  OpenOptions options = first ? OpenOptions::create_truncate() : OpenOptions::read_write();
  options.access = OpenOptions::Access::kReadWrite;
  options.no_follow = true;
  options.mode = mode;
  Result<std::unique_ptr<File>> target = std::unique_ptr<File>();
  Status status = info.status();
  if (status.ok() && first) {
    target = fs_.open(to, options);
    status = target.ok() ? (*target)->truncate(info->size) : target.status();
  }
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "bringing a file to its name"));
  if (!first) target = fs_.open(to, options);
  status = target.status();
  std::vector<std::byte> buffer(kStripeSize);
  const auto step = static_cast<std::uint64_t>(comm.size()) * kStripeSize;
  for (auto at = static_cast<std::uint64_t>(comm.rank()) * kStripeSize;
       status.ok() && at < info->size; at += step) {
    const std::span bytes = std::span(buffer).first(std::min(kStripeSize, info->size - at));
    status = from.read_exactly(bytes, at);
    if (!status.ok()) break;
    status = visit_nonzero(bytes, [&](std::size_t position, auto piece) {
      return (*target)->write_all(piece, at + position);
    });
  }
  if (status.ok()) status = (*target)->sync();
  if (status.ok()) status = (*target)->close();
  return agree_all(comm, status, "bringing a file to its name");
}

// Collective: there can be no new version in the cache, so the newest one comes to its name, for
// MPI to open. Should it be impossible, it stays where it is.
Status Session::bring_together(Communicator& comm, const SharedOpen& how, const Hash& plan) {
  const std::string absolute(plan.value("NAME").value_or(""));
  const std::string temporary = path_beside(absolute, "", ".scr-moving");
  auto source = open_version(how, plan);
  Status status = agree_all(comm, source.status(), "bringing a file to its name");
  if (status.ok()) status = copy_together(comm, **source, temporary, temporary_mode(fs_, absolute));
  if (status.ok()) {
    if (comm.rank() == 0) status = rename_durably(temporary, absolute);
    status = agree_all(comm, status, "bringing a file to its name");
  }
  if (!status.ok()) {
    if (comm.rank() == 0) (void)fs_.remove_if_exists(temporary);
    return status.with_context(
        fmt::format("there can be no new version of '{}' in the cache ({}), and the old one is not "
                    "at its name",
                    absolute, plan.value("WHY").value_or("")));
  }
  const std::lock_guard lock(mutex_);
  Copy old;
  if (auto found = markers_->find(absolute.substr(prefix().size() + 1));
      comm.rank() == 0 && found.ok() && *found) {
    old.marker = **found;
    report_.count_moved();
  }
  forget_replaced(old, absolute);
  return {};
}

// Collective over the world, with the lock held: as move_passed_files(). The first process of each
// file says when it is time; if a thread is in a collective call of the file, it is later.
void Session::move_passed_shared() {
  constexpr int kPassed = 2;
  constexpr std::chrono::seconds kAtLeast(5);
  const auto now = std::chrono::steady_clock::now();
  move_open_shared("stays open", [&](const SharedWindowFile& file) {
    return file.passed >= kPassed && now - file.opened >= kAtLeast;
  });
}

// The same at the end of the run: what the program has not closed is all there is of these files.
void Session::move_all_shared() {
  for (auto& [absolute, file] : shared_window_) file.passed = 0;
  move_open_shared("was not closed", [](const SharedWindowFile& file) { return file.passed >= 0; });
}

void Session::move_open_shared(std::string_view why,
                               const std::function<bool(const SharedWindowFile&)>& is_due) {
  const Sealing guard;
  Communicator& world = runtime_->context().world();
  std::set<std::uint64_t> later;
  for (;;) {
    std::uint64_t proposed = 0;
    for (const auto& [absolute, file] : shared_window_) {
      const bool mine = file.file != nullptr && file.first_rank == world.rank();
      if (mine && !later.contains(file.marker.id) && is_due(file)) {
        proposed = std::max(proposed, file.marker.id);
      }
    }
    const std::uint64_t id = world.all_reduce(proposed, ReduceOp::kMax);
    if (id == 0) return;
    const auto found =
        std::find_if(shared_window_.begin(), shared_window_.end(), [&](const auto& entry) {
          return entry.second.file != nullptr && entry.second.marker.id == id;
        });
    LogFile* const file = found != shared_window_.end() ? found->second.file : nullptr;
    const bool free = file == nullptr || file->begin_move();
    const bool all_free = world.all_true(free);
    if (!all_free) {
      later.insert(id);
    } else if (file == nullptr) {
      (void)LogFile::watch_move(world);
    } else if (const std::string absolute = found->first;
               move_shared(absolute, *file, world).ok()) {
      forget_moved(absolute, why);
    } else {
      found->second.passed = std::numeric_limits<int>::min();
    }
    if (file != nullptr && free) file->end_move();
  }
}

// What this process has written of a shared file, to its place in a plain one.
Status Session::write_out(const SharedWindowFile& file, const std::string& to) {
  SCR_ASSIGN_OR_RETURN(auto log, fs_.open(file.path, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(const shared_file::LogTable table, shared_file::read_log_table(*log));
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(auto plain, fs_.open(to, options));
  if (table.rank == table.first_rank) {
    SCR_RETURN_IF_ERROR(plain->truncate(table.size));
  }
  std::vector<std::byte> buffer(shared_file::kMostLogEntry);
  for (const shared_file::LogEntry& entry : table.entries) {
    const std::span bytes = std::span(buffer).first(entry.length);
    SCR_RETURN_IF_ERROR(log->read_exactly(bytes, entry.log_offset));
    if (crc32(bytes) != entry.crc) {
      return corrupt(
          fmt::format("'{}' has a wrong checksum at byte {}", file.path, entry.log_offset));
    }
    SCR_RETURN_IF_ERROR(plain->write_all(bytes, entry.offset));
  }
  SCR_RETURN_IF_ERROR(plain->sync());
  return plain->close();
}

// Collective over the world: what several processes have of a file, in a new file of that name.
// Those that have nothing of it have no `file`. The same result everywhere.
bool Session::write_out_together(const SharedWindowFile* file, const std::string& to) {
  Communicator& world = runtime_->context().world();
  // It would have holes where one that wrote it has nothing any more.
  const auto have = world.all_reduce(std::int64_t{file != nullptr ? 1 : 0}, ReduceOp::kSum);
  const bool complete = file == nullptr || file->processes == have;
  Status status;
  if (!complete) {
    status = failed_precondition(
        fmt::format("only {} of {} processes have what they wrote of it", have, file->processes));
  }
  if (!agree(world, status, "saving a shared file").ok()) return false;
  if (file != nullptr && file->first_rank == world.rank()) {
    // What a run that failed has left there is no part of it.
    auto made = fs_.open(to, OpenOptions::create_truncate());
    status = made.ok() ? (*made)->close() : made.status();
  }
  if (!agree(world, status, "saving a shared file").ok()) return false;
  if (file != nullptr) status = write_out(*file, to);
  return agree(world, status, "saving a shared file").ok();
}

// Collective over the world: visits the files of the window that some process wants, in the same
// order everywhere; a process that has nothing of a file, or does not want it, gets none.
void Session::each_shared(const WantsShared& wants, const VisitShared& visit) {
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t id = 0;;) {
    std::uint64_t next = kNone;
    const std::pair<const std::string, SharedWindowFile>* mine = nullptr;
    for (const auto& entry : shared_window_) {
      const std::uint64_t found = entry.second.marker.id;
      if (found <= id || found >= next || !wants(entry.first)) continue;
      next = found;
      mine = &entry;
    }
    id = runtime_->context().world().all_reduce(next, ReduceOp::kMin);
    if (id == kNone) return;
    if (next != id) mine = nullptr;
    visit(mine != nullptr ? mine->first : std::string(), mine != nullptr ? &mine->second : nullptr);
  }
}

// Collective: shared files of a window that could not be completed go to their names, each by
// itself: one that cannot be saved does not take others with it.
bool Session::rescue_shared() {
  Communicator& world = runtime_->context().world();
  bool all = true;
  each_shared([](const std::string&) { return true; },
              [&](const std::string& name, const SharedWindowFile* file) {
                const std::string temporary = path_beside(name, "", ".scr-rescue");
                if (file != nullptr && file->first_rank == world.rank())
                  (void)make_temporary(fs_, temporary, name);
                bool saved = write_out_together(file, temporary);
                if (file != nullptr && file->first_rank == world.rank()) {
                  Status status =
                      saved ? rename_durably(temporary, name) : fs_.remove_if_exists(temporary);
                  saved = saved && status.ok();
                  if (!status.ok()) log::error("'{}': {}", name, status.message());
                  drop_marker(file->marker);
                }
                saved = world.all_true(saved);
                if (!saved && file != nullptr) tell_where_log_stays(name, *file);
                all = all && saved;
              });
  return all;
}

void Session::tell_where_log_stays(const std::string& name, const SharedWindowFile& file) const {
  log::error(
      "'{}' could not be written; what this process wrote of it stays in '{}' on {}: save it "
      "before the next run",
      name, file.path, host());
}

// Collective: files of these names that others have written at the same time, who have the name
// now.
void Session::save_shared_conflicts(const std::set<std::string>& names) {
  const int rank = runtime_->context().rank();
  each_shared([&](const std::string& name) { return names.contains(name); },
              [&](const std::string& name, const SharedWindowFile* file) {
                const std::string to =
                    file != nullptr ? conflict_name(name, file->first_rank) : std::string();
                if (file != nullptr && file->first_rank == rank)
                  (void)make_temporary(fs_, to, name);
                const bool saved = write_out_together(file, to);
                if (file == nullptr) return;
                if (saved && file->first_rank == rank) tell_of_conflict(name, to);
                if (saved) return;
                tell_where_log_stays(to, *file);
                // Out of the way of forget_shared().
                const std::string kept = path_beside(file->path, "", ".scr-conflict");
                Status status = fs_.rename(file->path, kept);
                log::error("'{}' has become '{}'{}", file->path, kept,
                           status.ok() ? "" : fmt::format(": {}", status.message()));
              });
}

std::string Session::conflict_name(const std::string& absolute, int rank) {
  return path_beside(absolute, "", fmt::format(".scr-conflict.{}", rank));
}

void Session::tell_of_conflict(const std::string& absolute, const std::string& kept) {
  log::error(
      "'{}' was written by processes that did not have it open together; one version gets the "
      "name, another is in '{}': open a file with all processes that write it, or one after the "
      "other",
      absolute, kept);
}

}  // namespace scr::routing
