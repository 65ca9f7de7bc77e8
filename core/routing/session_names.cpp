// Names of routed files that the program changes by other means than opening: delete, truncate,
// rename.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/log.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/session.hpp"
#include "flush/flush.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::routing {

Status Session::remove(std::string_view name) {
  auto handled = unlinked(name);
  SCR_RETURN_IF_ERROR(handled.status());
  return *handled ? Status() : fs_.remove(std::string(name));
}

Result<bool> Session::unlinked(std::string_view name) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  std::string absolute = absolute_name(name);
  const Route route = route_of(absolute);
  if (!route.routed()) return false;
  absolute = prefix() + "/" + route.relative;
  if (is_link(absolute)) return false;  // the link goes, and what it leads to stays
  forget_live(absolute);
  SCR_ASSIGN_OR_RETURN(const Copy copy, find_to_change(route, absolute));
  const auto known = shared_window_.find(absolute);
  const bool open = known != shared_window_.end() && known->second.open;
  if (open) {
    // It is dropped when the window is sealed; until then those that have it open may go on.
    known->second.gone = true;
    std::uint64_t& generation = dropped_shared_[route.relative];
    generation = std::max(generation, known->second.marker.generation + 1);
  }
  if (copy.lost) {
    if (copy.marker.file == route.relative) SCR_RETURN_IF_ERROR(markers_->drop(copy.marker));
  } else if (copy.where == Copy::Where::kNowhere) {
    if (renamed_.contains(absolute)) return true;  // it has left, what is there goes at the seal
    if (!open) hide(absolute);
    return open;
  } else if (copy.where == Copy::Where::kPlain) {
    SCR_RETURN_IF_ERROR(let_go_older(copy, route, absolute));
    return false;
  } else {
    SCR_RETURN_IF_ERROR(let_go(copy, route, absolute));
  }
  end_renames_to(absolute);
  seal_if_all_closed();
  // An older file at the name goes by the system call.
  auto info = fs_.info(absolute);
  return info.status().code() == StatusCode::kNotFound;
}

Result<bool> Session::truncated(std::string_view name, std::uint64_t size) {
  if (passive()) return false;
  {
    std::lock_guard lock(mutex_);
    if (config() == nullptr || off_) return false;
    const Route route = route_of(file_at(name));
    if (!route.routed()) return false;
    const std::string absolute = prefix() + "/" + route.relative;
    SCR_RETURN_IF_ERROR(refuse_if_live(absolute, "changed in size"));
    SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, absolute));
    if (copy.lost) return no_data(absolute, copy.marker);
    SCR_RETURN_IF_ERROR(refuse_if_open(copy, route, "changed in size"));
    if (copy.where == Copy::Where::kNowhere || copy.where == Copy::Where::kPlain) return false;
  }
  SCR_ASSIGN_OR_RETURN(Opened opened, open(name, OpenOptions::read_write()));
  Status status = opened.file->truncate(size);
  const Status closed = opened.file->close();
  if (status.ok()) status = closed;
  if (!status.ok()) return status;
  return true;
}

// The program has deleted or renamed a file: its cached copies, older ones too, are no longer to be
// found, and no flush brings them to the name.
Status Session::let_go(const Copy& copy, const Route& route, const std::string& absolute) {
  const bool in_window = is_in_window(copy, absolute);
  if (in_window) SCR_RETURN_IF_ERROR(let_go_in_window(copy, route, absolute));
  return let_go_older(in_window ? Copy() : copy, route, absolute);
}

// Of this process, or of several.
bool Session::is_in_window(const Copy& copy, const std::string& absolute) {
  return file_in_window(absolute) != nullptr ||
         (copy.where == Copy::Where::kShared && copy.dataset == runtime_->window());
}

Status Session::let_go_in_window(const Copy& copy, const Route& route,
                                 const std::string& absolute) {
  if (file_in_window(absolute) != nullptr) {
    detach_writers(absolute);
    return forget_file(absolute);
  }
  // The other processes learn of it when the window is sealed.
  std::uint64_t& generation = dropped_shared_[route.relative];
  generation = std::max(generation, copy.generation + 1);
  const auto known = shared_window_.find(absolute);
  if (known != shared_window_.end() && !known->second.open) forget_shared(absolute);
  return markers_->drop(copy.marker);
}

// Who has a deleted file open goes on to write a file without a name.
void Session::detach_writers(const std::string& absolute) {
  std::erase_if(writers_, [&](RoutedFile* file) {
    if (file->absolute_ != absolute) return false;
    const std::unique_lock alone(file->mutex_);
    file->role_ = RoutedFile::Role::kPlain;
    return true;
  });
}

