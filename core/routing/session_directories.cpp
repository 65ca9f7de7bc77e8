// Names that the program changes in ways that a version in the cache cannot follow: hard links,
// exchanges, renames of whole directories and of open files, commands. The files concerned leave
// h5scr for their names first, where the system does the rest.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/base/log.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

namespace {

Status is_open(const std::string& absolute, std::string_view what) {
  return {StatusCode::kFailedPrecondition,
          fmt::format("'{}' cannot be {}: it is open for writing more than once; close it before",
                      absolute, what),
          EBUSY};
}

bool is_below(std::string_view relative, std::string_view directory) {
  return relative.size() > directory.size() && relative.starts_with(directory) &&
         relative[directory.size()] == '/';
}

}  // namespace

// A file that this process has open for writing lives at its name from here on.
Status Session::move_open_file_to_name(const std::string& absolute, std::string_view what) {
  const WindowFile* known = file_in_window(absolute);
  if (known == nullptr || known->open == 0) return {};
  if (!known->failure.ok()) return known->failure;  // the last good version keeps the name
  const auto file = std::ranges::find_if(
      writers_, [&](const RoutedFile* one) { return one->absolute_ == absolute; });
  if (file == writers_.end() || known->open > 1 || !is_alone_with(**file))
    return is_open(absolute, what);
  report_.warn_once(
      fmt::format("'{}' is {} while it is open", absolute, what),
      "it is written at its name from now on, without protection; close a file before, to "
      "have it protected");
  return move_to_name(**file);
}

// The newest version comes to its name.
Status Session::bring(const Route& route, const std::string& absolute, std::string_view what,
                      Cached cached) {
  SCR_RETURN_IF_ERROR(refuse_if_live(absolute, what));
  SCR_RETURN_IF_ERROR(move_open_file_to_name(absolute, what));
  SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, absolute));
  SCR_RETURN_IF_ERROR(refuse_if_open(copy, route, what));
  if (copy.where == Copy::Where::kNowhere || is_at_name(copy, absolute)) return {};
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, absolute));
  SCR_ASSIGN_OR_RETURN(auto target, write_at_name(*source, absolute, 0));
  const std::int64_t written = time_written(copy, absolute);
  if (cached == Cached::kStays) {
    target->set_time(written);  // as a flush does, which brings the same
    return target->close();
  }
  SCR_RETURN_IF_ERROR(make_newest(*target, written));
  SCR_RETURN_IF_ERROR(target->close());
  SCR_RETURN_IF_ERROR(let_go(copy, route, absolute));
  hide(absolute);
  return {};
}

// Before a rename: nothing is found under the name any more but what is there, and no
// flush brings anything back.
Status Session::leave_name(const std::string& relative, std::string_view what) {
  const std::string absolute = prefix() + "/" + relative;
  const Route route = names_.route_of(absolute);
  if (!route.routed()) return {};
  SCR_RETURN_IF_ERROR(bring(route, absolute, what, Cached::kGoes));
  SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, absolute));
  hide(absolute);
  // Older ones, that are not flushed yet.
  return runtime_ ? let_go_older(copy, route, absolute) : Status();
}

Status Session::refuse_if_there(const Route& route, std::string_view to) {
  auto info = fs_.info(std::string(to));
  bool there = info.ok();
  if (!there && route.routed()) {
    SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, prefix() + "/" + route.relative));
    there = copy.where != Copy::Where::kNowhere;
  }
  // In silence, as the system does: it is how commands ask.
  return there ? errno_status(EEXIST, "rename to", std::string(to)) : Status();
}

Status Session::exchange(std::string_view from, std::string_view to) {
  for (const std::string_view name : {from, to}) {
    const std::string absolute = names_.absolute_name(name);
    SCR_ASSIGN_OR_RETURN(const bool directory, directory_leaves(absolute));
    const Route route = names_.route_of(absolute);
    if (directory || !route.routed()) continue;
    SCR_RETURN_IF_ERROR(leave_name(route.relative, "exchanged"));
    SCR_RETURN_IF_ERROR(make_newest(fs_, absolute));
  }
  return {};
}

Result<bool> Session::linked(std::string_view from, std::string_view to) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  const Route route = names_.route_of(names_.absolute_name(from));
  if (!route.routed()) return false;
  const std::string absolute = prefix() + "/" + route.relative;
  auto info = fs_.info(absolute);
  // A symbolic link gets another name itself, and so does what is no file.
  if (info.ok() && info->type != FileInfo::Type::kRegular) return false;
  const Route new_route = names_.route_of(names_.absolute_name(to));
  SCR_RETURN_IF_ERROR(refuse_if_there(new_route, to));
  SCR_RETURN_IF_ERROR(bring(route, absolute, "linked", Cached::kStays));
  if (!new_route.routed()) return false;
  hide(prefix() + "/" + new_route.relative);
  SCR_ASSIGN_OR_RETURN(const auto deleted, markers_->find_deletion(new_route.relative));
  if (deleted) SCR_RETURN_IF_ERROR(make_newest(fs_, absolute));
  return false;
}

