// Fetch: which checkpoint of the prefix directory a restart uses, and how it comes back to the
// cache.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/progress.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/fetch.hpp"
#include "flush/index.hpp"
#include "flush/parity.hpp"

namespace scr {

namespace {

constexpr int kTurnTag = 421;

// The summary is there, whole, and of the dataset that the index says.
Status check_summary(FileSystem& fs, const std::string& directory,
                     const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(flush::Summary summary, flush::read_summary(fs, directory));
  const bool same = summary.dataset.id == dataset.id && summary.dataset.created == dataset.created;
  if (summary.complete && same) return {};
  return corrupt(
      fmt::format("'{}/{}' {}", directory, flush::kSummaryName,
                  same ? "says that the dataset is not complete" : "is of another dataset"));
}

std::uint64_t bytes_to_cache(const flush::RankFiles& files) {
  std::uint64_t bytes = 0;
  for (const flush::StoredFile& file : files) bytes += file.to_cache() ? file.size : 0;
  return bytes;
}

bool any_contained(const flush::RankFiles& files) {
  return std::ranges::any_of(files, [](const auto& file) { return file.contained(); });
}

// A file names it for every run; scr_run says which run is not the first of its job.
std::string wanted_by_name(const config::Config& config) {
  const config::Source source = config.origin("SCR_CURRENT").source;
  const bool of_file = source == config::Source::kUserFile || source == config::Source::kSystemFile;
  const bool again = config::Environment::current().get("SCR_RUN_AGAIN").has_value();
  return of_file && again ? std::string() : config.get_string("SCR_CURRENT");
}

}  // namespace

// On rank 0: the checkpoints of the prefix directory that a restart should use rather than what the
// cache has, best first: newer ones, or the one that the user has chosen and those before it.
Result<Hash> Runtime::list_restarts(const CachedDataset* cached) {
  Context& c = *context_;
  Hash message;
  SCR_ASSIGN_OR_RETURN(flush::Index index, flush::read_index(c.fs(), c.job().prefix));
  const bool chosen = restart_below_ == 0 && user_chose(index, cached);
  const bool all = chosen || cached == nullptr || c.config().get_bool("SCR_GLOBAL_RESTART");
  if (chosen) message.set_value("CHOSEN", 1);
  int position = 0;
  for (const auto* entry : index.restart_candidates()) {
    if (!all && entry->dataset.created <= cached->dataset.created) continue;
    if (restart_below_ > 0 && entry->id() >= restart_below_) continue;
    Hash& candidate = message.at("LIST").at(std::to_string(position++));
    candidate.set_value("DIR", entry->directory);
    candidate.set("DSET", entry->dataset.to_hash());
  }
  return message;
}

// Whether a user said which checkpoint to restart from: by SCR_CURRENT, which becomes current here,
// or by making one current that is not the newest. What was written since then counts for more.
bool Runtime::user_chose(flush::Index& index, const CachedDataset* cached) {
  const Context& c = *context_;
  const std::string wanted = wanted_by_name(c.config());
  if (const flush::IndexEntry* entry = index.find_name(wanted); entry && !wanted.empty()) {
    index.set_current(std::string(entry->directory));
    return true;
  }
  if (!wanted.empty()) log::warning("SCR_CURRENT names '{}', which is not in the index", wanted);
  return cached != nullptr &&
         flush::made_current_since(c.fs(), c.job().prefix, index, cached->dataset.created);
}

// A dataset that had no room in the cache went straight to the prefix directory; who has switched
// fetching off for other reasons should know of it.
void Runtime::tell_of_unfetched(const CachedDataset* cached) {
  const auto index = flush::read_index(context_->fs(), context_->job().prefix);
  if (!index.ok()) return;
  const auto candidates = index->restart_candidates();
  if (candidates.empty()) return;
  const DatasetDescriptor& newest = candidates.front()->dataset;
  if (cached != nullptr && newest.created <= cached->dataset.created) return;
  log::warning(
      "dataset {} ('{}') in '{}' is newer than what the cache has and is not used: "
      "SCR_FETCH=0",
      newest.id, newest.name, context_->job().prefix);
}

// Brings the checkpoint to restart from to the cache, if that has none, or an older one, or not the
// one that the user wants.
Status Runtime::fetch_newest() {
  Context& c = *context_;
  const CachedDataset* cached = restart_candidate();
  if (!c.config().get_bool("SCR_FETCH")) {
    if (c.rank() == 0) tell_of_unfetched(cached);
    return {};
  }
  Result<Hash> listed = Hash();
  if (c.rank() == 0) listed = list_restarts(cached);
  SCR_RETURN_IF_ERROR(agree(c.world(), listed.status(), "reading the index"));
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), *listed, 0));
  const Hash* list = listed->get("LIST");
  const bool chosen = listed->contains("CHOSEN");
  bool passed_over = false;  // one that may be sound
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Hash& candidate = *list->get(std::to_string(i));
    SCR_ASSIGN_OR_RETURN(DatasetDescriptor dataset,
                         DatasetDescriptor::from_hash(*candidate.get("DSET")));
    SCR_ASSIGN_OR_RETURN(std::string directory_name, candidate.require_value("DIR"));
    Status status = is_usable_in_cache(dataset) && !reads_in_place()
                        ? Status()
                        : try_fetch(dataset, directory_name, !passed_over);
    if (status.ok()) {
      if (chosen) restart_from(dataset);
      return {};
    }
    passed_over = passed_over || status.may_hide_sound_data();
    // Another number of ranks is no fault of the data.
    if (status.code() != StatusCode::kFailedPrecondition) continue;
    if (cached == nullptr) return status;
    break;
  }
  return {};
}