// A process by itself: the others of the window need not wait for a file that has been deleted.
void Session::seal_if_all_closed() {
  if (attached_ || !runtime_ || !writers_.empty()) return;
  if (window_.empty()) window_is_incomplete_ = false;
  if (has_something_to_seal()) seal();
}

Status Session::let_go_older(const Copy& copy, const Route& route, const std::string& absolute) {
  if (renamed_.contains(absolute)) return {};  // when the window is sealed
  SCR_ASSIGN_OR_RETURN(const Older older, older_versions(copy, route.relative));
  hide(absolute);
  for (const auto& [dataset, written] : older.unflushed) gone_[dataset][route.relative] = written;
  if (older.note) SCR_RETURN_IF_ERROR(markers_->bury(*older.note));
  if (!runtime_) return {};
  // What waits for the end of a flush, which goes by the note: the directory may go next.
  for (const CachedDataset& one : runtime_->cached()) {
    if (!older.unflushed.contains(one.dataset.id)) continue;
    SCR_RETURN_IF_ERROR(
        fs_.remove_if_exists(prefix() + "/" + flush::temporary_name(route.relative, one.dataset)));
  }
  return {};
}

// What is in a container stays there when the program deletes it.
std::optional<Marker> Session::stored_version(const std::string& relative) {
  const auto location = flush::locate(fs_, prefix(), relative);
  if (!location.ok() || !location->file.contained()) return std::nullopt;
  Marker marker;
  marker.file = relative;
  marker.dataset = location->dataset.id;
  marker.created = location->dataset.created;
  marker.container = true;
  return marker;
}

// `copy`: the newest one, if its marker is not there any more.
Result<Session::Older> Session::older_versions(const Copy& copy, const std::string& relative) {
  note_flushed();
  Older older;
  SCR_ASSIGN_OR_RETURN(older.before, markers_->find_note(relative));
  SCR_ASSIGN_OR_RETURN(const auto marker, markers_->find(relative));
  static const std::vector<CachedDataset> kNone;
  for (const CachedDataset& one : runtime_ ? runtime_->cached() : kNone) {
    const int id = one.dataset.id;
    auto info = fs_.info(runtime_->cached_directory(id) + "/" + relative);
    if (is_flushed(id) || !info.ok() || info->type != FileInfo::Type::kRegular) continue;
    older.unflushed[id] = info->mtime_ns;
    older.note = make_marker(relative, id, one.dataset.created, 0, 0);
    older.note->written = info->mtime_ns;
  }
  for (const std::optional<Marker>& known : {older.before, marker, std::optional(copy.marker)}) {
    if (known && known->file == relative) SCR_RETURN_IF_ERROR(add_marked(*known, older));
  }
  const auto stored = stored_version(relative);
  if (stored && (!older.note || older.note->created < stored->created)) older.note = stored;
  return older;
}

// A version that may be on another node, or of another process.
Status Session::add_marked(Marker marker, Older& older) {
  const bool has_window = runtime_ && runtime_->window() != 0;
  const bool in_window =
      has_window && !marker.container && marker.created == runtime_->window_dataset().created;
  // The note of a file of this process goes with the file.
  if (in_window && file_in_window(prefix() + "/" + marker.file) != nullptr) return {};
  if (older.note && marker.created < older.note->created) return {};
  const bool ours =
      runtime_ && std::ranges::any_of(runtime_->cached(), [&](const CachedDataset& one) {
        return one.dataset.id == marker.dataset && one.dataset.created == marker.created;
      });
  if (ours && !marker.container && is_flushed(marker.dataset)) {
    if (!config()->get_bool("SCR_USE_CONTAINERS")) return markers_->drop(marker);
    marker.container = true;
  }
  if ((ours || in_window) && !marker.container) {
    older.unflushed.try_emplace(marker.dataset, marker.written);
  }
  older.note = std::move(marker);
  return {};
}

std::int64_t Session::time_written(const Copy& copy, const std::string& absolute) {
  auto info = copy.where == Copy::Where::kCache   ? fs_.info(copy.path)
              : copy.where == Copy::Where::kPlain ? fs_.info(absolute, /*follow=*/true)
                                                  : Result<FileInfo>(not_found("not here"));
  return info.ok() ? info->mtime_ns : copy.marker.written;
}

