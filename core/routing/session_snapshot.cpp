// Files that stay open and are kept as they are at each flush: ROUTE rules with SNAPSHOT=1.
//
// At a flush a copy takes the name of the file in the window, and is a file of the window like any
// that was closed. The one that the program has open and goes on to write, the *live* one, has no
// name any more: no seal waits for it, and nothing of it is left after a crash.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/base/log.hpp"
#include "core/routing/hdf5_superblock.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

bool Session::keeps_snapshots(const RoutedFile& file) {
  if (file.role() == RoutedFile::Role::kLive) return true;
  if (file.role() != RoutedFile::Role::kWriter) return false;
  const Route route = names_.route_of(file.absolute_);
  return route.rule != nullptr && route.rule->snapshot;
}

// A flush of a file that is kept at each. Where that cannot be done the file goes to its name, as
// any other that stays open.
Status Session::keep_snapshot(RoutedFile& file) {
  const bool is_new = file.role() == RoutedFile::Role::kWriter;
  if (is_new && !is_alone_with(file)) return {};
  const WindowFile* known = file_in_window(file.absolute_);
  const Status& failure = is_new ? known->failure : live_.at(file.absolute_).failure;
  if (!failure.ok()) return {};  // it is no good, and is dropped when it is closed
  Status status = write_snapshot(file);
  if (!status.ok()) return stop_snapshots(file, status);
  if (is_new) {
    std::erase(writers_, &file);
    file.role_ = RoutedFile::Role::kLive;
    live_[file.absolute_].handles.push_back(&file);
  }
  return seal_snapshot(file.absolute_);
}

// A process by itself has no collective points.
Status Session::seal_snapshot(const std::string& absolute) {
  if (attached_ || file_in_window(absolute) == nullptr) return {};
  if (!writers_.empty()) return must_be_at_names() ? bring_to_name(absolute) : Status();
  seal();
  return {};
}

// The file as it is now becomes a file of the window, whole at every instant.
Status Session::write_snapshot(RoutedFile& file) {
  const std::shared_lock open(file.mutex_);
  if (!file.open_ || !take_changes(file)) return {};
  if (!open_window()) return failed_precondition("h5scr has stopped its work");
  if (runtime_->window_bypasses()) return failed_precondition("there is no room in the cache");
  const std::string& absolute = file.absolute_;
  const bool is_known = file_in_window(absolute) != nullptr;
  const Route route = names_.route_of(absolute);
  SCR_ASSIGN_OR_RETURN(const Copy newest, find(route, absolute));
  SCR_ASSIGN_OR_RETURN(const std::string path, runtime_->route_file(absolute));
  Status status = replace_in_window(*file.file_, absolute, path);
  if (!status.ok()) {
    if (!is_known) (void)runtime_->unregister_file(absolute);
    return status;
  }
  WindowFile& entry = enter_window(route, absolute, path, newest.generation + 1);
  entry.open = 0;
  entry.presence.reset();
  auto info = fs_.info(path);
  if (info.ok()) report_.count_bytes(info->size);
  publish(entry.marker, path);
  return {};
}

// Whether there is something new since the last time.
bool Session::take_changes(RoutedFile& file) {
  bool changed = file.changed_.exchange(false);
  const auto live = live_.find(file.absolute_);
  if (live == live_.end()) return changed;
  for (RoutedFile* other : live->second.handles)
    changed = other->changed_.exchange(false) || changed;
  return changed;
}

// Under a name that is registered, too, so that it goes with the window if the run is killed now.
Status Session::replace_in_window(File& source, const std::string& absolute,
                                  const std::string& path) {
  const std::string other = absolute + ".scr-snapshot";
  SCR_ASSIGN_OR_RETURN(const std::string temporary, runtime_->route_file(other));
  const auto copy = [&]() -> Status {
    SCR_ASSIGN_OR_RETURN(auto target, fs_.open(temporary, OpenOptions::create_truncate()));
    SCR_RETURN_IF_ERROR(copy_contents(source, *target));
    SCR_RETURN_IF_ERROR(clear_open_flag(*target));
    return target->close();
  };
  Status status = copy();
  if (status.ok()) status = fs_.rename(temporary, path);
  if (!status.ok()) (void)fs_.remove_if_exists(temporary);
  const Status unlisted = runtime_->unregister_file(other);
  return status.ok() ? unlisted : status;
}

