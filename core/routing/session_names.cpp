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

namespace scr::routing {

Status Session::remove(std::string_view name) {
  auto handled = unlinked(name);
  SCR_RETURN_IF_ERROR(handled.status());
  return *handled ? Status() : fs_.remove(std::string(name));
}

// Who deletes all that he has found in a directory may have found the copy of a flush that has
// ended since.
bool Session::is_ended_copy(const std::string& absolute) {
  const bool is_copy = !flush::temporary_ending(absolute.substr(absolute.rfind('/') + 1)).empty();
  return is_copy && fs_.info(absolute).status().code() == StatusCode::kNotFound;
}

Result<bool> Session::unlinked(std::string_view name) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  std::string absolute = names_.absolute_name(name);
  const Route route = names_.route_of(absolute);
  if (!route.relative.empty() && is_ended_copy(absolute)) return true;
  if (!route.routed()) return false;
  absolute = prefix() + "/" + route.relative;
  if (is_link(absolute)) return false;  // the link goes, and what it leads to stays
  given_.forget(route.relative);
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
    const Route route = names_.route_of(names_.file_at(name));
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

// Several processes have it open for writing: this one among them, or others that have synced it.
bool Session::is_open_shared(const Copy& copy, const Route& route) {
  const auto known = shared_window_.find(prefix() + "/" + route.relative);
  if (known != shared_window_.end()) return known->second.open;
  const bool written_now = copy.where == Copy::Where::kShared && copy.dataset == runtime_->window();
  if (!written_now) return false;
  // Who has it open has claimed its name.
  const auto rank = static_cast<std::uint64_t>(runtime_->context().rank());
  const std::uint64_t owner = (rank << 32U) + ++claims_;
  const auto claimed = services_.homes()->claim(route.relative, owner);
  if (claimed.ok() && *claimed) (void)services_.homes()->release(route.relative, owner);
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

// The data becomes a new version of the other name, in this window; a real file that has the name
// stays until that is flushed.
Result<bool> Session::renamed_in_cache(const Copy& copy, const Route& old_route,
                                       const Copy& replaced, const Route& route) {
  const std::string old_name = prefix() + "/" + old_route.relative;
  const std::string new_name = prefix() + "/" + route.relative;
  // Before a new window makes room for itself.
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, old_name));
  if (!start_alone() || !open_window()) return false;
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

Result<bool> Session::renamed(std::string_view from, std::string_view to, Rename how) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  const Route route = names_.route_of(names_.absolute_name(to));
  if (how == Rename::kNoReplace) SCR_RETURN_IF_ERROR(refuse_if_there(route, to));
  if (how == Rename::kExchange) {
    SCR_RETURN_IF_ERROR(exchange(from, to));
    return false;
  }
  SCR_ASSIGN_OR_RETURN(const bool directory, directory_leaves(names_.absolute_name(from)));
  if (directory) {
    if (!route.relative.empty())
      SCR_RETURN_IF_ERROR(
          outlive_deleted(fs_, prefix(), names_.absolute_name(from), route.relative));
    return false;
  }
  const Route old_route = names_.route_of(names_.absolute_name(from));
  given_.forget(route.relative);
  given_.forget(old_route.relative);
  const bool link = is_link(names_.absolute_name(from));
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
      return renamed_away(copy, old_route, old_name, names_.absolute_name(to));
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
  return renamed_in_cache(copy, old_route, replaced, route);
}

}  // namespace scr::routing