bool Runtime::is_usable_in_cache(const DatasetDescriptor& dataset) {
  const CachedDataset* cached = find_cached_id(dataset.id);
  return cached != nullptr && cached->usable && cached->dataset.created == dataset.created;
}

// Of what the cache has, newer checkpoints stay, but are not offered in this run.
void Runtime::restart_from(const DatasetDescriptor& dataset) {
  const bool newer = std::any_of(cached_.begin(), cached_.end(), [&](const CachedDataset& cached) {
    return cached.usable && cached.dataset.is_checkpoint() && cached.dataset.id > dataset.id;
  });
  if (newer && context_->rank() == 0) {
    log::warning(
        "restarting from dataset {} ('{}'), which is current, although a newer one is in "
        "the cache",
        dataset.id, dataset.name);
  }
  restart_below_ = dataset.id + 1;
}

// With `make_current` a later run begins with this one, too.
Status Runtime::try_fetch(const DatasetDescriptor& dataset, const std::string& directory_name,
                          bool make_current) {
  const bool tells = context_->rank() == 0;
  EventToken event;
  if (tells) event = log_.begin(EventType::kFetch, dataset.id, dataset.name);
  Status status = fetch(dataset, directory_name);
  if (tells) {
    log_.end(event,
             {.ok = status.ok(), .bytes = dataset.size, .note = std::string(status.message())});
    if (status.ok())
      log::info("dataset {} ('{}') {} the prefix directory", dataset.id, dataset.name,
                in_place_ ? "will be read in" : "fetched from");
    else
      log::warning("cannot fetch dataset {} ('{}'): {}", dataset.id, dataset.name,
                   status.message());
  }
  // Neither is a disk that is full or out of reach a fault of the data.
  const bool faulty = !status.ok() && status.code() != StatusCode::kFailedPrecondition &&
                      !status.may_hide_sound_data();
  if (status.ok() || faulty) mark_fetched(directory_name, status.ok(), make_current);
  return status;
}

void Runtime::mark_fetched(const std::string& directory_name, bool ok, bool make_current) {
  if (context_->rank() != 0) return;
  Status status = flush::update_index(
      context_->fs(), context_->job().prefix, [&](flush::Index& index) -> Status {
        flush::IndexEntry* entry = index.find_directory(directory_name);
        if (entry == nullptr) return {};
        (ok ? entry->fetched : entry->failed).push_back(flush::timestamp_now());
        if (ok && make_current) index.set_current(directory_name);
        if (!ok && index.current() == directory_name) index.set_current("");
        return {};
      });
  if (!status.ok()) log::warning("{}", status.message());
}

Status Runtime::fetch(const DatasetDescriptor& dataset, const std::string& directory_name) {
  Context& c = *context_;
  const std::string directory = c.prefix_scr() + "/" + directory_name;
  Status described;
  if (c.rank() == 0) described = check_summary(c.fs(), directory, dataset);
  SCR_RETURN_IF_ERROR(agree(c.world(), described, "reading the summary", Report::kQuiet));
  SCR_ASSIGN_OR_RETURN(auto shared, shared_files_of(directory));
  if (shared) return offer_in_place(dataset, directory_name, std::move(*shared));
  auto files = flush::read_rank2file(c.world(), c.fs(), directory);
  SCR_RETURN_IF_ERROR(agree(c.world(), files.status(), "reading rank2file", Report::kQuiet));
  const bool contained = c.world().any_true(any_contained(*files));
  if (reads_in_place()) {
    if (!contained) return offer_in_place(dataset, directory_name, std::move(*files));
    if (c.rank() == 0) {
      log::warning(
          "dataset {} ('{}') is in containers, so its files cannot be read where they are "
          "(SCR_FETCH_BYPASS, SCR_GLOBAL_RESTART): each rank gets its own files in the cache",
          dataset.id, dataset.name);
    }
    const CachedDataset* cached = find_cached_id(dataset.id);
    if (cached != nullptr && cached->usable) return {};
  }
  if (const CachedDataset* rival = find_cached_id(dataset.id)) {
    const bool another = rival->dataset.created != dataset.created;
    if (another && !is_in_prefix(rival->dataset.id)) {
      Status kept = keep_rival(dataset, rival->dataset, contained);
      if (!kept.ok()) return kept;
      return offer_in_place(dataset, directory_name, std::move(*files));
    }
    SCR_RETURN_IF_ERROR(make_way(dataset, directory_name, *files));
  }
  const Status status = fetch_to_cache(dataset, directory_name, *files);
  if (!contained && c.world().any_true(status.code() == StatusCode::kNoSpace)) {
    if (c.rank() == 0) {
      log::warning(
          "dataset {} ('{}') is not fetched to the cache: {}; its files are read in the prefix "
          "directory",
          dataset.id, dataset.name, status.message());
    }
    return offer_in_place(dataset, directory_name, std::move(*files));
  }
  return status;
}