// The data of a renamed file is in the window now, and a dataset before may have it under the old
// name. That is let go when the window is sealed: a run that is killed before has it there.
Status Session::let_go_when_sealed(const Copy& copy, const Route& route, const std::string& from,
                                   const std::string& to) {
  for (auto& [name, renamed] : renamed_) {
    if (renamed.to == from) renamed.to = to;
  }
  Copy before = copy;
  if (is_in_window(copy, from)) {
    SCR_RETURN_IF_ERROR(let_go_in_window(copy, route, from));
    if (renamed_.contains(from)) return {};
    SCR_ASSIGN_OR_RETURN(before, find(route, from));
    if (before.where == Copy::Where::kNowhere) return {};
  } else if (copy.dataset == runtime_->window()) {
    return let_go(copy, route, from);
  }
  if (before.where == Copy::Where::kPlain) before.dataset = before.marker.dataset;
  renamed_[from] = {before, route, to, time_written(before, from)};
  // The next run finds what is in the cache without a note.
  const bool cached = before.where != Copy::Where::kStored && !before.marker.container;
  return cached && before.marker.file == route.relative ? markers_->drop(before.marker) : Status();
}

// The file had this name, and has left it in this window; nobody has written one anew.
const Session::Renamed* Session::renamed_before(const std::string& absolute,
                                                const std::optional<Marker>& marker) {
  const auto found = renamed_.find(absolute);
  if (found == renamed_.end() || file_in_window(absolute) != nullptr ||
      shared_window_.contains(absolute)) {
    return nullptr;
  }
  const bool anew = marker && marker->dataset > found->second.copy.dataset;
  return anew ? nullptr : &found->second;
}

// The window has been sealed, or has failed, and then the old names hold again.
void Session::end_renames(bool sealed, const std::set<std::string>& written_again) {
  const auto renames = std::exchange(renamed_, {});
  for (const auto& [from, renamed] : renames) {
    if (sealed) {
      if (!written_again.contains(from)) end_rename(from, renamed);
    } else if (!renamed.copy.marker.file.empty()) {
      Status status = markers_->put(renamed.copy.marker, markers_visible());
      if (!status.ok()) log::warning("{}", status.message());
    }
  }
}

// What had other names before has been deleted.
void Session::end_renames_to(const std::string& absolute) {
  for (auto one = renamed_.begin(); one != renamed_.end();) {
    if (one->second.to != absolute) {
      ++one;
      continue;
    }
    const auto ended = *one;
    one = renamed_.erase(one);
    if (file_in_window(ended.first) == nullptr) end_rename(ended.first, ended.second);
  }
}

void Session::end_rename(const std::string& from, const Renamed& renamed) {
  Copy copy = renamed.copy;
  const auto now = markers_->find(renamed.route.relative);
  if (now.ok() && *now && (*now)->dataset > copy.dataset) return;  // another process wrote it anew
  const bool flushed = is_flushed(copy.dataset);
  const bool cached = std::ranges::any_of(
      runtime_->cached(), [&](const CachedDataset& one) { return one.dataset.id == copy.dataset; });
  const bool plain = copy.where == Copy::Where::kPlain;
  if (copy.where != Copy::Where::kStored && !plain && !flushed && !cached) return;
  const bool containers = config()->get_bool("SCR_USE_CONTAINERS");
  if (flushed && containers && !copy.marker.file.empty()) copy.marker.container = true;
  Status status = let_go_older(copy, renamed.route, from);
  if (status.ok()) {  // also where the flushed one is of a dataset before
    Marker old;
    old.file = renamed.route.relative;
    old.written = renamed.written;
    status = take_away(fs_, prefix(), old);
  }
  if (!status.ok()) log::warning("{}", status.message());
}

// Several processes have it open for writing: this one among them, or others that have synced it.
bool Session::is_open_shared(const Copy& copy, const Route& route) {
  const auto known = shared_window_.find(prefix() + "/" + route.relative);
  if (known != shared_window_.end()) return known->second.open;
  const bool written_now = copy.where == Copy::Where::kShared && copy.dataset == runtime_->window();
  if (!written_now) return false;
  // Who has it open has claimed its name.
  const auto rank = static_cast<std::uint64_t>(runtime_->context().rank());
  const std::uint64_t owner = (rank << 32U) + ++claims_;
  const auto claimed = homes_->claim(route.relative, owner);
  if (claimed.ok() && *claimed) (void)homes_->release(route.relative, owner);
  return claimed.ok() && !*claimed;
}

// They would go on to write what nobody gets.
Status Session::refuse_if_open(const Copy& copy, const Route& route, std::string_view what) {
  if (!is_open_shared(copy, route)) return {};
  return {StatusCode::kFailedPrecondition,
          fmt::format("'{}/{}' cannot be {}: several processes have it open for writing; close it "
                      "before",
                      prefix(), route.relative, what),
          EBUSY};
}

