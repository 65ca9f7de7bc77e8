// Versions that the program has deleted or renamed away are let go: none of them is found any more,
// and no flush brings one to the name.
#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/session.hpp"
#include "flush/flush.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::routing {

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
  auto left = fs_.info(from);
  renamed_[from] = {before, route, to, time_written(before, from), left.ok() ? left->inode : 0};
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

// What is at the old name is a version that was there already, or that a flush has brought since:
// not a file that another program, or another rank, has moved there.
bool Session::is_left_behind(const FileInfo& info, const Renamed& renamed) {
  return info.inode == renamed.left || is_time_of_copy(info.mtime_ns, renamed.written);
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
  auto there = fs_.info(from);
  Status status = let_go_older(copy, renamed.route, from);
  // Also where the flushed one is of a dataset before.
  const bool left = there.ok() && is_left_behind(*there, renamed);
  if (status.ok() && left && there->mtime_ns <= renamed.written) {
    status = fs_.remove_if_exists(from);
  }
  if (!status.ok()) log::warning("{}", status.message());
}

}  // namespace scr::routing
