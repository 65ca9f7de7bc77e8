// What follows a seal: markers, files that are flushed, gone or found again at a restart, the
// rescue of what cannot be completed.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/name_keeper.hpp"
#include "core/routing/session.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/index.hpp"
#include "flush/made_directories.hpp"

namespace scr::routing {

namespace {

// Written by a program that calls SCR_*: it finds its files by SCR_Route_file, nobody else asks for
// them, and a marker would stay for ever once that program has evicted or deleted them.
bool is_native(const FilemapEntry& entry) {
  if (entry.files.empty()) return false;
  const auto descriptor = flush::FlushDescriptor::of(entry);
  return descriptor.ok() && !descriptor->keep_newer;
}

}  // namespace

Marker Session::make_marker(const std::string& relative, int dataset, std::int64_t created,
                            std::int64_t index, std::uint64_t generation) const {
  const Context& context = runtime_->context();
  Marker marker;
  marker.file = relative;
  marker.dataset = dataset;
  marker.rank = context.rank();
  marker.job = context.job().job_id;
  marker.host = context.host();
  marker.generation = generation;
  marker.created = created;
  auto id = service::make_id(dataset, context.rank(), index);
  if (id.ok()) {
    marker.id = *id;
    marker.service = services_.endpoint();
  }
  return marker;
}

MarkerStore::Visible Session::markers_visible(bool at_start) {
  const std::string when = config()->get_string("SCR_MARKERS");
  const bool visible = at_start ? when != "off" : when == "close" && !must_be_at_names();
  return visible ? MarkerStore::Visible::kYes : MarkerStore::Visible::kNo;
}

// Lets other processes find a file of this one.
void Session::publish(Marker marker, const std::string& path, bool at_start) {
  auto info = fs_.info(path);
  if (info.ok()) marker.written = info->mtime_ns;
  Status status = info.status();
  if (status.ok() && !marker.service.empty()) {
    status = services_.publish(marker.dataset, marker.id, path);
  }
  if (status.ok()) status = markers_->put(marker, markers_visible(at_start));
  if (!status.ok()) log::warning("{}", status.message());
}

// At the start: what is in the cache can be read again; markers of what was lost go.
void Session::adopt_restart() {
  Context& context = runtime_->context();
  markers_ = std::make_unique<MarkerStore>(fs_, prefix());
  runtime_->on_forget([this](const FilemapEntry& entry) { dataset_gone(entry); });
  runtime_->on_abandon([this](const FilemapEntry& entry) { return rescue(entry); });
  auto newest = runtime_->have_restart();  // verifies it
  if (!newest.ok()) log::warning("{}", newest.status().message());
  runtime_->verify_cached();
  auto known = datasets_in_prefix();
  std::set<std::pair<int, std::int64_t>> cached;
  for (const CachedDataset& dataset : runtime_->cached()) {
    const auto entries = runtime_->own_entries(dataset.dataset);
    const bool native =
        std::ranges::any_of(entries, [](const FilemapEntry* entry) { return is_native(*entry); });
    if (dataset.usable && !native) cached.insert({dataset.dataset.id, dataset.dataset.created});
  }
  const std::string job = context.job().job_id;
  // A process by itself has unflushed datasets of an earlier one to bring home.
  Status status = known.status();
  if (status.ok()) {
    status = markers_->sweep(context.rank(), context.size(), [&](const Marker& marker) {
      const std::pair key(marker.dataset, marker.created);
      if (marker.container) return known->contains(key);
      if (known->contains(key)) {
        const Status gone = marker.gone ? take_away(fs_, prefix(), marker) : Status();
        if (!gone.ok()) log::warning("{}", gone.message());
        return settle_flushed(marker);
      }
      if (context.alone() && marker.job != job) return true;  // another process's
      return cached.contains(key);
    });
  }
  if (!status.ok()) log::warning("{}", status.message());
  context.world().barrier();
  const std::vector<CachedDataset> datasets = runtime_->cached();
  std::set<int> unreadable;
  NewestVersions versions = newest_cached(unreadable);
  for (auto dataset = datasets.rbegin(); dataset != datasets.rend(); ++dataset) {
    // One that could not be read keeps its markers, so that nobody takes an older file for it.
    if (!dataset->usable || !dataset->verified || announce_cached(*dataset, versions)) continue;
    unreadable.insert(dataset->dataset.id);
    versions = newest_cached(unreadable);
  }
  if (context.rank() == 0 && newest.ok() && *newest) {
    log::info("restart from the cache: '{}'", **newest);
  }
}

// Collective: ids and creation times of the complete datasets of the index, which rank 0 reads. An
// index that cannot be read is no reason to take markers away.
Result<std::set<std::pair<int, std::int64_t>>> Session::datasets_in_prefix() {
  Communicator& world = runtime_->context().world();
  Hash message;
  Status status;
  if (world.rank() == 0) {
    auto index = flush::read_index(fs_, prefix());
    status = index.status();
    if (index.ok()) {
      for (const auto& entry : index->entries()) {
        if (entry.complete)
          message.set_kv_int(std::to_string(entry.dataset.id), entry.dataset.created);
      }
    }
  }
  SCR_RETURN_IF_ERROR(agree(world, status, "reading the index"));
  SCR_RETURN_IF_ERROR(broadcast_hash(world, message, 0));
  std::set<std::pair<int, std::int64_t>> known;
  for (const std::int64_t id : message.int_keys()) {
    for (const std::int64_t created : message.get(std::to_string(id))->int_keys()) {
      known.insert({static_cast<int>(id), created});
    }
  }
  return known;
}

// The marker of a file that has been flushed, by a run that did not live to say so. False: it goes,
// since the file is at its name.
bool Session::settle_flushed(const Marker& marker) {
  auto location = flush::locate(fs_, prefix(), marker.file, marker.dataset);
  if (!location.ok() || !location->file.contained()) return false;
  point_to_container(marker);
  return true;
}

namespace {

// For each rank that told which dataset has a name, where another one has told of a newer one.
Hash newer_than_told(const Hash& told) {
  std::map<std::string, std::uint64_t> newest;
  for (const Hash::Element& rank : told.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      std::uint64_t& known = newest[name.key];
      known = std::max(known, number(name.hash, "DATASET"));
    }
  }
  Hash answers;
  for (const Hash::Element& rank : told.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      const std::uint64_t known = newest.at(name.key);
      if (known <= number(name.hash, "DATASET")) continue;
      answers.at(rank.key).at(name.key).set_value("DATASET", known);
    }
  }
  return answers;
}

}  // namespace