void Session::hide(const std::string& absolute) {
  if (!runtime_) return;
  const auto& cached = runtime_->cached();
  const int newest = cached.empty() ? 0 : cached.back().dataset.id;
  hidden_[absolute] = runtime_->window() != 0 ? runtime_->window() : newest;
}

// What is at the name is this copy, flushed.
bool Session::is_at_name(const Copy& copy, const std::string& absolute) {
  if (copy.where == Copy::Where::kPlain) return true;
  if (copy.where != Copy::Where::kCache || !runtime_ || !runtime_->is_in_prefix(copy.dataset)) {
    return false;
  }
  auto info = fs_.info(absolute, /*follow=*/true);
  auto marker = read_marker(fs_, absolute);
  return info.ok() && marker.ok() && !*marker;
}

// To a name that is not routed: the system call would move the marker, and the data would come to
// the old name.
Result<bool> Session::renamed_away(const Copy& copy, const Route& route, const std::string& from,
                                   const std::string& to) {
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, from));
  SCR_RETURN_IF_ERROR(
      write_at_name(*source, to, 0).status().with_context("while renaming a file in the cache"));
  SCR_RETURN_IF_ERROR(let_go(copy, route, from));
  SCR_RETURN_IF_ERROR(fs_.remove_if_exists(from));  // an older version
  return true;
}

// Its name has a newer file now, in the prefix directory; a flush keeps that.
void Session::forget_replaced(const Copy& replaced, const std::string& absolute) {
  hide(absolute);
  if (replaced.marker.file.empty() || replaced.marker.container) return;
  Status status = markers_->drop(replaced.marker);
  if (!status.ok()) log::warning("{}", status.message());
}

bool Session::is_link(const std::string& absolute) {
  auto info = fs_.info(absolute);
  return info.ok() && info->type == FileInfo::Type::kSymlink;
}

// If there is more of a name than what is at it, this process has to start to change that.
Result<Session::Copy> Session::find_to_change(const Route& route, const std::string& absolute) {
  SCR_ASSIGN_OR_RETURN(Copy copy, find(route, absolute));
  const bool plain = copy.where == Copy::Where::kPlain || copy.where == Copy::Where::kNowhere;
  const bool nothing = plain && (copy.lost || copy.marker.file.empty());
  if (runtime_ || nothing || !start_alone()) return copy;
  return find(route, absolute);
}

// What was renamed from this name is in the window under its new one, and would be lost with it,
// for another file takes the old name now: it goes to its name.
Status Session::save_renamed(const std::string& absolute) {
  const auto found = renamed_.find(absolute);
  if (found == renamed_.end()) return {};
  auto renamed = renamed_.extract(found);
  const WindowFile* file = file_in_window(renamed.mapped().to);
  if (file == nullptr || file->open > 0) return {};
  const std::string to = renamed.mapped().to;
  Status status = bring_to_name(to);
  if (!status.ok()) renamed_.insert(std::move(renamed));
  return status;
}

// A rename for the system. If the data of the target is elsewhere it is done here: a note about
// that data holds from the very instant at which another file has the name.
Result<bool> Session::replace_at_name(std::string_view from, std::string_view to,
                                      const Route& route, const Copy& replaced) {
  const std::string absolute = prefix() + "/" + route.relative;
  SCR_RETURN_IF_ERROR(save_renamed(absolute));
  if (replaced.lost && replaced.marker.file == route.relative) {
    SCR_RETURN_IF_ERROR(markers_->drop(replaced.marker));
  }
  const bool in_window = is_in_window(replaced, absolute);
  SCR_ASSIGN_OR_RETURN(const Older older,
                       older_versions(in_window ? Copy() : replaced, route.relative));
  if (!older.note && !in_window) {
    hide(absolute);
    return false;
  }
  if (older.note) SCR_RETURN_IF_ERROR(markers_->bury_replaced(*older.note));
  if (!fs_.rename(std::string(from), std::string(to)).ok()) {
    Status back = older.before ? markers_->put(*older.before, MarkerStore::Visible::kNo)
                  : older.note ? markers_->forget_deletion(route.relative, older.note->dataset)
                               : Status();
    SCR_RETURN_IF_ERROR(back);
    return false;  // for the system to say
  }
  hide(absolute);
  for (const auto& one : older.unflushed) gone_[one.first][route.relative] = kReplaced;
  if (in_window) SCR_RETURN_IF_ERROR(let_go_in_window(replaced, route, absolute));
  end_renames_to(absolute);
  return true;
}