Status Session::stop_snapshots(RoutedFile& file, const Status& why) {
  report_.warn_once(
      fmt::format("'{}' cannot be kept at each flush", file.absolute_),
      fmt::format("{}; it is written at its name from now on, without protection", why.message()));
  return file.role() == RoutedFile::Role::kLive ? move_live(file.absolute_) : move_to_name(file);
}

// All who have the file open write it at its name from now on.
Status Session::move_live(const std::string& absolute) {
  const std::vector<RoutedFile*> handles = live_.at(absolute).handles;
  SCR_RETURN_IF_ERROR(move_to_name(*handles.front()));
  live_.erase(absolute);
  Status first;
  for (RoutedFile* file : handles) {
    if (file == handles.front()) continue;
    auto plain = fs_.open(absolute, OpenOptions::read_write());
    if (plain.ok()) file->replace(std::move(*plain), RoutedFile::Role::kPlain);
    if (first.ok()) first = plain.status();
  }
  return first;
}

// At the end of the run: those that are still open go to their names.
void Session::end_live() {
  while (!live_.empty()) {
    const std::string absolute = live_.begin()->first;
    const LiveFile live = live_.begin()->second;
    Status status = live.failure;
    if (status.ok()) status = move_live(absolute);
    live_.erase(absolute);
    if (status.ok()) continue;
    log::error("'{}' stays as it was at its last flush: {}", absolute, status.message());
    for (RoutedFile* file : live.handles) file->cut_off_ = true;
  }
}

// It is open here: every open is one of the same file, as it would be without h5scr. HDF5 opens a
// file to find out whether it is open already.
Result<Session::Opened> Session::open_live(const std::string& absolute, const OpenOptions& options,
                                           bool swmr) {
  if (options.create && options.exclusive) return errno_status(EEXIST, "create", absolute);
  if (swmr) return no_swmr(absolute);
  LiveFile& live = live_.at(absolute);
  const bool reads = options.access == OpenOptions::Access::kRead;
  OpenOptions same = reads ? OpenOptions::read() : OpenOptions::read_write();
  same.no_follow = false;
  const std::string path = fmt::format("/proc/self/fd/{}", live.handles.front()->descriptor());
  SCR_ASSIGN_OR_RETURN(auto file, fs_.open(path, same));
  auto routed =
      std::make_unique<RoutedFile>(*this, absolute, std::move(file),
                                   reads ? RoutedFile::Role::kReader : RoutedFile::Role::kLive);
  RoutedFile* pointer = routed.get();
  if (!reads) live.handles.push_back(pointer);
  Opened opened{std::move(routed), pointer, std::nullopt};
  if (options.truncate) SCR_RETURN_IF_ERROR(pointer->file_->truncate(0));
  if (options.truncate) pointer->changed_ = true;
  return opened;
}

// Its last close comes: what was written since the last flush is kept, too.
Status Session::closing(RoutedFile& file) {
  if (getpid() != pid_) return {};
  const std::lock_guard lock(mutex_);
  const auto live = live_.find(file.absolute_);
  if (live == live_.end() || live->second.handles.size() > 1) return {};
  if (!live->second.failure.ok()) {
    log::error(
        "'{}' is dropped, for it could not be written: {}; it stays as it was at its last "
        "flush",
        file.absolute_, live->second.failure.message());
    return {};
  }
  Status status = runtime_ ? write_snapshot(file) : failed_precondition("h5scr has ended");
  return status.ok() ? status : stop_snapshots(file, status);
}

Status Session::closed_live(RoutedFile& file) {
  const auto live = live_.find(file.absolute_);
  if (live == live_.end()) return {};
  std::erase(live->second.handles, &file);
  if (!live->second.handles.empty()) {
    if (file.changed_) live->second.handles.front()->changed_ = true;
    return {};
  }
  live_.erase(live);
  ++closed_in_all_;
  return seal_snapshot(file.absolute_);
}

// A program that has a file open and changes it by its name is not served.
Status Session::refuse_if_live(const std::string& absolute, std::string_view what) const {
  if (!live_.contains(absolute)) return {};
  return {StatusCode::kFailedPrecondition,
          fmt::format("'{}' cannot be {}: this process has it open for writing; close it before",
                      absolute, what),
          EBUSY};
}

// The program has deleted the file, or given its name to another: who has it open writes what
// nobody gets.
void Session::forget_live(const std::string& absolute) {
  const auto live = live_.find(absolute);
  if (live == live_.end()) return;
  for (RoutedFile* file : live->second.handles) file->role_ = RoutedFile::Role::kPlain;
  live_.erase(live);
}

}  // namespace scr::routing