// Like a dataset that the program writes, with files that come from the prefix directory.
Status Runtime::fetch_to_cache(const DatasetDescriptor& dataset, const std::string& directory_name,
                               const flush::RankFiles& files) {
  Context& c = *context_;
  writing_.emplace();
  writing_->dataset = dataset;
  writing_->dataset.complete = false;
  writing_->redundancy = &c.redundancy_for(dataset.id, dataset.output);
  expect_bytes(bytes_to_cache(files));
  Status status = begin_writing(/*fetching=*/true);
  if (status.ok() && writing_->bypass) {
    status = {StatusCode::kNoSpace, "there is no room for it in the cache"};
  }
  if (status.ok()) status = read_to_cache(directory_name, files);
  if (status.ok()) status = agree(c.world(), record_files(true), "fetching");
  if (status.ok()) status = encode();
  if (status.ok()) status = agree(c.world(), check_fetched(files), "fetching");
  if (status.ok()) status = seal();
  if (!status.ok()) (void)cache_->remove_dataset(dataset.id);
  writing_.reset();
  if (status.ok()) set_flush_state(dataset, false, true);
  return status;
}

// Two allocations that worked in the same prefix directory may have given the same id. What one of
// them has only in the cache stays there; plain files can be read without it. Ok: do that.
Status Runtime::keep_rival(const DatasetDescriptor& dataset, const DatasetDescriptor& rival,
                           bool contained) {
  const std::string what = fmt::format(
      "the cache has another dataset with the id {}, '{}', which is not in the prefix "
      "directory",
      rival.id, rival.name);
  if (contained) {
    return {StatusCode::kUnavailable,
            what + "; flush it (SCR_FLUSH_ON_RESTART, scr_postrun), and start again"};
  }
  if (context_->rank() == 0)
    log::warning("{}: it stays, and '{}' is read in the prefix directory", what, dataset.name);
  return {};
}

// Collective: remains of the same dataset in the cache that could not be rebuilt go, once it is
// certain that the prefix directory has it whole: in another run redundancy data may suffice.
Status Runtime::make_way(const DatasetDescriptor& dataset, const std::string& directory_name,
                         const flush::RankFiles& files) {
  SCR_RETURN_IF_ERROR(verify_in_prefix(dataset, directory_name, files));
  return agree(context_->world(), forget(dataset.id), "fetching");
}

// Collective: reads every file where it is; what is damaged in containers is repaired.
Status Runtime::verify_in_prefix(const DatasetDescriptor& dataset,
                                 const std::string& directory_name, const flush::RankFiles& files) {
  Context& c = *context_;
  return read_or_repair(directory_name, files, [&]() -> Status {
    return fetch_in_turns(
        files, fmt::format("check of dataset {}", dataset.id), [&](const auto& progress) {
          return flush::verify_files(c.fs(), c.job().prefix, directory_name, files,
                                     c.config().get_bytes("SCR_FILE_BUF_SIZE"), progress);
        });
  });
}