// A file that is not routed, or a link, gets the name of one that is.
Result<bool> Session::replaced_by(std::string_view from, std::string_view to, const Route& route) {
  if (!fs_.info(std::string(from)).ok()) return false;  // for the system to say
  const std::string absolute = prefix() + "/" + route.relative;
  forget_live(absolute);
  SCR_ASSIGN_OR_RETURN(const Copy replaced, find_to_change(route, absolute));
  SCR_RETURN_IF_ERROR(refuse_if_open(replaced, route, "replaced"));
  SCR_ASSIGN_OR_RETURN(const bool done, replace_at_name(from, to, route, replaced));
  seal_if_all_closed();
  return done;
}

Result<bool> Session::renamed(std::string_view from, std::string_view to, Rename how) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  const Route route = route_of(absolute_name(to));
  if (how == Rename::kNoReplace) SCR_RETURN_IF_ERROR(refuse_if_there(route, to));
  if (how == Rename::kExchange) {
    SCR_RETURN_IF_ERROR(exchange(from, to));
    return false;
  }
  SCR_ASSIGN_OR_RETURN(const bool directory, directory_leaves(absolute_name(from)));
  if (directory) {
    if (!route.relative.empty())
      SCR_RETURN_IF_ERROR(outlive_deleted(fs_, prefix(), absolute_name(from), route.relative));
    return false;
  }
  const Route old_route = route_of(absolute_name(from));
  const bool link = is_link(absolute_name(from));
  if (!old_route.routed() || link) {
    return route.routed() ? replaced_by(from, to, route) : Result<bool>(false);
  }
  const std::string old_name = prefix() + "/" + old_route.relative;
  SCR_RETURN_IF_ERROR(refuse_if_live(old_name, "renamed"));
  SCR_RETURN_IF_ERROR(move_open_file_to_name(old_name, "renamed"));
  SCR_ASSIGN_OR_RETURN(const Copy copy, find_to_change(old_route, old_name));
  if (copy.lost) return no_data(old_name, copy.marker);
  SCR_RETURN_IF_ERROR(refuse_if_open(copy, old_route, "renamed"));
  if (copy.where == Copy::Where::kNowhere && renamed_.contains(old_name)) {
    return errno_status(ENOENT, "rename", old_name);
  }
  if (copy.where == Copy::Where::kNowhere) return false;  // for the system to say
  if (!route.routed()) {
    if (!is_at_name(copy, old_name)) {
      return renamed_away(copy, old_route, old_name, absolute_name(to));
    }
    SCR_RETURN_IF_ERROR(let_go_older(copy, old_route, old_name));
    return false;
  }
  const std::string new_name = prefix() + "/" + route.relative;
  if (old_name == new_name) return false;
  forget_live(new_name);
  SCR_ASSIGN_OR_RETURN(const Copy replaced, find_to_change(route, new_name));
  SCR_RETURN_IF_ERROR(refuse_if_open(replaced, route, "replaced"));
  const bool is_free = replaced.where == Copy::Where::kNowhere || is_at_name(replaced, new_name);
  if (copy.where == Copy::Where::kPlain || (is_free && is_at_name(copy, old_name))) {
    SCR_ASSIGN_OR_RETURN(const bool done, replace_at_name(from, to, route, replaced));
    SCR_RETURN_IF_ERROR(let_go_older(copy, old_route, old_name));
    seal_if_all_closed();
    return done;
  }
  // Before a new window makes room for itself.
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, old_name));
  if (!start_alone() || !open_window()) return false;
  // The data becomes a new version of the other name, in this window; a real file that has the name
  // stays until that is flushed.
  auto target = open_in_window(route, new_name, replaced.generation + 1, InWindow::kAnew,
                               [](File& file) { return file.truncate(0); });
  Status status = target.ok() ? copy_contents(*source, **target) : target.status();
  if (status.ok()) status = (*target)->close();
  if (!status.ok()) {
    if (target.ok()) target->reset();  // its room may be what the filemap needs
    const Status forgotten = forget_file(new_name);
    if (!forgotten.ok()) log::warning("{}", forgotten.message());
    if (status.code() != StatusCode::kNoSpace || runtime_->window_bypasses())
      return status.with_context("while renaming a file in the cache");
    auto renamed = renamed_away(copy, old_route, old_name, new_name);
    if (renamed.ok()) {
      tell_no_room(new_name);
      forget_replaced(replaced, new_name);
    }
    return renamed;
  }
  const WindowFile* renamed = file_in_window(new_name);
  publish(renamed->marker, renamed->path);
  leave_window(new_name);
  SCR_RETURN_IF_ERROR(let_go_when_sealed(copy, old_route, old_name, new_name));
  if (!attached_ && writers_.empty()) seal();
  return true;
}

}  // namespace scr::routing
