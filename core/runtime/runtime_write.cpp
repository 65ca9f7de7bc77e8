// Writing a dataset: start, route, complete.
//
// States, each on disk before the next is claimed: the entry with the dataset's descriptor
// (started), each file's name (registered), sizes (written), checksums and redundancy files
// (encoded), the mark COMPLETE (sealed). Only when every rank has the mark may an older dataset
// leave the cache.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/single_writers.hpp"
#include "core/scr.h"
#include "core/shared_file/log.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/made_directories.hpp"
#include "flush/rank_filemap.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

// Whether the program's buffer can hold the path.
Status check_length(const std::string& path) {
  if (path.size() < SCR_MAX_FILENAME) return {};
  return invalid_argument(
      fmt::format("the path '{}' is longer than SCR_MAX_FILENAME ({})", path, SCR_MAX_FILENAME));
}

}  // namespace

// --- start

Status Runtime::start_dataset(const std::optional<std::string>& name, int flags,
                              const Status& arguments) {
  if (in_dataset()) {
    return wrong_moment(
        "a dataset was started while another is being written; complete that one first");
  }
  if (in_restart_) {
    return wrong_moment("a dataset was started during a restart; call SCR_Complete_restart first");
  }
  Context& c = *context_;
  c.meet("the start of a dataset");
  SCR_RETURN_IF_ERROR(agree(c.world(), arguments, "starting a dataset"));
  if (c.rank() == 0) log_.end(compute_event_);
  timer_.start_checkpoint(now());
  poll_flushes();

  SCR_RETURN_IF_ERROR(announce(name.value_or(""), flags));
  const DatasetDescriptor& dataset = writing_->dataset;
  if (dataset.is_checkpoint()) last_checkpoint_ = dataset.checkpoint;
  if (c.rank() == 0) {
    writing_->event =
        log_.begin(dataset.is_checkpoint() ? EventType::kCheckpoint : EventType::kOutput,
                   dataset.id, dataset.name);
  }
  Status status = begin_writing();
  if (!status.ok()) return abandon(status);
  return {};
}

// Rank 0 makes the descriptor of the next dataset; everyone starts to write it.
Status Runtime::announce(const std::string& name, int flags) {
  Context& c = *context_;
  Hash message;
  if (c.rank() == 0) message = describe(name, flags).to_hash();
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), message, 0));
  SCR_ASSIGN_OR_RETURN(DatasetDescriptor dataset, DatasetDescriptor::from_hash(message));
  last_dataset_ = dataset.id;
  writing_.emplace();
  writing_->redundancy = &c.redundancy_for(dataset.id, dataset.output);
  writing_->dataset = std::move(dataset);
  return {};
}

DatasetDescriptor Runtime::describe(const std::string& name, int flags) {
  DatasetDescriptor dataset;
  dataset.id = last_dataset_ + 1;
  dataset.name = name.empty() ? fmt::format("scr.dataset.{}", dataset.id) : name;
  // Of two datasets with the same file names the one with the later time counts, so no clock that
  // was set back may make this one older than what is there.
  const std::int64_t time = std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
  dataset.created = last_created_ = std::max(time, last_created_ + 1);
  dataset.user = context_->job().user;
  dataset.job_name = context_->job().job_name;
  dataset.job_id = context_->job().job_id;
  dataset.cluster = context_->job().cluster;
  if ((flags & kFlagCheckpoint) != 0) dataset.checkpoint = last_checkpoint_ + 1;
  dataset.output = (flags & kFlagOutput) != 0;
  dataset.ranks = context_->size();
  return dataset;
}