// Collective: if another number of processes wrote the dataset, and it has shared files only, these
// files, dealt out to the processes of this run; nothing otherwise.
Result<std::optional<flush::RankFiles>> Runtime::shared_files_of(const std::string& directory) {
  Context& c = *context_;
  Hash message;
  Status status;
  if (c.rank() == 0) {
    auto ranks = flush::read_rank_count(c.fs(), directory);
    status = ranks.status();
    bool only_shared = ranks.ok() && *ranks != c.size();
    flush::RankFiles all;
    for (int block = 0; only_shared && block < flush::rank2file_block_count(*ranks); ++block) {
      auto files = flush::read_rank2file_block(c.fs(), directory, block);
      if (status.ok()) status = files.status();
      if (!files.ok()) break;
      for (const auto& [rank, list] : *files) {
        for (const flush::StoredFile& file : list) {
          if (!file.fetch) continue;
          only_shared = only_shared && file.shared;
          all.push_back(file);
        }
      }
    }
    if (only_shared && status.ok() && !all.empty()) {
      message.set("FILES", flush::rank_files_to_hash(all));
    }
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "reading rank2file", Report::kQuiet));
  SCR_RETURN_IF_ERROR(broadcast_hash(c.world(), message, 0));
  const Hash* files = message.get("FILES");
  if (files == nullptr) return std::optional<flush::RankFiles>();
  SCR_ASSIGN_OR_RETURN(const flush::RankFiles all, flush::rank_files_from_hash(*files));
  flush::RankFiles mine;
  for (auto i = static_cast<std::size_t>(c.rank()); i < all.size();
       i += static_cast<std::size_t>(c.size())) {
    mine.push_back(all[i]);
  }
  return std::optional<flush::RankFiles>(std::move(mine));
}

bool Runtime::reads_in_place() const {
  return context_->config().get_bool("SCR_FETCH_BYPASS") ||
         context_->config().get_bool("SCR_GLOBAL_RESTART");
}

// The files stay where they are; every byte is read once, so that no damaged one is offered.
Status Runtime::offer_in_place(const DatasetDescriptor& dataset, const std::string& directory_name,
                               flush::RankFiles files) {
  SCR_RETURN_IF_ERROR(verify_in_prefix(dataset, directory_name, files));
  in_place_ = InPlace{{dataset, true, true, 0}, std::move(files)};
  return {};
}

// Collective: at most SCR_FETCH_WIDTH processes read at a time.
Status Runtime::fetch_in_turns(
    const flush::RankFiles& files, const std::string& what,
    const std::function<Status(const std::function<void(std::uint64_t)>& progress)>& read) {
  Context& c = *context_;
  const int width = std::max(1, static_cast<int>(c.config().get_uint("SCR_FETCH_WIDTH")));
  if (c.rank() >= width) c.world().receive({}, c.rank() - width, kTurnTag);
  Status mine = read(watch_progress(c.rank(), what, bytes_to_cache(files)));
  if (c.rank() + width < c.size()) c.world().send({}, c.rank() + width, kTurnTag);
  return agree(c.world(), mine, "fetching", Report::kQuiet);
}

// What was encoded is what was fetched: between the two it went through the cache device.
Status Runtime::check_fetched(const flush::RankFiles& files) {
  FilemapEntry entry = *cache_->filemap().get(context_->rank(), writing_->dataset.id);
  for (const flush::StoredFile& file : files) {
    if (!file.to_cache()) continue;
    const FileMeta* meta = entry.find(file.file);
    if (meta == nullptr || meta->crc != file.crc) {
      return corrupt(fmt::format("'{}/{}' changed between writing and reading it", entry.directory,
                                 file.file));
    }
  }
  return {};
}

// Lists the files, reads them (SCR_FETCH_WIDTH processes at a time).
Status Runtime::read_to_cache(const std::string& directory_name, const flush::RankFiles& files) {
  Context& c = *context_;
  Status status = cache_->update(c.rank(), writing_->dataset.id, [&](FilemapEntry& entry) {
    for (const flush::StoredFile& file : files) {
      if (!file.to_cache()) continue;
      FileMeta meta;
      meta.file = file.file;
      meta.ranks = c.size();
      meta.original = c.job().prefix + "/" + file.file;
      meta.path = parent_of(meta.original);
      meta.name = meta.original.substr(meta.original.rfind('/') + 1);
      entry.put(std::move(meta));
    }
  });
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "fetching"));
  return read_or_repair(directory_name, files, [&]() -> Status {
    return fetch_in_turns(
        files, fmt::format("fetch of dataset {}", writing_->dataset.id), [&](const auto& progress) {
          return flush::fetch_files(c.fs(), c.job().prefix, directory_name, files,
                                    writing_->directory->path(),
                                    c.config().get_bytes("SCR_FILE_BUF_SIZE"), progress);
        });
  });
}

// Collective: if the files of containers cannot be read, parity may help.
Status Runtime::read_or_repair(const std::string& directory_name, const flush::RankFiles& files,
                               const std::function<Status()>& read) {
  Context& c = *context_;
  const Status status = read();
  if (status.ok() || !c.world().any_true(any_contained(files))) return status;
  bool repaired = false;
  if (c.rank() == 0) {
    auto names = flush::repair_containers(c.fs(), c.prefix_scr() + "/" + directory_name);
    repaired = names.ok() && !names->empty();
    if (repaired)
      log::warning("{}; {} container(s) rebuilt from parity", status.message(), names->size());
    else if (!names.ok())
      log::warning("{}", names.status().message());
  }
  return c.world().any_true(repaired) ? read() : status;
}

}  // namespace scr