// Another program sees names, and would move or copy a marker. What is open stays where it is.
void Session::starts_command(std::string_view command) {
  if (passive() || is_sealing()) return;
  std::lock_guard lock(mutex_);
  if (!runtime_ || off_) return;
  given_.start_command();
  const CommandWords words(command);
  for (const std::string& name : names_of_ours()) {
    if (!words.may_mean(name)) continue;
    const std::string absolute = prefix() + "/" + name;
    const Route route = names_.route_of(absolute);
    if (is_open_here(absolute) || !route.routed()) continue;
    Status status = bring(route, absolute, "given to a command", Cached::kStays);
    auto copy = find(route, absolute);
    if (status.ok()) status = copy.status();
    if (!status.ok()) log::warning("{}", status.message());
    auto info = fs_.info(absolute);
    if (status.ok() && info.ok()) {
      given_.add(name, {info->inode, info->mtime_ns, copy->dataset});
    }
  }
}

bool Session::is_open_here(const std::string& absolute) {
  const WindowFile* mine = file_in_window(absolute);
  return (mine != nullptr && mine->open > 0) || live_.contains(absolute);
}

// Commands may run beside the program, which goes on to write files that it has given to them, and
// its flushes end: what is at the name then is not what the command has put there.
Result<bool> Session::has_changed(const GivenFiles::Given& given, const std::string& absolute) {
  if (is_open_here(absolute)) return false;
  auto info = fs_.info(absolute);
  if (info.ok() && given.is(*info)) return false;
  SCR_ASSIGN_OR_RETURN(const Copy newest, find(names_.route_of(absolute), absolute));
  const bool elsewhere =
      newest.where != Copy::Where::kNowhere && newest.where != Copy::Where::kPlain;
  return !elsewhere || newest.dataset == given.dataset;
}

// What the command has moved or deleted is not found any more, and does not come again.
Status Session::settle_given(const std::string& name, const GivenFiles::Given& given) {
  const std::string absolute = prefix() + "/" + name;
  SCR_ASSIGN_OR_RETURN(const bool changed, has_changed(given, absolute));
  if (!changed) return {};
  auto info = fs_.info(absolute);
  if (info.ok() && info->type == FileInfo::Type::kRegular) {  // another file has the name
    SCR_RETURN_IF_ERROR(make_newest(fs_, absolute));
  } else if (info.status().code() == StatusCode::kNotFound) {
    const Route route = names_.route_of(absolute);
    SCR_ASSIGN_OR_RETURN(const Copy gone, find(route, absolute));
    if (gone.where != Copy::Where::kNowhere) SCR_RETURN_IF_ERROR(let_go(gone, route, absolute));
    hide(absolute);
  } else {
    SCR_RETURN_IF_ERROR(info.status());
  }
  return leave_name(name, "given to a command");
}

void Session::ends_command() {
  if (passive() || is_sealing()) return;
  std::lock_guard lock(mutex_);
  if (!runtime_ || off_ || !given_.has_commands()) return;
  const GivenFiles::ByName all = given_.all();
  for (const auto& [name, given] : all) {
    Status status = settle_given(name, given);
    if (!status.ok()) log::warning("{}", status.message());
  }
  given_.end_command();
}

// Relative names of files whose data may be elsewhere than at the name: of this process, and those
// of others that have a note.
std::set<std::string> Session::names_of_ours() {
  std::set<std::string> names;
  const auto add = [&](const auto& files) {
    for (const auto& [absolute, file] : files) names.insert(absolute.substr(prefix().size() + 1));
  };
  add(window_);
  add(shared_window_);
  add(live_);
  Status status = markers().each([&](const Marker& marker) {
    if (!marker.gone) names.insert(marker.file);
  });
  if (!status.ok()) log::warning("{}", status.message());
  if (!runtime_) return names;
  for (const CachedDataset& cached : runtime_->cached()) {
    for (const FilemapEntry* entry : runtime_->own_entries(cached.dataset)) {
      for (const FileMeta& meta : entry->files) {
        const auto gone_then = gone_.find(cached.dataset.id);
        const bool gone = gone_then != gone_.end() && gone_then->second.contains(meta.file);
        if (meta.type == FileType::kFull && meta.shared.empty() && !gone) names.insert(meta.file);
      }
    }
  }
  return names;
}

// The directory gets another name: what belongs below it must be there. False: it is none, or not
// in the prefix directory.
Result<bool> Session::directory_leaves(const std::string& absolute) {
  const std::string directory = names_.route_by_rules(absolute).relative;
  if (directory.empty()) return false;
  auto info = fs_.info(prefix() + "/" + directory);
  if (!info.ok() || info->type != FileInfo::Type::kDirectory) return false;
  for (const std::string& name : names_of_ours()) {
    if (is_below(name, directory)) SCR_RETURN_IF_ERROR(leave_name(name, "renamed"));
  }
  return true;
}

}  // namespace scr::routing
