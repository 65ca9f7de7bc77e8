// Opening files: where a writer writes, and what passes.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"

namespace scr::routing {

namespace {

bool changes(const OpenOptions& options) { return options.access != OpenOptions::Access::kRead; }

bool makes_new(const OpenOptions& options) { return options.create || options.truncate; }

Result<bool> is_marker(File& file, const FileInfo& info) {
  if (info.type != FileInfo::Type::kRegular || info.size != kMarkerSize) return false;
  std::array<std::byte, kMarkerHeadSize> head{};
  SCR_RETURN_IF_ERROR(file.read_exactly(head, 0));
  return has_marker_head(head);
}

// In a process that h5scr does not serve: nobody is to take the bytes of a marker for the file's.
Result<Session::Opened> unless_marker(Result<Session::Opened> opened, const OpenOptions& options) {
  if (!opened.ok() || options.truncate) return opened;
  SCR_ASSIGN_OR_RETURN(opened->info, opened->file->info());
  if (opened->info->size != kMarkerSize) return opened;
  SCR_RETURN_IF_ERROR(refuse_marker(real_file_system(), opened->file->path()));
  return opened;
}

// A file in a directory that this process cannot write to is changed in place, and no other one can
// take its name.
Status not_replaceable(const std::string& absolute) {
  return {StatusCode::kPermissionDenied,
          fmt::format("cannot write '{}': its data is not at its name, and its directory cannot be "
                      "written to",
                      absolute),
          EACCES};
}

}  // namespace

Status no_data(std::string_view absolute, const Marker& marker) {
  return not_found(
      fmt::format("the data of '{}' is not here: rank {} of job {} wrote it on node {} (dataset "
                  "{}), and it is not in the prefix directory yet",
                  absolute, marker.rank, marker.job, marker.host, marker.dataset));
}

Status no_swmr(std::string_view absolute) {
  return failed_precondition(
      fmt::format("'{}' is routed by h5scr, and a routed file cannot be read while it is written "
                  "(SWMR); exempt it: ROUTE=<name> TYPE=BYPASS",
                  absolute));
}

Result<Session::Opened> Session::open_plain(std::string_view name, const OpenOptions& options) {
  OpenOptions plain = options;
  plain.no_follow = false;  // the user's own path, to whatever it leads
  plain.any_type = true;
  SCR_ASSIGN_OR_RETURN(auto file, fs_.open(std::string(name), plain));
  return Opened{std::move(file), nullptr, std::nullopt};
}

Result<Session::Opened> Session::open(std::string_view name, const OpenOptions& options,
                                      bool swmr) {
  ++opens_;
  if (passive()) return unless_marker(open_plain(name, options), options);
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return unless_marker(open_plain(name, options), options);
  std::string absolute = names_.file_at(name);
  const Route route = names_.route_at_open(absolute);
  if (route.routed()) absolute = prefix() + "/" + route.relative;
  if (live_.contains(absolute)) return open_live(absolute, options, swmr);
  for (;;) {
    auto opened = open_once(route, absolute, name, options, swmr);
    if (!opened.ok() || opened->file) return opened;
  }
}

// No file: another process has moved it just now, look again.
Result<Session::Opened> Session::open_once(const Route& route, const std::string& absolute,
                                           std::string_view name, const OpenOptions& options,
                                           bool swmr) {
  if (!changes(options) || !makes_new(options)) {
    return open_existing(route, absolute, name, options, swmr);
  }
  if (!route.routed()) {
    report_.count_passed(route.reason, absolute);
    return open_plain(name, options);
  }
  if (swmr) return no_swmr(absolute);
  return create(route, absolute, name, options);
}

void Session::went_past(std::string_view name) {
  if (passive() || only_reads_ || is_sealing()) return;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return;
  const Route route = names_.route_of(names_.file_at(name));
  if (!route.routed() || route.reason != Route::Reason::kRule) return;
  if (!report_.count_past()) return;
  log::warning(
      "'{}' is not protected, although ROUTE={} is for it: the program opened it with a driver of "
      "HDF5 that h5scr does not serve (core, family, subfiling, or one set explicitly); use the "
      "default driver with HDF5_DRIVER=scr, or mpio (said once)",
      name, route.rule->pattern);
}

Session::WindowFile* Session::file_in_window(const std::string& absolute) {
  auto found = window_.find(absolute);
  return found == window_.end() ? nullptr : &found->second;
}

Result<Session::Opened> Session::open_existing(const Route& route, const std::string& absolute,
                                               std::string_view name, const OpenOptions& options,
                                               bool swmr) {
  if (!route.routed()) {
    const bool written = changes(options);
    auto plain = open_plain(name, options);
    const bool missing = plain.status().code() == StatusCode::kNotFound;
    if (!plain.ok() && (written || !missing)) return plain;
    if (plain.ok()) {
      SCR_ASSIGN_OR_RETURN(plain->info, plain->file->info());
      SCR_ASSIGN_OR_RETURN(const bool marker, is_marker(*plain->file, *plain->info));
      const Route known = marker ? names_.route_of(absolute) : route;
      if (known.routed()) {
        return open_existing(known, prefix() + "/" + known.relative, name, options, swmr);
      }
      if (written) report_.count_passed(route.reason, absolute);
      if (marker && written) SCR_RETURN_IF_ERROR(refuse_marker(fs_, absolute));
      if (!marker || written) return plain;
    }
    SCR_ASSIGN_OR_RETURN(Copy copy, find_stored(absolute, std::nullopt));
    if (copy.where == Copy::Where::kNowhere) return plain;
    SCR_ASSIGN_OR_RETURN(auto file, open_copy(copy, absolute));
    auto routed =
        std::make_unique<RoutedFile>(*this, absolute, std::move(file), RoutedFile::Role::kReader);
    RoutedFile* pointer = routed.get();
    return Opened{std::move(routed), pointer, std::nullopt};
  }
  SCR_ASSIGN_OR_RETURN(Copy copy, find(route, absolute));
  if (copy.lost) return no_data(absolute, copy.marker);
  const bool plain = copy.where == Copy::Where::kPlain || copy.where == Copy::Where::kNowhere;
  // It has been renamed; an older version that is there goes when the window is sealed.
  if (copy.where == Copy::Where::kNowhere && renamed_.contains(absolute)) {
    return errno_status(ENOENT, "open", absolute);
  }
  if (plain && (!changes(options) || swmr)) return open_plain(name, options);
  if (swmr) return no_swmr(absolute);
  std::unique_ptr<File> file;
  bool replaceable = true;
  if (changes(options)) {
    const auto access = check_write_access(fs_, absolute);
    SCR_RETURN_IF_ERROR(access.status());
    replaceable = access->replaceable;
    if (!replaceable && !plain) return not_replaceable(absolute);
  }
  RoutedFile::Role role = changes(options) ? RoutedFile::Role::kUpdater : RoutedFile::Role::kReader;
  if (plain) {
    if (!replaceable) return open_in_place(name, options);
    SCR_ASSIGN_OR_RETURN(Opened opened, open_plain(name, options));
    if (!start_alone() || !open_window() || joins_at_name(*opened.file)) return opened;
    file = std::move(opened.file);
  } else if (role == RoutedFile::Role::kUpdater && copy.where == Copy::Where::kCache && runtime_ &&
             copy.dataset == runtime_->window()) {
    // Not protected yet: changed where it is. Another process of this node may have written it.
    SCR_ASSIGN_OR_RETURN(file,
                         open_in_window(route, absolute, copy.generation + 1, InWindow::kJoin));
    if (!file) return Opened{};
    role = RoutedFile::Role::kWriter;
  } else {
    auto opened = open_copy(copy, absolute);
    SCR_RETURN_IF_ERROR(opened.status());
    file = std::move(*opened);
    if (role == RoutedFile::Role::kUpdater && (!start_alone() || !open_window())) {
      return failed_precondition(fmt::format(
          "'{}' is in the cache or a container and cannot be changed without h5scr", absolute));
    }
  }
  auto routed = std::make_unique<RoutedFile>(*this, absolute, std::move(file), role);
  RoutedFile* pointer = routed.get();
  if (role == RoutedFile::Role::kWriter) writers_.push_back(pointer);
  return Opened{std::move(routed), pointer, std::nullopt};
}

// Nothing can take its name, so a version in the cache could never be flushed.
Result<Session::Opened> Session::open_in_place(std::string_view name, const OpenOptions& options) {
  report_.warn_once("files are written without protection",
                    fmt::format("the directory of '{}' cannot be written to", name));
  return open_plain(name, options);
}

// Another process has moved the file to its name, and writes it there: so does this one.
bool Session::joins_at_name(File& plain) {
  if (!attached_ || !Presence::has_others(plain)) return false;
  (void)plain.lock(LockMode::kShared, /*wait=*/false);
  return true;
}

Result<Session::Opened> Session::create(const Route& route, const std::string& absolute,
                                        std::string_view name, const OpenOptions& options) {
  if (!start_alone() || !open_window()) return open_plain(name, options);
  // What a direct write would find out now, and not only at the flush.
  const auto access = check_write_access(fs_, absolute);
  if (!access.ok() && !(options.exclusive && fs_.info(absolute).ok())) return access.status();
  if (access.ok() && !access->replaceable) {
    if (!is_real(absolute)) return not_replaceable(absolute);
    return open_in_place(name, options);
  }
  move_flushed_files();
  const bool was_real = !options.truncate && is_real(absolute);
  SCR_ASSIGN_OR_RETURN(const Copy copy, find(route, absolute));
  // Where data was lost, a new version may be written; its marker takes the place of the old one.
  const bool exists = copy.where != Copy::Where::kNowhere || copy.lost;
  if (options.exclusive && exists) return errno_status(EEXIST, "create", absolute);
  if (!options.create && !exists) return errno_status(ENOENT, "open", absolute);
  if (!options.truncate && copy.where != Copy::Where::kNowhere) {
    return open_existing(route, absolute, name, options, /*swmr=*/false);
  }
  bool filled = false;
  bool moved = false;
  const auto fill = [&](File& file) -> Status {
    filled = true;
    // Another process of this node may have made it since, and moved it to its name.
    moved = !options.truncate && !was_real && is_real(absolute);
    return moved ? errno_status(EEXIST, "create", absolute) : file.truncate(0);
  };
  auto file = open_in_window(route, absolute, copy.generation + 1,
                             options.truncate ? InWindow::kAnew : InWindow::kMake, fill);
  if (moved && !options.exclusive) return Opened{};
  SCR_RETURN_IF_ERROR(file.status());
  if (options.exclusive && !filled) {  // another process was faster
    leave_window(absolute);
    return errno_status(EEXIST, "create", absolute);
  }
  auto routed =
      std::make_unique<RoutedFile>(*this, absolute, std::move(*file), RoutedFile::Role::kWriter);
  RoutedFile* pointer = routed.get();
  writers_.push_back(pointer);
  return Opened{std::move(routed), pointer, std::nullopt};
}

// A file that is no marker.
bool Session::is_real(const std::string& absolute) {
  auto info = fs_.info(absolute, /*follow=*/true);
  if (!info.ok() || info->size != kMarkerSize) return info.ok();
  auto marker = read_marker(fs_, absolute);
  return marker.ok() && !*marker;
}

// A process of this node has written it in this window, and closed it.
std::optional<Marker> Session::marker_in_window(const std::string& relative) {
  auto marker = markers_->find(relative);
  const bool found = marker.ok() && *marker && !(*marker)->container && !(*marker)->shared &&
                     (*marker)->host == host() && (*marker)->dataset == runtime_->window() &&
                     (*marker)->created == runtime_->window_dataset().created;
  return found ? *marker : std::nullopt;
}

// A file of the window, to be written: by several processes of this node, if they open it each by
// itself. No file: it was to be joined, and is gone.
Result<std::unique_ptr<File>> Session::open_in_window(const Route& route,
                                                      const std::string& absolute,
                                                      std::uint64_t generation, InWindow how,
                                                      const std::function<Status(File&)>& fill) {
  const WindowFile* known = file_in_window(absolute);
  std::shared_ptr<Presence> presence = known != nullptr ? known->presence : nullptr;
  SCR_ASSIGN_OR_RETURN(const std::string path, runtime_->route_file(absolute));
  auto file = open_present(route.relative, path, presence, how, fill);
  if (!file.ok() || !*file) {
    if (known == nullptr) {
      Status status = runtime_->unregister_file(absolute);
      if (!status.ok()) log::warning("{}", status.message());
    }
    return file;
  }
  WindowFile& entry = enter_window(route, absolute, path, generation);
  entry.presence = presence;
  ++entry.open;
  return file;
}

Result<std::unique_ptr<File>> Session::open_present(const std::string& relative,
                                                    const std::string& path,
                                                    std::shared_ptr<Presence>& presence,
                                                    InWindow how,
                                                    const std::function<Status(File&)>& fill) {
  if (!presence) {
    const auto missing =
        how == InWindow::kJoin ? Presence::Missing::kLeave : Presence::Missing::kMake;
    if (missing == Presence::Missing::kMake && runtime_->window_bypasses())
      SCR_RETURN_IF_ERROR(make_temporary(fs_, path, prefix() + "/" + relative));
    // In the prefix directory the program's own locks may be of the same kind (NFS).
    SCR_ASSIGN_OR_RETURN(presence,
                         Presence::enter(fs_, path, missing, !runtime_->window_bypasses()));
    if (!presence) return std::unique_ptr<File>();
  }
  OpenOptions options = OpenOptions::read_write();
  options.create = how == InWindow::kAnew;  // the one that is open may have been deleted
  auto file = fs_.open(path, options);
  // Others may have written and closed it since it was looked for.
  const bool fills = how == InWindow::kAnew ||
                     (how == InWindow::kMake && presence->alone() && !marker_in_window(relative));
  Status status = file.status();
  if (status.ok() && fills) status = fill(**file);
  // Nobody takes half of its contents for the file.
  if (!status.ok() && fills && presence->alone()) (void)fs_.remove_if_exists(path);
  SCR_RETURN_IF_ERROR(status);
  SCR_RETURN_IF_ERROR(presence->share());
  return file;
}

// The opposite of open_in_window(), for a file that others may have open.
void Session::leave_window(const std::string& absolute) {
  WindowFile* known = file_in_window(absolute);
  if (known != nullptr && --known->open == 0) known->presence.reset();
}

Session::WindowFile& Session::enter_window(const Route& route, const std::string& absolute,
                                           const std::string& path, std::uint64_t generation) {
  given_.forget(route.relative);
  WindowFile* known = file_in_window(absolute);
  if (known == nullptr) {
    const DatasetDescriptor& dataset = runtime_->window_dataset();
    known = &window_[absolute];
    known->marker =
        make_marker(route.relative, dataset.id, dataset.created, next_index_++, generation);
    report_.count_routed();
  }
  known->marker.generation = std::max(known->marker.generation, generation);
  known->route = route;
  known->path = path;
  if (known->open == 0) known->failure = {};
  // A new version is seen again, also if an older one of this window was deleted.
  if (auto hidden = hidden_.find(absolute); hidden != hidden_.end()) {
    hidden->second = std::min(hidden->second, runtime_->window() - 1);
  }
  return *known;
}

}  // namespace scr::routing