// Decides between cache and prefix directory, and makes the dataset directory.
Status Runtime::begin_writing(bool fetching) {
  Context& c = *context_;
  const ActiveRedundancy& redundancy = *writing_->redundancy;
  const Store& store = *redundancy.store;
  writing_->bypass = redundancy.descriptor.bypass && !fetching;
  bool room = writing_->bypass || has_room(store);
  if (!room && c.config().get_bool("SCR_CACHE_DELETE_FIRST")) {
    SCR_RETURN_IF_ERROR(
        agree(c.world(), evict(store.descriptor.directory, 0), "making room in the cache"));
    room = has_room(store);
  }
  if (!room && !fetching) room = evict_flushed(store);
  if (!room) {
    writing_->bypass = true;
    if (c.rank() == 0) {
      log::warning("no room in '{}' for dataset {} beside the one before: it goes straight to '{}'",
                   store.descriptor.directory, writing_->dataset.id, c.job().prefix);
    }
  }
  StoredDescriptor descriptor;
  descriptor.index = redundancy.descriptor.index;
  descriptor.store = store.descriptor.directory;
  descriptor.directory = fmt::format("index.{}/dataset.{}", descriptor.index, writing_->dataset.id);
  descriptor.sets = redundancy.sets;
  // A dataset that bypasses the cache is listed too, with its temporary names in the prefix
  // directory, so that a killed run leaves nothing that the next does not know of.
  Status status = cache_->update(c.rank(), writing_->dataset.id, [&](FilemapEntry& entry) {
    entry.dataset = writing_->dataset;
    entry.directory =
        writing_->bypass ? c.job().prefix : redundancy.dataset_directory(writing_->dataset.id);
    entry.redundancy = descriptor.to_hash();
  });
  if (writing_->bypass) {
    if (c.rank() == 0 && c.config().get_bool("SCR_USE_CONTAINERS")) {
      log::info("dataset {} goes past the cache, and so not into containers", writing_->dataset.id);
    }
    return agree(c.world(), status, "starting a dataset");
  }
  // On a node's own storage each process may make the directory; where several nodes share it, one
  // does.
  const bool shared = store.descriptor.group != "NODE";
  if (status.ok() && (!shared || store.group->rank() == 0)) {
    status = c.fs().make_directories(At(*store.directory, descriptor.directory), 0700);
  }
  if (shared) store.group->barrier();
  if (status.ok()) {
    auto directory = c.fs().open_directory(At(*store.directory, descriptor.directory));
    if (directory.ok()) writing_->directory = std::move(*directory);
    status = directory.status();
  }
  return agree(c.world(), status, "making the dataset directory");
}

// --- route

Result<std::string> Runtime::route_file(std::string_view name) {
  auto absolute = normalize(name);
  Result<std::string> path = !absolute.ok() ? absolute.status()
                             : in_dataset() ? route_for_writing(*absolute)
                                            : route_for_reading(*absolute);
  if (path.ok()) {
    if (Status status = check_length(*path); !status.ok()) path = status;
  }
  if (!path.ok()) log::error("{}", path.status().message());
  if (!path.ok() && in_dataset() && writing_->refused.ok()) writing_->refused = path.status();
  return path;
}

Result<std::string> Runtime::relative_to_prefix(const std::string& absolute) const {
  auto relative = relative_to(absolute, context_->job().prefix);
  if (!relative || *relative == ".") {
    return invalid_argument(
        fmt::format("'{}' is not inside the prefix directory '{}'; set SCR_PREFIX", absolute,
                    context_->job().prefix));
  }
  if (*relative == ".scr" || relative->starts_with(".scr/")) {
    return invalid_argument(fmt::format("'{}' is inside h5scr's own directory", absolute));
  }
  return safe_relative_path(*relative);
}

Result<std::string> Runtime::route_for_writing(const std::string& absolute,
                                               const std::string& shared) {
  SCR_ASSIGN_OR_RETURN(std::string relative, relative_to_prefix(absolute));
  if (flush::is_redundancy_file_name(relative)) {
    return invalid_argument(fmt::format(
        "'{}' has a name that h5scr gives to redundancy data; give it another one", absolute));
  }
  FileSystem& fs = context_->fs();
  const std::string parent = parent_of(relative);
  FileMeta meta;
  meta.file = relative;
  meta.ranks = context_->size();
  meta.original = absolute;
  meta.path = parent_of(absolute);
  meta.name = absolute.substr(absolute.rfind('/') + 1);
  meta.shared = shared;
  const int id = writing_->dataset.id;
  if (writing_->bypass) meta.file = flush::temporary_name(relative, writing_->dataset);
  const std::string file = meta.file;
  const std::string& base = writing_->bypass ? context_->job().prefix : writing_->directory->path();
  SCR_RETURN_IF_ERROR(check_length(base + "/" + file));
  SCR_RETURN_IF_ERROR(cache_->add_file(context_->rank(), id, std::move(meta)));
  if (!parent.empty()) {
    SCR_RETURN_IF_ERROR(writing_->bypass
                            ? flush::make_missing(fs, base, nullptr, parent, writing_->made)
                            : fs.make_directories(At(*writing_->directory, parent), 0700));
  }
  return base + "/" + file;
}

// --- complete

