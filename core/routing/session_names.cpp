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

Result<bool> Session::unlinked(std::string_view name) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  std::string absolute = absolute_name(name);
  const Route route = route_of(absolute);
  if (!route.routed()) return false;
  absolute = prefix() + "/" + route.relative;
  forget_live(absolute);
  SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, absolute));
  const auto known = shared_window_.find(absolute);
  const bool open = known != shared_window_.end() && known->second.open;
  if (open) {
    // It is dropped when the window is sealed; until then those that have it open may go on.
    known->second.gone = true;
    std::uint64_t& generation = dropped_shared_[route.relative];
    generation = std::max(generation, known->second.marker.generation + 1);
  }
  if (copy.lost) {
    SCR_RETURN_IF_ERROR(markers_->drop(copy.marker));
  } else if (copy.where == Copy::Where::kNowhere && open) {
    return true;
  } else if (copy.where == Copy::Where::kNowhere || copy.where == Copy::Where::kPlain) {
    hide(absolute);
    return false;
  } else {
    SCR_RETURN_IF_ERROR(let_go(copy, route, absolute));
  }
  end_renames_to(absolute);
  // An older file at the name goes by the system call.
  auto info = fs_.info(absolute);
  return info.status().code() == StatusCode::kNotFound;
}

Result<bool> Session::truncated(std::string_view name, std::uint64_t size) {
  if (passive()) return false;
  {
    std::lock_guard lock(mutex_);
    if (config() == nullptr || off_) return false;
    const Route route = route_of(absolute_name(name));
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

// The program has deleted or renamed a file: its cached copies are no longer to be found, and what
// a flush still brings to the name goes again.
Status Session::let_go(const Copy& copy, const Route& route, const std::string& absolute) {
  if (file_in_window(absolute) != nullptr) return forget_file(absolute);
  if (copy.where == Copy::Where::kShared && copy.dataset == runtime_->window()) {
    // The other processes learn of it when the window is sealed.
    std::uint64_t& generation = dropped_shared_[route.relative];
    generation = std::max(generation, copy.generation + 1);
    const auto known = shared_window_.find(absolute);
    if (known != shared_window_.end() && !known->second.open) forget_shared(absolute);
    return markers_->drop(copy.marker);
  }
  hide(absolute);
  if (copy.where != Copy::Where::kStored) {
    const std::int64_t written = time_written(copy);
    gone_[copy.dataset][route.relative] = written;
    if (runtime_ && !is_flushed(copy.dataset)) return bury(copy, route, written);
  }
  const bool renamed = !copy.marker.file.empty() && copy.marker.file != route.relative;
  if (copy.where == Copy::Where::kStored && !renamed) return bury_stored(copy, route);
  if (copy.marker.container && !renamed) return markers_->bury(copy.marker);
  return copy.marker.file.empty() ? Status() : markers_->drop(copy.marker);
}

std::int64_t Session::time_written(const Copy& copy) {
  auto cached = copy.where == Copy::Where::kCache ? fs_.info(copy.path)
                                                  : Result<FileInfo>(not_found("not here"));
  return cached.ok() ? cached->mtime_ns : copy.marker.written;
}

// The data of a renamed file is in the window now, and a dataset before may have it under the old
// name. That is let go when the window is sealed: a run that is killed before has it there.
Status Session::let_go_when_sealed(const Copy& copy, const Route& route, const std::string& from,
                                   const std::string& to) {
  for (auto& [name, renamed] : renamed_) {
    if (renamed.to == from) renamed.to = to;
  }
  const bool in_window = file_in_window(from) != nullptr || copy.dataset == runtime_->window();
  if (in_window) return let_go(copy, route, from);
  renamed_[from] = {copy, route, to, time_written(copy)};
  // The next run finds what is in the cache without a note.
  const bool cached = copy.where != Copy::Where::kStored && !copy.marker.container;
  return cached && !copy.marker.file.empty() ? markers_->drop(copy.marker) : Status();
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
    end_rename(one->first, one->second);
    one = renamed_.erase(one);
  }
}

void Session::end_rename(const std::string& from, const Renamed& renamed) {
  Copy copy = renamed.copy;
  const auto now = markers_->find(renamed.route.relative);
  if (now.ok() && *now && (*now)->dataset > copy.dataset) return;  // another process wrote it anew
  const bool flushed = is_flushed(copy.dataset);
  const bool cached = std::ranges::any_of(
      runtime_->cached(), [&](const CachedDataset& one) { return one.dataset.id == copy.dataset; });
  if (copy.where != Copy::Where::kStored && !flushed && !cached) return;
  const bool containers = config()->get_bool("SCR_USE_CONTAINERS");
  if (flushed && containers && !copy.marker.file.empty()) copy.marker.container = true;
  Status status = let_go(copy, renamed.route, from);
  if (status.ok() && flushed) {
    Marker old;
    old.file = renamed.route.relative;
    old.written = renamed.written;
    status = take_away(fs_, prefix(), old);
  }
  if (!status.ok()) log::warning("{}", status.message());
}

// The file stays in its container, and the note says that it is not to be found there any more.
Status Session::bury_stored(const Copy& copy, const Route& route) {
  Marker marker = copy.marker;
  if (marker.file.empty()) {
    marker =
        make_marker(route.relative, copy.dataset, copy.stored->dataset.created, 0, copy.generation);
  }
  marker.container = true;
  return markers_->bury(marker);
}

// The flush that still brings the file to its name may be done by the next run.
Status Session::bury(const Copy& copy, const Route& route, std::int64_t written) {
  if (copy.marker.file != route.relative && !copy.marker.file.empty()) {
    return markers_->drop(copy.marker);  // it was renamed by the system, and is of another name
  }
  const auto& cached = runtime_->cached();
  const auto dataset = std::ranges::find_if(
      cached, [&](const CachedDataset& one) { return one.dataset.id == copy.dataset; });
  Marker marker = copy.marker;
  if (marker.file.empty() || marker.dataset != copy.dataset) {
    if (dataset == cached.end()) return {};
    Status dropped = marker.file.empty() ? Status() : markers_->drop(marker);
    SCR_RETURN_IF_ERROR(dropped);
    marker =
        make_marker(route.relative, copy.dataset, dataset->dataset.created, 0, copy.generation);
  }
  marker.written = written;
  SCR_RETURN_IF_ERROR(markers_->bury(marker));
  // What waits for the end of the flush, which goes by the note: the directory may go next.
  if (dataset == cached.end()) return {};
  return fs_.remove_if_exists(prefix() + "/" +
                              flush::temporary_name(route.relative, dataset->dataset));
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
  if (!old_route.routed()) return false;
  const std::string old_name = prefix() + "/" + old_route.relative;
  SCR_RETURN_IF_ERROR(refuse_if_live(old_name, "renamed"));
  SCR_RETURN_IF_ERROR(move_open_file_to_name(old_name, "renamed"));
  SCR_ASSIGN_OR_RETURN(const Copy copy, find(old_route, old_name));
  if (copy.lost) return no_data(old_name, copy.marker);
  SCR_RETURN_IF_ERROR(refuse_if_open(copy, old_route, "renamed"));
  if (copy.where == Copy::Where::kNowhere) return false;  // for the system to say
  if (!route.routed()) {
    if (!is_at_name(copy, old_name)) {
      return renamed_away(copy, old_route, old_name, absolute_name(to));
    }
    hide(old_name);
    return false;
  }
  const std::string new_name = prefix() + "/" + route.relative;
  if (old_name == new_name) return false;
  forget_live(new_name);
  SCR_ASSIGN_OR_RETURN(const Copy replaced, find(route, new_name));
  SCR_RETURN_IF_ERROR(refuse_if_open(replaced, route, "replaced"));
  const bool is_free = replaced.where == Copy::Where::kNowhere || is_at_name(replaced, new_name);
  if (copy.where == Copy::Where::kPlain || (is_free && is_at_name(copy, old_name))) {
    if (replaced.lost) SCR_RETURN_IF_ERROR(markers_->drop(replaced.marker));
    // A flush under way must not take the file for what it replaces, or for one that was deleted.
    SCR_ASSIGN_OR_RETURN(const auto deleted, markers_->find_deletion(route.relative));
    if (deleted || !is_free) SCR_RETURN_IF_ERROR(make_newest(fs_, old_name));
    hide(old_name);
    hide(new_name);
    return false;
  }
  if (!start_alone() || !open_window()) return false;
  // The data becomes a new version of the other name, in this window; a real file that has the name
  // stays until that is flushed.
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, old_name));
  SCR_ASSIGN_OR_RETURN(auto target,
                       open_in_window(route, new_name, replaced.generation + 1, InWindow::kAnew,
                                      [](File& file) { return file.truncate(0); }));
  Status status = copy_contents(*source, *target);
  if (status.ok()) status = target->close();
  if (!status.ok()) {
    (void)forget_file(new_name);
    return status.with_context("while renaming a file in the cache");
  }
  const WindowFile* renamed = file_in_window(new_name);
  publish(renamed->marker, renamed->path);
  leave_window(new_name);
  SCR_RETURN_IF_ERROR(let_go_when_sealed(copy, old_route, old_name, new_name));
  if (!attached_ && writers_.empty()) seal();
  return true;
}

}  // namespace scr::routing
