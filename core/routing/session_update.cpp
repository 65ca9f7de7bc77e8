// What becomes of open files of the window: the first change, flushes, moves to their names, the
// close.
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

namespace {

// As the program's lock on the file whose place this one takes. A file system without locks has
// none to give.
Status lock_descriptor(const File& file, int lock) {
  if (lock == 0 || file.descriptor() < 0) return {};
  if (::flock(file.descriptor(), lock | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  return {StatusCode::kUnavailable,
          fmt::format("unable to lock file '{}': another process has it open", file.path()),
          EWOULDBLOCK};
}

// Whether something can be written beside a name. A good file there is not to make way for one
// that cannot be written either.
Status check_room(FileSystem& fs, const std::string& absolute) {
  constexpr std::size_t kSomething = std::size_t{1} << 20U;
  const std::string probe = path_beside(absolute, "", ".room.scr-moving");
  OpenOptions options = OpenOptions::create_truncate();
  options.no_follow = true;
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(probe, options));
  Status status = file->write_all(std::vector<std::byte>(kSomething, std::byte{1}), 0);
  if (status.ok()) status = file->sync();
  (void)fs.remove_if_exists(probe);
  return status;
}

}  // namespace

Status Session::begin_update(RoutedFile& file) {
  if (getpid() != pid_) {  // the lock may be held by a thread that the child does not have
    return failed_precondition(
        fmt::format("'{}' was opened before the fork and cannot be changed", file.absolute_));
  }
  std::lock_guard lock(mutex_);
  if (file.role() != RoutedFile::Role::kUpdater) return {};
  if (off_ || !runtime_ || !open_window()) {
    // The run has ended, and all data is at its name.
    auto marker = read_marker(fs_, file.absolute_);
    if (!marker.ok() || *marker) {
      return failed_precondition(
          fmt::format("'{}' cannot be changed: h5scr has ended, and its data is not at its name",
                      file.absolute_));
    }
    SCR_ASSIGN_OR_RETURN(auto plain, fs_.open(file.absolute_, OpenOptions::read_write()));
    // The present one may be the same file, whose lock would be in the way.
    if (file.held_lock_ != 0) (void)::flock(file.file_->descriptor(), LOCK_UN);
    SCR_RETURN_IF_ERROR(lock_descriptor(*plain, file.held_lock_));
    file.replace(std::move(plain), RoutedFile::Role::kPlain);
    return {};
  }
  const Status status = become_writer(file);
  return status.code() == StatusCode::kNoSpace ? change_at_name(file, status) : status;
}

void Session::note_no_room() {
  runtime_->note_no_room();
  window_is_outgrown_ = true;
}

void Session::tell_no_room(const std::string& absolute) {
  note_no_room();
  report_.warn_once(fmt::format("there is no room in the cache for '{}'", absolute),
                    "it is written at its name, without protection; give the cache more room "
                    "(SCR_CACHE_BASE), or keep fewer datasets there (SCR_CACHE_SIZE)");
}

// There is no room for a new version in the cache: the newest one is changed at its name, as
// without h5scr.
Status Session::change_at_name(RoutedFile& file, const Status& why) {
  SCR_ASSIGN_OR_RETURN(const Copy newest, find(names_.route_of(file.absolute_), file.absolute_));
  const bool in_window =
      newest.where == Copy::Where::kCache && newest.dataset == runtime_->window();
  if (in_window || newest.lost || runtime_->window_bypasses()) return why;
  std::unique_ptr<File> target;
  if (newest.where == Copy::Where::kPlain) {
    SCR_ASSIGN_OR_RETURN(target, fs_.open(file.absolute_, OpenOptions::read_write()));
    SCR_RETURN_IF_ERROR(lock_descriptor(*target, file.held_lock_));
    (void)target->lock(LockMode::kShared, /*wait=*/false);
  } else {
    SCR_ASSIGN_OR_RETURN(auto source, open_copy(newest, file.absolute_));
    SCR_ASSIGN_OR_RETURN(target, write_at_name(*source, file.absolute_, file.held_lock_));
    forget_replaced(newest, file.absolute_);
    report_.count_moved();
  }
  tell_no_room(file.absolute_);
  file.counted_by_ = names_.route_of(file.absolute_).rule;
  file.replace(std::move(target), RoutedFile::Role::kPlain);
  return {};
}

// A change of an open file has failed. True: for lack of room in the cache, so it is at its name
// now, where the change can be tried again.
bool Session::gave_way(RoutedFile& file, const Status& why) {
  if (why.code() != StatusCode::kNoSpace || getpid() != pid_) return false;
  std::lock_guard lock(mutex_);
  if (file.role() == RoutedFile::Role::kPlain) return true;  // another thread was faster
  if (off_ || !runtime_) return false;
  const auto live = live_.find(file.absolute_);
  if (live != live_.end()) return live->second.failure.ok() && stop_snapshots(file, why).ok();
  if (runtime_->window_bypasses()) return false;
  const WindowFile* known = file_in_window(file.absolute_);
  const bool is_whole = known != nullptr && known->failure.ok();
  if (file.role() != RoutedFile::Role::kWriter || !is_whole || !is_alone_with(file)) return false;
  Status status = check_room(fs_, file.absolute_);
  if (status.ok()) {
    tell_no_room(file.absolute_);
    status = move_to_name(file);
  } else {
    (void)file_in_window(file.absolute_)->presence->share();
  }
  if (!status.ok()) log::warning("{}", status.message());
  return status.ok();
}

// If another process of this node has changed the file since, in this window, both change the same
// file.
Status Session::become_writer(RoutedFile& file) {
  const Route route = names_.route_of(file.absolute_);
  std::unique_ptr<File> target;
  bool filled = false;
  while (!target) {
    SCR_ASSIGN_OR_RETURN(const Copy newest, find(route, file.absolute_));
    if (newest.where == Copy::Where::kPlain && attached_) {
      SCR_ASSIGN_OR_RETURN(target, fs_.open(file.absolute_, OpenOptions::read_write()));
      if (joins_at_name(*target)) {
        file.counted_by_ = route.rule;
        file.replace(std::move(target), RoutedFile::Role::kPlain);
        return {};
      }
      target.reset();
    }
    const bool cached = newest.where == Copy::Where::kCache;
    const bool in_window = cached && newest.dataset == runtime_->window();
    const auto fill = [&](File& to) -> Status {
      filled = true;
      SCR_RETURN_IF_ERROR(to.truncate(0));
      std::unique_ptr<File> newer;  // it may have been written again since it was opened here
      if (cached && !in_window) {
        SCR_ASSIGN_OR_RETURN(newer, open_copy(newest, file.absolute_));
      }
      SCR_RETURN_IF_ERROR(copy_contents(newer ? *newer : *file.file_, to));
      return lock_descriptor(to, file.held_lock_);
    };
    auto opened = open_in_window(route, file.absolute_, newest.generation + 1,
                                 in_window ? InWindow::kJoin : InWindow::kMake, fill);
    if (!opened.ok()) {
      return opened.status().with_context(
          "while copying the file to the cache, to change it there");
    }
    target = std::move(*opened);
  }
  if (!filled) {
    Status locked = lock_descriptor(*target, file.held_lock_);
    if (!locked.ok()) leave_window(file.absolute_);
    SCR_RETURN_IF_ERROR(locked);
  }
  file.replace(std::move(target), RoutedFile::Role::kWriter);
  writers_.push_back(&file);
  return {};
}

// A file that stays open while it is flushed again and again is meant to be read meanwhile, or to
// outlive a crash: it lives at its name, as it would without h5scr. Programs flush a file before
// they close it, too, and HDF5 does; so it takes a third time, or that the program has gone on to
// something else with the file still open.
Status Session::flushed(RoutedFile& file) {
  constexpr int kFlushesBeforeClose = 2;
  if (passive()) return {};
  std::lock_guard lock(mutex_);
  if (keeps_snapshots(file)) return keep_snapshot(file);
  if (file.role() != RoutedFile::Role::kWriter) return {};
  return ++file.flushes_ > kFlushesBeforeClose ? move_flushed(file) : Status();
}

// The program does something else now: files that were flushed and are still open stay open.
void Session::move_flushed_files() {
  const std::vector<RoutedFile*> writers = writers_;
  for (RoutedFile* file : writers) {
    if (file->flushes_ == 0 || !file->open_) continue;
    Status status = move_flushed(*file);
    if (!status.ok()) log::warning("{}", status.message());
  }
}

// A file that has been open while the program wrote and closed others, twice and for a while, is
// one of the kind that stays open for the whole run, like a log. The others must not wait for it.
void Session::move_passed_files() {
  constexpr int kPassed = 2;
  constexpr std::chrono::seconds kAtLeast(5);
  const auto now = std::chrono::steady_clock::now();
  const std::vector<RoutedFile*> writers = writers_;
  for (RoutedFile* file : writers) {
    if (file->passed_ < kPassed || now - file->opened_ < kAtLeast || !file->open_) continue;
    if (!is_alone_with(*file)) continue;
    report_.warn_once(
        fmt::format("'{}' stays open", file->absolute_),
        "it is written at its name from now on, without protection, so that other files can "
        "be protected; close a file to have it protected");
    Status status = move_to_name(*file);
    if (!status.ok()) log::warning("{}", status.message());
  }
}

// Nobody else has the file open, in this process or another one, or can open it before it is moved
// to its name: what others write to the one in the cache would be lost.
bool Session::is_alone_with(const RoutedFile& file) {
  const WindowFile* known = file_in_window(file.absolute_);
  const bool alone =
      known == nullptr || (known->open == 1 && known->presence && known->presence->take_alone());
  if (!alone) {
    report_.warn_once(fmt::format("'{}' is kept open by several", file.absolute_),
                      "it stays in the cache, and is protected when all of them have closed it");
  }
  return alone;
}

Status Session::move_flushed(RoutedFile& file) {
  if (!is_alone_with(file)) return {};
  report_.warn_once(
      fmt::format("'{}' is kept open and flushed", file.absolute_),
      "it is written at its name from now on, without protection; close a file to have it "
      "protected");
  return move_to_name(file);
}

// Copies a file to a name, whole there at every instant, and durable at the end; gives it open.
// `lock`: the one that the program has on it, of flock().
Result<std::unique_ptr<File>> Session::write_at_name(File& source, const std::string& to,
                                                     int lock) {
  // Several processes may move one file at the end of a run.
  const int rank = runtime_ ? runtime_->context().rank() : 0;
  const std::string temporary = path_beside(to, "", fmt::format(".{}.scr-moving", rank));
  OpenOptions options = OpenOptions::create_truncate();
  options.no_follow = true;
  options.mode = temporary_mode(fs_, to);
  SCR_ASSIGN_OR_RETURN(auto target, fs_.open(temporary, options));
  Status status = copy_contents(source, *target);
  if (status.ok()) status = target->sync();
  if (status.ok()) status = lock_descriptor(*target, lock);
  // While it is open others can see that it is written there; see joins_at_name().
  if (status.ok()) (void)target->lock(LockMode::kShared, /*wait=*/false);
  if (status.ok()) status = rename_durably(temporary, to);
  if (!status.ok()) {
    (void)fs_.remove_if_exists(temporary);
    return status;
  }
  return target;
}

// What was in the cache may go when a file has its name for good.
Status Session::rename_durably(const std::string& from, const std::string& to) {
  SCR_RETURN_IF_ERROR(take_mode(fs_, from, to));
  SCR_RETURN_IF_ERROR(fs_.rename(from, to));
  return fs_.sync_directory(to.substr(0, std::max<std::size_t>(to.rfind('/'), 1)));
}

Status Session::move_to_name(RoutedFile& file) {
  std::unique_lock alone(file.mutex_);
  if (!file.open_) return {};  // another thread has just closed it, and is about to say so
  const WindowFile* known = file_in_window(file.absolute_);
  auto target = write_at_name(*file.file_, file.absolute_, file.held_lock_);
  if (!target.ok()) {
    if (known != nullptr && known->presence) (void)known->presence->share();
    return target.status().with_context("while moving an open file to its name");
  }
  file.file_ = std::move(*target);
  file.role_ = RoutedFile::Role::kPlain;
  if (known != nullptr) file.counted_by_ = known->route.rule;
  std::erase(writers_, &file);
  report_.count_moved();
  hide(file.absolute_);
  SCR_RETURN_IF_ERROR(forget_file(file.absolute_));
  end_renames_to(file.absolute_);
  return {};
}

// A closed file of the window.
Status Session::bring_to_name(const std::string& absolute) {
  SCR_ASSIGN_OR_RETURN(auto source, fs_.open(file_in_window(absolute)->path, OpenOptions::read()));
  SCR_RETURN_IF_ERROR(write_at_name(*source, absolute, 0)
                          .status()
                          .with_context("while bringing a closed file to its name"));
  report_.count_moved();
  hide(absolute);
  SCR_RETURN_IF_ERROR(forget_file(absolute));
  end_renames_to(absolute);
  return {};
}

// Takes a file of this process out of the window, with its data and marker.
Status Session::forget_file(const std::string& absolute) {
  WindowFile* known = file_in_window(absolute);
  if (known == nullptr) return {};
  const WindowFile file = *known;
  window_.erase(absolute);
  Status status = fs_.remove_if_exists(file.path);
  if (status.ok()) status = runtime_->unregister_file(absolute);
  if (!markers_) return status;
  Status dropped = markers_->drop(file.marker);
  // That of another process of this node that has written the same file.
  const auto other = runtime_->window() != 0 ? marker_in_window(file.route.relative) : std::nullopt;
  if (dropped.ok() && other) dropped = markers_->drop(*other);
  return status.ok() ? dropped : status;
}

// A write to the file has failed: what is there is not what the program meant.
void Session::failed(RoutedFile& file, const Status& why) {
  if (getpid() != pid_) return;
  std::lock_guard lock(mutex_);
  const auto live = live_.find(file.absolute_);
  WindowFile* known = file_in_window(file.absolute_);
  Status* failure = live != live_.end() ? &live->second.failure
                    : known != nullptr  ? &known->failure
                                        : nullptr;
  if (failure != nullptr && failure->ok()) *failure = why;
}

// Takes a file that could not be written out of the window, which is then no good dataset. The
// last good version of the name, in the cache or in the prefix directory, stays.
void Session::drop_failed(const std::string& absolute) {
  const Status why = file_in_window(absolute)->failure;
  window_is_incomplete_ = true;
  log::error("'{}' is dropped, for it could not be written: {}; an older file of that name stays",
             absolute, why.message());
  Status status = forget_file(absolute);
  if (!status.ok()) log::warning("{}", status.message());
}

Status Session::closed(RoutedFile& file, const Status& closed_status) {
  using Role = RoutedFile::Role;
  if (getpid() != pid_ || file.role() == Role::kReader || file.role() == Role::kUpdater) return {};
  std::unique_lock lock(mutex_);
  if (file.role() == Role::kLive) return closed_live(file);
  std::erase(writers_, &file);
  if (!runtime_) return {};
  if (file.role() == Role::kPlain) {
    if (file.counted_by_ != nullptr) count_close(file.counted_by_, lock);
    return {};
  }
  WindowFile* known = file_in_window(file.absolute_);
  if (known != nullptr && known->failure.ok()) known->failure = closed_status;
  const config::RouteRule* rule = known != nullptr ? known->route.rule : nullptr;
  const bool last_close = known != nullptr && --known->open == 0;
  if (last_close) {
    if (!known->failure.ok()) {
      drop_failed(file.absolute_);
    } else {
      auto info = fs_.info(known->path);
      if (info.ok()) report_.count_bytes(info->size);
      publish(known->marker, known->path);
      known->presence.reset();  // not before there is a marker to be found
    }
    ++closed_in_all_;
    count_close(rule, lock);
  }
  if (attached_) return {};
  Status status;
  if (!writers_.empty() && last_close) status = closed_beside_others(file.absolute_);
  if (!writers_.empty()) return status;
  if (window_.empty()) window_is_incomplete_ = false;  // nobody else has files in it
  if (has_something_to_seal()) seal();
  return status;
}

// Of a file of the window, or of one that was moved to its name while it was open: the user has
// said how many files every rank closes (COMPLETE=CLOSE), and the others count that one too.
void Session::count_close(const config::RouteRule* rule, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t closes = ++closes_[rule];
  const bool counts = attached_ && rule != nullptr && rule->complete_files > 0;
  if (counts && closes == rule->complete_files) seal_at_close(lock);
}

// In a process by itself. What is not sealed is lost if the process is killed, and those that are
// open may stay open for the whole run; so a closed file does not wait for them in the cache.
// SCR_FLUSH=0: the user wants it there.
Status Session::closed_beside_others(const std::string& absolute) {
  const bool waits = file_in_window(absolute) != nullptr && config()->get_uint("SCR_FLUSH") != 0;
  const Status status = waits ? bring_to_name(absolute) : Status();
  for (RoutedFile* open : writers_) ++open->passed_;
  move_passed_files();
  return status;
}

// Nobody tells a process by itself of its renames if it has no preload. A marker that the system
// renames could take the place of a good file, with the data in this node's memory only; so files
// are at their names when they are closed. SCR_FLUSH=0: the user wants them in the cache.
bool Session::must_be_at_names() {
  return !attached_ && !names_are_watched_ && config()->get_uint("SCR_FLUSH") != 0;
}

}  // namespace scr::routing