// Collective: of each name of which this process has a version in the cache, the dataset with the
// newest one, which another process may have. The shared files of `unreadable` ones do not count.
Session::NewestVersions Session::newest_cached(const std::set<int>& unreadable) {
  NewestVersions newest;
  for (const CachedDataset& dataset : runtime_->cached()) {
    if (!dataset.usable) continue;
    const int id = dataset.dataset.id;
    for (const FilemapEntry* entry : runtime_->own_entries(dataset.dataset)) {
      if (is_native(*entry)) continue;
      for (const FileMeta& meta : entry->files) {
        const bool shared = !meta.shared.empty();
        if (meta.type != FileType::kFull || (shared && unreadable.contains(id))) continue;
        int& known = newest[shared ? meta.shared : meta.file];
        known = std::max(known, id);
      }
    }
  }
  Communicator& world = runtime_->context().world();
  if (world.size() == 1) return newest;
  Hash send;
  for (const auto& [relative, dataset] : newest) {
    send.at(keeper_of(relative, world)).at(relative).set_value("DATASET", dataset);
  }
  Hash told;
  Status status = exchange_hashes(world, send, told);
  if (!status.ok()) log::error("{}", status.message());
  Hash newer;
  status = exchange_hashes(world, newer_than_told(told), newer);
  if (!status.ok()) log::error("{}", status.message());
  for (const Hash::Element& rank : newer.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      newest[name.key] = static_cast<int>(number(name.hash, "DATASET"));
    }
  }
  return newest;
}

// Collective: where the files of a dataset that was already in the cache are now. Of a file of
// which there is a `newest` version nobody is to find an older one, whose note would stay when that
// one is flushed. False: its shared files cannot be read.
bool Session::announce_cached(const CachedDataset& dataset, const NewestVersions& newest) {
  const int id = dataset.dataset.id;
  const auto entries = runtime_->own_entries(dataset.dataset);
  if (runtime_->is_in_prefix(id)) {
    // Notes of the run before name services that are gone.
    flushed_.insert(id);
    for (const FilemapEntry* entry : entries) settle_markers(*entry);
    return true;
  }
  int number = 0;
  Status status;
  for (const FilemapEntry* entry : entries) {
    Status one = announce_entry(*entry, number, newest);
    if (status.ok()) status = one;
  }
  // Without one of its logs a shared file would have holes where that log has bytes.
  status = agree(runtime_->context().world(), status,
                 fmt::format("finding the shared files of dataset {} in the cache", id));
  if (status.ok()) return true;
  log::warning("{}; they are not read from there", status.message());
  for (const FilemapEntry* entry : entries) hide_shared(*entry);
  services_.forget_sealed(id);
  return false;
}

// Nobody finds the shared files of a dataset any more; where there is an older file of the name,
// that is found.
void Session::hide_shared(const FilemapEntry& entry) {
  for (const FileMeta& meta : entry.files) {
    if (meta.shared.empty()) continue;
    auto marker = markers_->find(meta.shared);
    if (marker.ok() && *marker && (*marker)->dataset == entry.dataset.id) drop_marker(**marker);
  }
}

