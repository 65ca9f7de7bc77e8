// Finding files: which copy of a name a reader gets.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/fallback_file.hpp"
#include "core/routing/job_cache.hpp"
#include "core/routing/session.hpp"
#include "flush/flush.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::routing {

// Of a dataset that could not be read in full at the start, or has a damaged file, those of this
// rank can still be checked one by one.
bool Session::is_sound(const CachedDataset& dataset, const std::string& relative,
                       const std::string& path) {
  if (dataset.verified) return true;
  for (const FilemapEntry* entry : runtime_->own_entries(dataset.dataset)) {
    const FileMeta* meta = entry->find(relative);
    if (meta == nullptr || !meta->crc || entry->directory + "/" + relative != path) continue;
    const Status status = verify_cached_file(fs_, {dataset.dataset, path, meta->size, meta->crc});
    if (!status.ok()) log::warning("{}; it is not used", status.message());
    return status.ok();
  }
  return false;
}

// On this node: in the window, or in the newest dataset that has it.
std::optional<Session::Copy> Session::find_in_cache(const std::string& relative,
                                                    const std::optional<Marker>& marker) {
  Copy copy;
  copy.where = Copy::Where::kCache;
  const auto hidden = hidden_.find(prefix() + "/" + relative);
  int hidden_up_to = hidden == hidden_.end() ? -1 : hidden->second;
  // Who deletes a file takes its marker away: one that is there is of a new file of another rank.
  if (marker && !marker->container) hidden_up_to = std::min(hidden_up_to, marker->dataset - 1);
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
      if (is_file(copy.path) && is_sound(*dataset, relative, copy.path)) return copy;
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
    // What this process has itself was looked at above, without reading a filemap that grows.
    if (runtime_ && id == runtime_->context().job().job_id) continue;
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
  copy.flushed = newest->flushed;
  return copy;
}

// Another program has moved a marker to another name: what is there is the version that the marker
// is of, whatever has become of the name that it had.
std::optional<Session::Copy> Session::find_version(const Marker& marker) {
  if (marker.container) return std::nullopt;
  if (!runtime_) return find_in_cache(marker.file, marker);
  Copy copy;
  copy.where = Copy::Where::kCache;
  copy.dataset = marker.dataset;
  const auto& cached = runtime_->cached();
  const auto dataset = std::ranges::find_if(cached, [&](const CachedDataset& one) {
    return one.dataset.id == marker.dataset && one.dataset.created == marker.created;
  });
  if (dataset != cached.end()) {
    copy.path = runtime_->cached_directory(marker.dataset) + "/" + marker.file;
    if (!dataset->usable || !is_sound(*dataset, marker.file, copy.path)) return std::nullopt;
  } else if (runtime_->window() == marker.dataset) {
    copy.path = runtime_->window_path(marker.file);
  }
  auto info = copy.path.empty() ? Result<FileInfo>(not_found("not here")) : fs_.info(copy.path);
  if (!info.ok() || info->type != FileInfo::Type::kRegular) return std::nullopt;
  return copy;
}

// Of this process's files it is known that nobody else is about to put or take away the marker.
void Session::tell_of_missing_marker(const Marker& marker, const std::string& absolute) {
  if (!runtime_ || marker.container || file_in_window(absolute) != nullptr) return;
  if (given_.contains(marker.file)) return;
  const Context& context = runtime_->context();
  if (marker.job != context.job().job_id || marker.rank != context.rank()) return;
  if (markers_visible() != MarkerStore::Visible::kYes || is_flushed(marker.dataset)) return;
  report_.warn_once(
      "another program has moved or deleted '" + absolute + "'",
      "its data is in the cache and will come to this name; let the program itself rename "
      "and delete its files, by rename() and unlink() or system(), or wait for the flush");
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
    if (marker->container || name != *relative) dataset = marker->dataset;
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

// The data of the newest version cannot be reached from here.
void Session::tell_of_newer(const std::string& absolute, const Marker& marker) {
  report_.warn_once(
      fmt::format("an older version of '{}' is used", absolute),
      fmt::format("job {} wrote a newer one on node {} (dataset {}), which has not reached "
                  "the prefix directory; 'scr_postrun' in that job saves it",
                  marker.job, marker.host, marker.dataset));
}

// The newest copy: in the cache of this node, of another, at the name, in a dataset of the prefix
// directory.
Result<Session::Copy> Session::find(const Route& route, const std::string& absolute) {
  std::optional<Marker> marker;
  std::optional<Copy> here;
  if (!route.relative.empty()) {
    auto found = markers().find(route.relative);
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
    const bool moved =
        visible.ok() && *visible && !route.relative.empty() && (*visible)->file != route.relative;
    if (visible.ok() && (!marker || moved)) marker = *visible;
    if (moved) here = find_version(*marker);
  }
  if (marker && !info.ok()) tell_of_missing_marker(*marker, absolute);
  if (const Renamed* left = renamed_before(absolute, marker)) {
    Copy copy;
    const bool is_new = real && (info->mtime_ns > left->written || !is_left_behind(*info, *left));
    if (is_new) copy.where = Copy::Where::kPlain;
    return copy;
  }
  if (here && !marker && !(runtime_ && here->dataset == runtime_->window())) {
    SCR_ASSIGN_OR_RETURN(const auto deleted, markers_->find_deletion(route.relative));
    if (deleted && deleted->dataset >= here->dataset) here.reset();
  }
  // A process of another rank has deleted a file that is neither at its name nor marked there, or
  // has not closed it yet.
  if (here && attached_ && !marker && !real && !is_own(absolute, *here) &&
      !(here->dataset == runtime_->window() && Presence::is_at(fs_, here->path))) {
    here.reset();
  }
  // Flushed, and then taken away or replaced, perhaps by an older file: by another rank, by the
  // program in a run before, or by someone who did not tell us.
  if (here && !marker) {
    const bool flushed =
        here->created != 0 ? here->flushed : runtime_ && runtime_->is_in_prefix(here->dataset);
    auto cached = fs_.info(here->path);
    const bool is_flushed_one =
        real && cached.ok() && is_time_of_copy(info->mtime_ns, cached->mtime_ns);
    if (flushed && !is_flushed_one) here.reset();
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
    if (marker && info->mtime_ns < marker->written) tell_of_newer(absolute, *marker);
  } else {
    SCR_ASSIGN_OR_RETURN(copy, find_stored(absolute, marker));
    // What is in a container stays there when the program deletes it.
    if (copy.where == Copy::Where::kStored && !marker && !route.relative.empty()) {
      SCR_ASSIGN_OR_RETURN(const auto deleted, markers_->find_deletion(route.relative));
      if (deleted && deleted->dataset >= copy.dataset) copy = {};
    }
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
  if (!attached_ || !services_.homes()) return false;
  if (marker.dataset == runtime_->window()) {
    return marker.created == runtime_->window_dataset().created;
  }
  return std::ranges::any_of(runtime_->cached(), [&](const CachedDataset& cached) {
    return cached.usable && cached.verified && cached.dataset.id == marker.dataset &&
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
      return open_with_fallback(services_.open_remote(endpoint, copy.marker.id, options),
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

}  // namespace scr::routing