Status Runtime::complete_dataset(bool valid) {
  if (!in_dataset()) return wrong_moment("a dataset was completed, but none was started");
  Context& c = *context_;
  c.meet("the completion of dataset " + std::to_string(writing_->dataset.id));
  const bool bypass = writing_->bypass;
  Status status = check_writers();
  if (status.ok() && bypass) {
    status = complete_bypassed(valid);
  } else if (status.ok()) {
    status = agree(c.world(), record_files(valid), "completing the dataset");
    if (status.ok()) status = encode();
    if (status.ok()) status = seal();
  }
  if (!status.ok()) return abandon(status);
  const bool checkpoint = writing_->dataset.is_checkpoint();
  end_writing(status);
  const std::uint64_t keep = c.config().get_uint("SCR_PREFIX_SIZE");
  if (bypass && keep > 0) trim_prefix(keep);
  poll_flushes();
  status = flush_if_due();
  if (!status.ok() && c.rank() == 0) log::warning("{}", status.message());
  if (auto reason = halt_reason(checkpoint); reason && c.config().get_bool("SCR_HALT_EXIT")) {
    must_exit_ = true;
  }
  return {};
}

// Collective. For programs that do not call SCR_* the session has settled which version of a file
// that several ranks wrote counts.
Status Runtime::check_writers() {
  if (context_->transparent()) return {};
  const FilemapEntry* entry = cache_->filemap().get(context_->rank(), writing_->dataset.id);
  const std::span<const FileMeta> files = entry ? entry->files : std::span<const FileMeta>();
  return check_single_writers(context_->world(), files);
}

// A file that a program could not even get a path for is missing. A name that may not be used is
// the program's own fault, which its `valid` tells of; but who had no other has nothing to restart
// from. (For programs that do not call SCR_* the session writes such a file elsewhere.)
Status Runtime::check_routes() const {
  if (context_->transparent() || writing_->refused.ok()) return {};
  const FilemapEntry* entry = cache_->filemap().get(context_->rank(), writing_->dataset.id);
  const bool bad_name = writing_->refused.code() == StatusCode::kInvalidArgument;
  if (bad_name && entry != nullptr && !entry->files.empty()) return {};
  return failed_precondition(fmt::format("SCR_Route_file failed for rank {} ({})", context_->rank(),
                                         writing_->refused.message()));
}

// Sizes of the own files (one that was registered and not written is an error), and the names of
// the redundancy files to come.
Status Runtime::record_files(bool valid) {
  const int id = writing_->dataset.id;
  FilemapEntry entry = *cache_->filemap().get(context_->rank(), id);
  std::array<std::uint64_t, 2> sums = {0, 0};
  Status status = check_routes();
  for (FileMeta& meta : entry.files) {
    auto info = context_->fs().info(At(*writing_->directory, meta.file));
    if (!info.ok()) {
      status = info.status().with_context("a file was registered and not written");
      break;
    }
    meta.size = info->size;
    meta.mtime_ns = info->mtime_ns;
    meta.complete = valid;
    const auto known = known_checksums_.find(writing_->directory->path() + "/" + meta.file);
    if (known != known_checksums_.end()) meta.crc = known->second;
    if (!meta.shared.empty()) {
      const auto log =
          shared_file::read_log_footer(context_->fs(), At(*writing_->directory, meta.file));
      status = log.status();
      if (!status.ok()) break;
      if (log->rank == log->first_rank) meta.shared_size = log->size;
    }
    sums[0] += info->size;
    sums[1] += 1;
  }
  if (!valid)
    status = failed_precondition(fmt::format(
        "the program marked its files of dataset {} ('{}') invalid", id, writing_->dataset.name));
  context_->world().all_reduce(sums, ReduceOp::kSum);
  writing_->dataset.size = sums[0];
  writing_->dataset.files = sums[1];
  flush::FlushDescriptor descriptor;
  descriptor.keep_newer = context_->transparent();
  if (context_->config().get_bool("SCR_USE_CONTAINERS")) plan_containers(entry, descriptor);
  entry.flush = descriptor.to_hash();
  if (!status.ok()) return status;
  entry.dataset = writing_->dataset;
  for (const auto& set : writing_->redundancy->sets) {
    if (set.scheme == redundancy::Scheme::kSingle) continue;
    FileMeta meta;
    meta.file = set.file_name(set.index_of(context_->rank()));
    meta.type = redundancy::redundancy_file_type(set.scheme);
    meta.ranks = context_->size();
    entry.put(std::move(meta));
  }
  return cache_->update(context_->rank(), id, [&](FilemapEntry& e) { e = std::move(entry); });
}

// Collective: where the files would be in containers, so that a serial copy after a crash
// (scr_copy) writes the same ones that a flush does.
void Runtime::plan_containers(const FilemapEntry& entry, flush::FlushDescriptor& descriptor) {
  descriptor.layout.container_size = context_->config().get_bytes("SCR_CONTAINER_SIZE");
  descriptor.layout.container_parity = context_->config().get_uint("SCR_CONTAINER_PARITY");
  std::uint64_t bytes = 0;
  const std::vector<flush::FinalFile> files = flush::final_files(entry.files);
  for (const flush::FinalFile& file : files) bytes += file.size;
  std::uint64_t offset = flush::offset_in_stream(context_->world(), context_->node(), bytes);
  for (const flush::FinalFile& file : files) {
    descriptor.segments[file.name] =
        flush::place_in_containers(offset, file.size, descriptor.layout.container_size);
    offset += file.size;
  }
}