// What an earlier run has left of a shared file, on the process that has a log of it now. A file of
// which there is a newer version is known to the homes, for flushes, but not found by its name.
Status Session::announce_log(const FilemapEntry& entry, const FileMeta& meta, bool is_newest) {
  const int dataset = entry.dataset.id;
  SCR_ASSIGN_OR_RETURN(const auto log, services_.announce(entry, meta));
  if (!log.first || !is_newest) return {};
  std::uint64_t generation = 1;
  // A file at the name may be newer: a flush keeps this time.
  std::int64_t written = log.written;
  if (auto old = markers_->find(meta.shared); old.ok() && *old && (*old)->dataset == dataset) {
    generation = (*old)->generation;
    written = (*old)->written;
  }
  Marker marker = make_marker(meta.shared, dataset, entry.dataset.created, 0, generation);
  marker.id = log.file;
  marker.shared = true;
  marker.written = written;
  return markers_->put(marker, markers_visible(/*at_start=*/true));
}

// The program has deleted this file of the dataset before it was flushed, in this run or one
// before.
bool Session::is_deleted(const std::string& relative, int dataset) {
  auto deleted = markers_->find_deletion(relative);
  if (!deleted.ok() || !*deleted || (*deleted)->dataset < dataset) return false;
  gone_[dataset][relative] = (*deleted)->replaced ? kReplaced : (*deleted)->written;
  int& hidden = hidden_[prefix() + "/" + relative];
  hidden = std::max(hidden, (*deleted)->dataset);
  return true;
}

Status Session::announce_entry(const FilemapEntry& entry, int& number,
                               const NewestVersions& newest) {
  if (is_native(entry)) return {};
  const int id = entry.dataset.id;
  Status first;
  const auto is_newest = [&](const std::string& relative) {
    const auto known = newest.find(relative);
    return known == newest.end() || known->second <= id;
  };
  for (const FileMeta& meta : entry.files) {
    if (meta.type != FileType::kFull) continue;
    if (!meta.shared.empty()) {
      const bool found = is_newest(meta.shared) && !is_deleted(meta.shared, id);
      Status status = services_.homes() ? announce_log(entry, meta, found) : Status();
      if (first.ok()) first = status;
      continue;
    }
    const int place = number++;
    if (!is_newest(meta.file) || is_deleted(meta.file, id)) continue;
    std::uint64_t generation = 1;
    if (auto old = markers_->find(meta.file); old.ok() && *old) generation = (*old)->generation;
    publish(make_marker(meta.file, id, entry.dataset.created, place, generation),
            entry.directory + "/" + meta.file, /*at_start=*/true);
  }
  return first;
}

// It is in the prefix directory, and perhaps no longer in the cache.
bool Session::is_flushed(int dataset) const {
  return flushed_.contains(dataset) || runtime_->is_in_prefix(dataset);
}

// Datasets that have reached the prefix directory since the last look.
void Session::note_flushed() {
  if (!runtime_) return;
  for (const CachedDataset& cached : runtime_->cached()) {
    const int id = cached.dataset.id;
    if (!runtime_->is_in_prefix(id) || flushed_.contains(id)) continue;
    for (const FilemapEntry* entry : runtime_->own_entries(cached.dataset)) {
      settle_markers(*entry);
    }
    note_dataset_flushed(id);
  }
}

// The real files have taken the places of the markers; in containers the markers say so.
void Session::settle_markers(const FilemapEntry& entry) {
  const bool containers = config()->get_bool("SCR_USE_CONTAINERS");
  for (const FileMeta& meta : entry.files) {
    if (meta.type != FileType::kFull) continue;
    const bool shared = !meta.shared.empty();
    auto marker = markers_->find(shared ? meta.shared : meta.file);
    bool ours = marker.ok() && *marker && (*marker)->dataset == entry.dataset.id;
    if (shared && ours) ours = (*marker)->rank == runtime_->context().rank();
    if (ours && containers) {
      point_to_container(**marker);
    } else if (ours) {
      drop_marker(**marker);
    }
  }
}

void Session::dataset_flushed(const FilemapEntry& entry) {
  if (flushed_.contains(entry.dataset.id)) return;
  settle_markers(entry);
  note_dataset_flushed(entry.dataset.id);
}

// What is at the name is of a newer dataset.
bool Session::is_flushed_again(const std::string& relative, int id) {
  return std::ranges::any_of(runtime_->cached(), [&](const CachedDataset& cached) {
    const int newer = cached.dataset.id;
    if (newer <= id || !runtime_->is_in_prefix(newer)) return false;
    auto exists = fs_.exists(runtime_->cached_directory(newer) + "/" + relative);
    return exists.ok() && *exists;
  });
}

