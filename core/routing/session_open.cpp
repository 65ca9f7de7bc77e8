// Opening files: which copy a reader gets, where a writer writes.
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/routing/fallback_file.hpp"
#include "core/routing/job_cache.hpp"
#include "core/routing/session.hpp"
#include "flush/flush.hpp"
#include "flush/prefix_reader.hpp"

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

// As the program's lock on the file whose place this one takes. A file system without locks has
// none to give.
Status lock_descriptor(const File& file, int lock) {
  if (lock == 0 || file.descriptor() < 0) return {};
  if (::flock(file.descriptor(), lock | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  return {StatusCode::kUnavailable,
          fmt::format("unable to lock file '{}': another process has it open", file.path()),
          EWOULDBLOCK};
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
  plain.no_follow = false;  // the user's own path
  SCR_ASSIGN_OR_RETURN(auto file, fs_.open(std::string(name), plain));
  return Opened{std::move(file), nullptr, std::nullopt};
}

Result<Session::Opened> Session::open(std::string_view name, const OpenOptions& options,
                                      bool swmr) {
  ++opens_;
  if (passive()) return open_plain(name, options);
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return open_plain(name, options);
  std::string absolute = absolute_name(name);
  const Route route = route_of(absolute);
  if (route.routed()) absolute = prefix() + "/" + route.relative;
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
    count_passed(route.reason, absolute);
    return open_plain(name, options);
  }
  if (swmr) return no_swmr(absolute);
  return create(route, absolute, name, options);
}

// H5Fcreate opens a file twice.
void Session::count_passed(Route::Reason reason, const std::string& absolute) {
  if (absolute == last_passed_) return;
  last_passed_ = absolute;
  ++counts_.passed[reason];
}

void Session::went_past(std::string_view name) {
  if (passive() || is_sealing()) return;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return;
  const Route route = route_of(absolute_name(name));
  if (!route.routed() || route.reason != Route::Reason::kRule) return;
  ++counts_.past;
  if (counts_.past > 1) return;
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

// --- finding -------------------------------------------------------------------------------------

// On this node: in the window, or in the newest dataset that has it.
std::optional<Session::Copy> Session::find_in_cache(const std::string& relative,
                                                    const std::optional<Marker>& marker) {
  Copy copy;
  copy.where = Copy::Where::kCache;
  const auto hidden = hidden_.find(prefix() + "/" + relative);
  int hidden_up_to = hidden == hidden_.end() ? -1 : hidden->second;
  // Who deletes a file takes its marker away: one of this window is of a new file of another rank.
  if (runtime_ && marker && !marker->container && marker->dataset == runtime_->window()) {
    hidden_up_to = std::min(hidden_up_to, runtime_->window() - 1);
  }
  const auto is_file = [&](const std::string& path) {
    auto info = fs_.info(path);
    return info.ok() && info->type == FileInfo::Type::kRegular && copy.dataset > hidden_up_to;
  };
  const WindowFile* mine = runtime_ ? file_in_window(prefix() + "/" + relative) : nullptr;
  // Another process of this node may have deleted what this one has closed, or moved it.
  if (mine != nullptr && (mine->open > 0 || fs_.info(mine->path).ok())) {
    copy.path = mine->path;
    copy.dataset = runtime_->window();
    return copy;
  }
  if (runtime_ && runtime_->window() != 0) {
    copy.path = runtime_->window_path(relative);
    copy.dataset = runtime_->window();
    if (is_file(copy.path)) return copy;
  }
  if (runtime_) {
    const auto& cached = runtime_->cached();
    for (auto dataset = cached.rbegin(); dataset != cached.rend(); ++dataset) {
      if (!dataset->usable) continue;
      copy.path = runtime_->cached_directory(dataset->dataset.id) + "/" + relative;
      copy.dataset = dataset->dataset.id;
      if (is_file(copy.path)) return copy;
    }
  }
  if (attached_ || hidden_up_to >= 0) return std::nullopt;
  // Processes that work alone: also what one of an earlier run, or another one, left on this node.
  auto job = JobInfo::detect(*config(), config::Environment::current());
  if (!job.ok()) return std::nullopt;
  const std::string base = config()->get_path("SCR_CNTL_BASE");
  // A file that a program on this node has closed, and not sealed yet, is in the marker's dataset.
  const bool marked_here = marker && marker->host == host() && !marker->container;
  const std::int64_t closed_at = marked_here ? marker->created : 0;
  std::optional<CachedFile> newest;
  for (const std::string& id : jobs_on_node(fs_, base, job->user, job->job_id)) {
    auto found = find_cached_file(fs_, base, job->user, id, relative, closed_at);
    if (!found.ok()) log::detail("{}", found.status().message());
    if (!found.ok() || !*found) continue;
    if (!newest || (*found)->dataset.created > newest->dataset.created) newest = **found;
  }
  if (!newest) return std::nullopt;
  Status status = newest->crc ? verify_cached_file(fs_, *newest) : Status();
  if (!status.ok()) {
    log::warning("{}; it is not used", status.message());
    return std::nullopt;
  }
  copy.path = newest->path;
  copy.dataset = newest->dataset.id;
  copy.created = newest->dataset.created;
  return copy;
}

// Someone else, or the program without h5scr, may have written the name since. A flush keeps the
// time at which a file was written.
bool Session::at_name_is_newer(const FileInfo& info, const Copy& copy) {
  if (runtime_ && copy.dataset == runtime_->window()) return false;
  auto cached = fs_.info(copy.path);
  return cached.ok() && info.mtime_ns > cached->mtime_ns;
}

// Written by this rank.
bool Session::is_own(const std::string& absolute, const Copy& copy) {
  if (file_in_window(absolute) != nullptr) return true;
  if (!runtime_) return false;
  const FilemapEntry* entry = runtime_->filemap().get(runtime_->context().rank(), copy.dataset);
  return entry != nullptr && entry->find(absolute.substr(prefix().size() + 1)) != nullptr;
}

Result<Session::Copy> Session::find_stored(const std::string& absolute,
                                           std::optional<Marker> marker) {
  Copy copy;
  auto prefix = flush::find_prefix(fs_, absolute);
  if (!prefix.ok()) {
    if (prefix.status().code() == StatusCode::kNotFound) return copy;
    return prefix.status();
  }
  const auto relative = relative_to(absolute, *prefix);
  std::string name = *relative;
  std::optional<int> dataset;
  // A marker says under which name and in which dataset the file was written.
  if (auto visible = read_marker(fs_, absolute); !marker && visible.ok()) marker = *visible;
  if (marker) {
    name = marker->file;
    if (marker->container) dataset = marker->dataset;
  }
  auto location = flush::locate(fs_, *prefix, name, dataset);
  if (!location.ok()) {
    if (location.status().code() == StatusCode::kNotFound) return copy;
    return location.status();
  }
  // A plain file is where the program looks for it, or has been deleted.
  if (!location->file.contained() && name == *relative) return copy;
  copy.where = Copy::Where::kStored;
  copy.dataset = location->dataset.id;
  copy.prefix = *prefix;
  copy.stored = std::move(*location);
  return copy;
}

// The newest copy: in the cache of this node, of another, at the name, in a dataset of the prefix
// directory.
Result<Session::Copy> Session::find(const Route& route, const std::string& absolute) {
  std::optional<Marker> marker;
  std::optional<Copy> here;
  if (!route.relative.empty()) {
    if (!markers_) markers_ = std::make_unique<MarkerStore>(fs_, prefix());
    auto found = markers_->find(route.relative);
    if (!found.ok()) return found.status();
    marker = *found;
    here = find_in_cache(marker ? marker->file : route.relative, marker);
  }
  auto info = fs_.info(absolute, /*follow=*/true);
  if (!info.ok() && info.status().code() != StatusCode::kNotFound) return info.status();
  bool real = info.ok();
  if (real && info->size == kMarkerSize) {
    auto visible = read_marker(fs_, absolute);
    real = visible.ok() && !*visible;
    if (!marker && visible.ok()) marker = *visible;
  }
  // A process of another rank has deleted a file that is neither at its name nor marked there, or
  // has not closed it yet.
  if (here && attached_ && !marker && !real && !is_own(absolute, *here) &&
      !(here->dataset == runtime_->window() && Presence::is_at(fs_, here->path))) {
    here.reset();
  }
  // Flushed, and then taken away by someone who did not tell us.
  if (here && !names_are_watched_ && !marker && !real && runtime_ &&
      runtime_->is_in_prefix(here->dataset)) {
    here.reset();
  }
  const bool served = marker && marker->host != host() && !marker->container && attached_ &&
                      !marker->service.empty();
  // Where several nodes have a file in one window, the marker tells who wrote it last.
  const WindowFile* mine = runtime_ ? file_in_window(absolute) : nullptr;
  const bool open_here = mine != nullptr && mine->open > 0;
  if (here && served && !open_here && marker->dataset >= here->dataset) here.reset();
  const bool newer_at_name = real && marker && info->mtime_ns > marker->written;
  Copy copy;
  if (marker && marker->shared && !marker->container && !newer_at_name && is_shared_here(*marker)) {
    copy.where = Copy::Where::kShared;
    copy.dataset = marker->dataset;
    copy.marker = *marker;
    copy.generation = marker->generation;
    return copy;
  }
  if (here && (!marker || here->dataset >= marker->dataset) &&
      !(real && at_name_is_newer(*info, *here))) {
    copy = *here;
  } else if (served && !newer_at_name) {
    copy.where = Copy::Where::kRemote;
    copy.dataset = marker->dataset;
  } else if (real && (!marker || !marker->container || newer_at_name)) {
    copy.where = Copy::Where::kPlain;
  } else {
    SCR_ASSIGN_OR_RETURN(copy, find_stored(absolute, marker));
    copy.lost = copy.where == Copy::Where::kNowhere && marker;
  }
  if (marker) {
    copy.marker = *marker;
    copy.generation = marker->generation;
  }
  return copy;
}

// The logs of a file that several wrote together are in the caches of this run.
bool Session::is_shared_here(const Marker& marker) const {
  if (!attached_ || !homes_) return false;
  if (marker.dataset == runtime_->window()) {
    return marker.created == runtime_->window_dataset().created;
  }
  return std::ranges::any_of(runtime_->cached(), [&](const CachedDataset& cached) {
    return cached.usable && cached.dataset.id == marker.dataset &&
           cached.dataset.created == marker.created;
  });
}

Result<std::unique_ptr<File>> Session::open_copy(const Copy& copy, const std::string& absolute) {
  switch (copy.where) {
    case Copy::Where::kCache:
      return fs_.open(copy.path, OpenOptions::read());
    case Copy::Where::kRemote: {
      SCR_ASSIGN_OR_RETURN(auto endpoint, service::Endpoint::from_text(copy.marker.service));
      service::RemoteOptions options;
      const bool may_change = runtime_ && copy.dataset == runtime_->window();
      if (may_change) options.cached_blocks = 0;
      return open_with_fallback(service::open_remote(endpoint, *key_, copy.marker.id, options),
                                flushed_copy(copy.marker));
    }
    case Copy::Where::kShared:
      return open_shared_copy(copy.marker);
    case Copy::Where::kStored:
      return flush::open_stored(fs_, copy.prefix, *copy.stored, flush::Verify::kWhole);
    default:
      return not_found(fmt::format("there is no file '{}'", absolute));
  }
}

// --- opening -------------------------------------------------------------------------------------

Result<Session::Opened> Session::open_existing(const Route& route, const std::string& absolute,
                                               std::string_view name, const OpenOptions& options,
                                               bool swmr) {
  if (!route.routed()) {
    if (changes(options)) {
      count_passed(route.reason, absolute);
      return open_plain(name, options);
    }
    auto plain = open_plain(name, options);
    const bool missing = plain.status().code() == StatusCode::kNotFound;
    if (!plain.ok() && !missing) return plain;
    if (plain.ok()) {
      SCR_ASSIGN_OR_RETURN(plain->info, plain->file->info());
      SCR_ASSIGN_OR_RETURN(const bool marker, is_marker(*plain->file, *plain->info));
      if (!marker) return plain;
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
  if (plain && (!changes(options) || swmr)) return open_plain(name, options);
  if (swmr) return no_swmr(absolute);
  std::unique_ptr<File> file;
  RoutedFile::Role role = changes(options) ? RoutedFile::Role::kUpdater : RoutedFile::Role::kReader;
  if (plain) {
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
  const std::string parent = absolute.substr(0, std::max<std::size_t>(absolute.rfind('/'), 1));
  SCR_ASSIGN_OR_RETURN(const FileInfo directory, fs_.info(parent, /*follow=*/true));
  if (directory.type != FileInfo::Type::kDirectory)
    return errno_status(ENOTDIR, "create", absolute);
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
  WindowFile* known = file_in_window(absolute);
  if (known == nullptr) {
    const DatasetDescriptor& dataset = runtime_->window_dataset();
    known = &window_[absolute];
    known->marker =
        make_marker(route.relative, dataset.id, dataset.created, next_index_++, generation);
    ++counts_.routed;
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

// --- what becomes of open files ------------------------------------------------------------------

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
  return become_writer(file);
}

// If another process of this node has changed the file since, in this window, both change the same
// file.
Status Session::become_writer(RoutedFile& file) {
  const Route route = route_of(file.absolute_);
  std::unique_ptr<File> target;
  bool filled = false;
  while (!target) {
    SCR_ASSIGN_OR_RETURN(const Copy newest, find(route, file.absolute_));
    if (newest.where == Copy::Where::kPlain && attached_) {
      SCR_ASSIGN_OR_RETURN(target, fs_.open(file.absolute_, OpenOptions::read_write()));
      if (joins_at_name(*target)) {
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
  if (passive() || file.role() != RoutedFile::Role::kWriter) return {};
  std::lock_guard lock(mutex_);
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
    warn_once(fmt::format("'{}' stays open", file->absolute_),
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
    warn_once(fmt::format("'{}' is kept open by several", file.absolute_),
              "it stays in the cache, and is protected when all of them have closed it");
  }
  return alone;
}

Status Session::move_flushed(RoutedFile& file) {
  if (!is_alone_with(file)) return {};
  warn_once(fmt::format("'{}' is kept open and flushed", file.absolute_),
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
  const std::string temporary = fmt::format("{}.{}.scr-moving", to, rank);
  OpenOptions options = OpenOptions::create_truncate();
  options.no_follow = true;
  SCR_ASSIGN_OR_RETURN(auto target, fs_.open(temporary, options));
  Status status = copy_contents(source, *target);
  if (status.ok()) status = target->sync();
  if (status.ok()) status = lock_descriptor(*target, lock);
  // While it is open others can see that it is written there; see joins_at_name().
  if (status.ok()) (void)target->lock(LockMode::kShared, /*wait=*/false);
  if (status.ok()) status = fs_.rename(temporary, to);
  if (!status.ok()) {
    (void)fs_.remove_if_exists(temporary);
    return status;
  }
  SCR_RETURN_IF_ERROR(fs_.sync_directory(to.substr(0, std::max<std::size_t>(to.rfind('/'), 1))));
  return target;
}

Status Session::move_to_name(RoutedFile& file) {
  std::unique_lock alone(file.mutex_);
  if (!file.open_) return {};  // another thread has just closed it, and is about to say so
  auto target = write_at_name(*file.file_, file.absolute_, file.held_lock_);
  if (!target.ok()) {
    const WindowFile* known = file_in_window(file.absolute_);
    if (known != nullptr && known->presence) (void)known->presence->share();
    return target.status().with_context("while moving an open file to its name");
  }
  file.file_ = std::move(*target);
  file.role_ = RoutedFile::Role::kPlain;
  std::erase(writers_, &file);
  ++counts_.moved;
  hide(file.absolute_);
  return forget_file(file.absolute_);
}

// Where nobody tells of renames, a closed file that must wait for others to be sealed does not wait
// in the cache.
Status Session::bring_to_name(const std::string& absolute) {
  SCR_ASSIGN_OR_RETURN(auto source, fs_.open(file_in_window(absolute)->path, OpenOptions::read()));
  SCR_RETURN_IF_ERROR(write_at_name(*source, absolute, 0)
                          .status()
                          .with_context("while bringing a closed file to its name"));
  ++counts_.moved;
  hide(absolute);
  return forget_file(absolute);
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
  WindowFile* known = file_in_window(file.absolute_);
  if (known != nullptr && known->failure.ok()) known->failure = why;
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
  if (getpid() != pid_ || file.role() != RoutedFile::Role::kWriter) return {};
  std::unique_lock lock(mutex_);
  std::erase(writers_, &file);
  if (!runtime_) return {};
  WindowFile* known = file_in_window(file.absolute_);
  if (known != nullptr && known->failure.ok()) known->failure = closed_status;
  const config::RouteRule* rule = known != nullptr ? known->route.rule : nullptr;
  const bool last_close = known != nullptr && --known->open == 0;
  if (last_close) {
    if (!known->failure.ok()) {
      drop_failed(file.absolute_);
    } else {
      auto info = fs_.info(known->path);
      if (info.ok()) counts_.bytes += info->size;
      publish(known->marker, known->path);
      known->presence.reset();  // not before there is a marker to be found
    }
    ++closes_[rule];
    ++closed_in_all_;
  }
  if (attached_) {
    const bool due = last_close && rule != nullptr && rule->complete_files > 0 &&
                     closes_[rule] == rule->complete_files;
    if (due) seal_at_close(lock);
    return {};
  }
  if (!writers_.empty()) {
    const bool waits = last_close && file_in_window(file.absolute_) != nullptr;
    return waits && must_be_at_names() ? bring_to_name(file.absolute_) : Status();
  }
  if (window_.empty()) window_is_incomplete_ = false;  // nobody else has files in it
  if (has_something_to_seal()) seal();
  return {};
}

// Nobody tells a process by itself of its renames if it has no preload. A marker that the system
// renames could take the place of a good file, with the data in this node's memory only; so files
// are at their names when they are closed. SCR_FLUSH=0: the user wants them in the cache.
bool Session::must_be_at_names() {
  return !attached_ && !names_are_watched_ && config()->get_uint("SCR_FLUSH") != 0;
}

// --- other changes of names ----------------------------------------------------------------------

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
    auto cached = copy.where == Copy::Where::kCache ? fs_.info(copy.path)
                                                    : Result<FileInfo>(not_found("not here"));
    gone_[copy.dataset][route.relative] = cached.ok() ? cached->mtime_ns : copy.marker.written;
  }
  return copy.marker.file.empty() ? Status() : markers_->drop(copy.marker);
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
  const WindowFile* open = file_in_window(from);
  if (open != nullptr && open->open > 0) {
    return failed_precondition(fmt::format("'{}' is open and cannot be renamed", from));
  }
  SCR_ASSIGN_OR_RETURN(auto source, open_copy(copy, from));
  SCR_RETURN_IF_ERROR(
      write_at_name(*source, to, 0).status().with_context("while renaming a file in the cache"));
  SCR_RETURN_IF_ERROR(let_go(copy, route, from));
  SCR_RETURN_IF_ERROR(fs_.remove_if_exists(from));  // an older version
  return true;
}

Result<bool> Session::renamed(std::string_view from, std::string_view to) {
  if (passive()) return false;
  std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return false;
  const Route route = route_of(absolute_name(to));
  const Route old_route = route_of(absolute_name(from));
  if (!old_route.routed()) return false;
  const std::string old_name = prefix() + "/" + old_route.relative;
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
  SCR_ASSIGN_OR_RETURN(const Copy replaced, find(route, new_name));
  SCR_RETURN_IF_ERROR(refuse_if_open(replaced, route, "replaced"));
  const bool is_free = replaced.where == Copy::Where::kNowhere || is_at_name(replaced, new_name);
  if (copy.where == Copy::Where::kPlain || (is_free && is_at_name(copy, old_name))) {
    if (replaced.lost) SCR_RETURN_IF_ERROR(markers_->drop(replaced.marker));
    hide(old_name);
    hide(new_name);
    return false;
  }
  if (!start_alone() || !open_window()) return false;
  WindowFile* open = file_in_window(old_name);
  if (open != nullptr && open->open > 0) {
    return failed_precondition(fmt::format("'{}' is open and cannot be renamed", old_name));
  }
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
  SCR_RETURN_IF_ERROR(let_go(copy, old_route, old_name));
  if (!attached_ && writers_.empty()) seal();
  return true;
}

}  // namespace scr::routing