// Encodes every set of this rank. All processes come to all their sets, whatever happened in one of
// them.
Status Runtime::encode() {
  Context& c = *context_;
  const int id = writing_->dataset.id;
  FilemapEntry entry = *cache_->filemap().get(c.rank(), id);
  SCR_ASSIGN_OR_RETURN(StoredDescriptor descriptor, StoredDescriptor::from_hash(entry.redundancy));
  std::vector<const redundancy::RedundancySet*> sets;
  for (const auto& set : descriptor.sets) sets.push_back(&set);
  std::sort(sets.begin(), sets.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  Status status;

  EventToken event = log_.begin(EventType::kEncode, id, writing_->dataset.name);
  for (const auto* set : sets) {
    redundancy::MemberFiles member = member_files(entry, descriptor, *set, c.rank());
    member.redundancy.file = set->file_name(member.index);
    Status one = redundancy::encode(c.world(), c.fs(), *writing_->directory, writing_->dataset,
                                    *set, member);
    if (one.ok()) {
      for (const FileMeta& meta : member.files) entry.put(meta);
      if (set->scheme != redundancy::Scheme::kSingle) entry.put(member.redundancy);
    } else if (status.ok()) {
      status = one;
    }
  }
  entry.expected_files = static_cast<int>(entry.files.size());
  if (status.ok()) status = cache_->update(c.rank(), id, [&](FilemapEntry& e) { e = entry; });
  status = agree(c.world(), status, "writing redundancy data");
  log_.end(
      event,
      {.ok = status.ok(), .bytes = writing_->dataset.size, .note = std::string(status.message())});
  return status;
}

// Every rank has its files and redundancy data on disk: mark the dataset complete, then let older
// ones go.
Status Runtime::seal() {
  Context& c = *context_;
  writing_->dataset.complete = true;
  Status status = cache_->update(c.rank(), writing_->dataset.id,
                                 [&](FilemapEntry& entry) { entry.dataset.complete = true; });
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "marking the dataset complete"));
  std::uint64_t bytes = 0;
  for (const FileMeta& meta : cache_->filemap().get(c.rank(), writing_->dataset.id)->files)
    bytes += meta.size;
  last_node_bytes_ = c.node().all_reduce(bytes, ReduceOp::kSum);
  const CachedDataset sealed{.dataset = writing_->dataset,
                             .usable = true,
                             .verified = true,
                             .store = writing_->redundancy->store->descriptor.directory};
  cached_.insert(std::upper_bound(cached_.begin(), cached_.end(), sealed,
                                  [](const CachedDataset& a, const CachedDataset& b) {
                                    return a.dataset.id < b.dataset.id;
                                  }),
                 sealed);
  // The dataset is safe: from here on a failure is a warning.
  status = remember(sealed);
  if (!status.ok()) log::warning("{}", status.message());
  tell_alive();  // before the next step, which may wait for a slow flush
  in_place_.reset();
  const Store& store = *writing_->redundancy->store;
  status = evict(store.descriptor.directory, std::max<std::uint64_t>(store.descriptor.count, 1));
  if (!status.ok()) log::warning("{}", status.message());
  return {};
}

Status Runtime::abandon(const Status& why) {
  const int id = writing_->dataset.id;
  if (context_->rank() == 0) {
    log::warning("dataset {} ('{}') is dropped: {}", id, writing_->dataset.name, why.message());
  }
  if (why.code() == StatusCode::kNoSpace && !writing_->bypass) outgrown_ = true;
  bool saved = true;
  if (const FilemapEntry* entry = cache_->filemap().get(context_->rank(), id);
      entry != nullptr && on_abandon_) {
    saved = on_abandon_(*entry);
  }
  Status status = saved ? cache_->remove_dataset(id) : Status();
  if (!status.ok()) log::warning("{}", status.message());
  end_writing(why);
  return why;
}

void Runtime::end_writing(const Status& status) {
  timer_.end_checkpoint(now(), status.ok());
  if (context_->rank() == 0) {
    log_.end(writing_->event, {.ok = status.ok(),
                               .bytes = writing_->dataset.size,
                               .files = writing_->dataset.files,
                               .note = std::string(status.message())});
    compute_event_ = log_.begin(EventType::kCompute);
  }
  writing_.reset();
  known_checksums_.clear();
  restart_below_ = 0;
}

}  // namespace scr