// The flush has brought a deleted file to the prefix directory: from its name it is taken away
// again, in a container it stays, and so does the note.
Status Session::settle_deletion(const std::string& relative, int id) {
  SCR_ASSIGN_OR_RETURN(const auto note, markers_->find_deletion(relative));
  if (!note || note->dataset != id || settle_flushed(*note)) return {};
  return markers_->forget_deletion(relative, id);
}

void Session::note_dataset_flushed(int id) {
  if (!flushed_.insert(id).second) return;
  report_.count_flushed();
  const auto gone = gone_.find(id);
  if (gone == gone_.end()) return;
  for (const auto& [relative, written] : gone->second) {
    auto info = fs_.info(prefix() + "/" + relative);
    const bool stays = written == kReplaced ||
                       (info.ok() && written != 0 && !is_time_of_copy(info->mtime_ns, written)) ||
                       is_flushed_again(relative, id);
    Status status = stays ? Status() : fs_.remove_if_exists(prefix() + "/" + relative);
    // The program may have taken the directory away, too.
    if (status.ok() && !stays) status = flush::remove_made(fs_, prefix(), {parent_of(relative)});
    if (status.ok()) status = settle_deletion(relative, id);
    if (!status.ok()) log::warning("{}", status.message());
    // The name may be in use again.
    auto newer = markers_->find(relative);
    if (newer.ok() && *newer && (*newer)->dataset > id) {
      Status put = markers_->put(**newer, markers_visible());
      if (!put.ok()) log::warning("{}", put.message());
    }
  }
}

void Session::drop_marker(const Marker& marker) {
  Status status = markers_->drop(marker);
  if (!status.ok()) log::warning("{}", status.message());
}

void Session::point_to_container(Marker marker) {
  marker.container = true;
  marker.service.clear();
  // The data is in the prefix directory: nothing is lost by a rename.
  const bool visible = !marker.gone && config()->get_string("SCR_MARKERS") == "close";
  Status status =
      markers_->put(marker, visible ? MarkerStore::Visible::kYes : MarkerStore::Visible::kNo);
  if (!status.ok()) log::warning("{}", status.message());
}

// The dataset leaves the cache, and no flush brings the deleted file back; a container may have an
// older version.
void Session::forget_deletion(const std::string& relative, int id) {
  const auto note = markers_->find_note(relative);
  if (!note.ok() || !*note || !(*note)->gone || (*note)->dataset != id) return;
  auto stored = stored_version(relative);
  Status status;
  if (!stored) {
    status = markers_->forget_deletion(relative, id);
  } else if ((*note)->replaced) {
    status = markers_->bury_replaced(*stored);
  } else {
    status = markers_->bury(*stored);
  }
  if (!status.ok()) log::warning("{}", status.message());
}

void Session::dataset_gone(const FilemapEntry& entry) {
  const int id = entry.dataset.id;
  if (runtime_->is_in_prefix(id)) {
    dataset_flushed(entry);
  } else {
    for (const FileMeta& meta : entry.files) {
      const std::string& relative = meta.shared.empty() ? meta.file : meta.shared;
      auto marker = markers_->find(relative);
      if (marker.ok() && *marker && (*marker)->dataset == id) drop_marker(**marker);
      forget_deletion(relative, id);
    }
  }
  services_.forget_sealed(id);
  const int rank = runtime_->context().rank();
  for (std::size_t i = 0; i < entry.files.size(); ++i) {
    auto file = service::make_id(id, rank, static_cast<std::int64_t>(i));
    if (file.ok()) services_.withdraw(*file);
  }
}

// The dataset cannot be completed; what the program wrote goes to its names, as without h5scr.
bool Session::rescue(const FilemapEntry& entry) {
  bool all = true;
  for (const auto& [absolute, file] : window_) {
    const std::string temporary = path_beside(absolute, "", ".scr-rescue");
    Status status = make_temporary(fs_, temporary, absolute);
    if (status.ok()) status = copy_file(fs_, file.path, temporary);
    if (status.ok()) status = rename_durably(temporary, absolute);
    if (!status.ok()) {
      log::error(
          "'{}' could not be written ({}); its data stays in '{}' on {}: save it before the "
          "next run",
          absolute, status.message(), file.path, host());
      (void)fs_.remove_if_exists(temporary);
      all = false;
    }
    drop_marker(file.marker);
  }
  if (seals_shared_) all = rescue_shared() && all;
  if (!entry.files.empty()) {
    log::warning("the files of dataset {} are written to their names, without protection",
                 entry.dataset.id);
  }
  return all;
}

}  // namespace scr::routing
