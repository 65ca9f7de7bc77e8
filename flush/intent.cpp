#include "flush/intent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/hash_file.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/made_directories.hpp"
#include "flush/parity.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/scan.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kIntentName = "flush.scr";

std::string intent_path(const std::string& directory) {
  return directory + "/" + std::string(kIntentName);
}

// Names of all dataset directories below .scr.
Result<std::vector<std::string>> dataset_directories(FileSystem& fs, const std::string& prefix) {
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(prefix + "/.scr"));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileInfo::Type::kDirectory && entry.name.starts_with("scr.dataset.")) {
      names.push_back(entry.name);
    }
  }
  return names;
}

bool is_own_file(const std::string& name) {
  return name == kIntentName || name == kSummaryName || name.starts_with("rank2file.") ||
         name.starts_with("ctr.") || (name.starts_with(".") && name.ends_with(".tmp")) ||
         name.find(".tmp.") != std::string::npos || rank_of_filemap_name(name) ||
         is_redundancy_file_name(name);
}

// Calls `action` for every application file that a scavenge has listed. A rank filemap that cannot
// be read tells nothing; what it lists stays.
Status for_each_scavenged(FileSystem& fs, const Directory& directory,
                          const DatasetDescriptor& dataset,
                          const std::function<Status(const FileMeta&)>& action) {
  SCR_ASSIGN_OR_RETURN(const auto entries, fs.list(At(directory, ".")));
  for (const DirectoryEntry& found : entries) {
    const auto rank = rank_of_filemap_name(found.name);
    if (!rank) continue;
    const auto entry = read_rank_filemap(fs, directory, *rank, dataset);
    if (!entry.ok()) {
      log::warning("temporary files of rank {} of dataset {} ('{}') may remain: {}", *rank,
                   dataset.id, dataset.name, entry.status().message());
      continue;
    }
    for (const FileMeta& meta : entry->files) {
      if (meta.type == FileType::kFull) SCR_RETURN_IF_ERROR(action(meta));
    }
  }
  return {};
}

// A symbolic link on the way is nobody's of ours.
Status remove_temporary(FileSystem& fs, const Directory& prefix, const std::string& file,
                        const DatasetDescriptor& dataset) {
  const Status removed = fs.remove_if_exists(At(prefix, temporary_name(file, dataset)));
  return removed.code() == StatusCode::kPermissionDenied ? Status() : removed;
}

// Removes the temporary files of a scavenge that was begun; adds where they were.
Status remove_scavenged(FileSystem& fs, const std::string& prefix, const std::string& directory,
                        const DatasetDescriptor& dataset, std::set<std::string>& directories) {
  SCR_ASSIGN_OR_RETURN(const auto base, fs.open_directory(prefix, /*no_follow=*/false));
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(directory));
  return for_each_scavenged(fs, *opened, dataset, [&](const FileMeta& meta) -> Status {
    directories.insert(directory_of(meta.file));
    if (!meta.shared.empty())
      SCR_RETURN_IF_ERROR(remove_temporary(fs, *base, meta.shared, dataset));
    return remove_temporary(fs, *base, meta.file, dataset);
  });
}

// Redundancy files that the lists of a committed dataset have. What cannot be read lists none.
Result<std::set<std::string>> listed_redundancy(FileSystem& fs, const std::string& directory) {
  std::set<std::string> names;
  const auto ranks = read_rank_count(fs, directory);
  if (ranks.status().is_transient()) return ranks.status();
  for (int block = 0; ranks.ok() && block < rank2file_block_count(*ranks); ++block) {
    const auto files = read_rank2file_block(fs, directory, block);
    if (files.status().is_transient()) return files.status();
    if (!files.ok()) continue;
    for (const auto& [rank, list] : *files) {
      for (const StoredFile& file : list) {
        if (!file.fetch) names.insert(file.file);
      }
    }
  }
  return names;
}

// What a scavenge needed besides the data: logs of shared files, then the rank filemaps, which list
// them, and redundancy files, but for those that its dataset lists once it is `committed`.
Status remove_scavenge_files(FileSystem& fs, const std::string& prefix,
                             const std::string& directory_name, const DatasetDescriptor& dataset,
                             bool committed) {
  const auto opened = fs.open_directory(prefix + "/.scr/" + directory_name);
  if (opened.status().code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(opened.status());
  SCR_ASSIGN_OR_RETURN(const auto base, fs.open_directory(prefix, /*no_follow=*/false));
  std::set<std::string> directories;  // of logs; where the data is in containers, of nothing else
  SCR_RETURN_IF_ERROR(
      for_each_scavenged(fs, **opened, dataset, [&](const FileMeta& meta) -> Status {
        if (meta.shared.empty()) return {};
        directories.insert(directory_of(meta.file));
        return remove_temporary(fs, *base, meta.file, dataset);
      }));
  SCR_RETURN_IF_ERROR(remove_made(fs, prefix, directories));
  SCR_ASSIGN_OR_RETURN(const auto entries, fs.list(At(**opened, ".")));
  std::set<std::string> kept;
  const bool any = std::ranges::any_of(
      entries, [](const auto& found) { return is_redundancy_file_name(found.name); });
  if (any && committed) {
    SCR_ASSIGN_OR_RETURN(kept, listed_redundancy(fs, (*opened)->path()));
  }
  for (const DirectoryEntry& found : entries) {
    const bool unlisted = is_redundancy_file_name(found.name) && !kept.contains(found.name);
    if (rank_of_filemap_name(found.name) || unlisted)
      SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**opened, found.name)));
  }
  return {};
}

// Calls `action(base, file)` for every file of a dataset that the flush itself wrote: plain files,
// or containers.
Status for_each_file(FileSystem& fs, const std::string& prefix, const std::string& directory,
                     const Summary* summary,
                     const std::function<Status(const std::string&, const StoredFile&)>& action) {
  SCR_ASSIGN_OR_RETURN(int ranks, read_rank_count(fs, directory));
  for (int block = 0; block < rank2file_block_count(ranks); ++block) {
    SCR_ASSIGN_OR_RETURN(auto files, read_rank2file_block(fs, directory, block));
    for (const auto& [rank, list] : files) {
      for (const StoredFile& file : list) {
        if (!file.contained() && file.fetch) SCR_RETURN_IF_ERROR(action(prefix, file));
      }
    }
  }
  if (summary == nullptr || !summary->containers) return {};
  auto container = [&](const std::string& name, std::uint64_t size) {
    StoredFile file;
    file.file = name;
    file.size = size;
    return action(directory, file);
  };
  for (std::uint64_t i = 0; i < summary->container_count; ++i) {
    SCR_RETURN_IF_ERROR(container(container_name(i), container_length(*summary, i)));
  }
  for (std::uint64_t i = 0; i < parity_container_count(*summary); ++i) {
    SCR_RETURN_IF_ERROR(container(parity_container_name(i), parity_container_length(*summary, i)));
  }
  return {};
}

// What a killed write_file_atomically() leaves.
bool is_hash_file_temporary(const std::string& name) {
  return name.starts_with(".") && name.find(".tmp.") != std::string::npos;
}

Status remove_hash_file_temporaries(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(directory));
  for (const DirectoryEntry& entry : entries) {
    if (is_hash_file_temporary(entry.name))
      SCR_RETURN_IF_ERROR(fs.remove_if_exists(directory + "/" + entry.name));
  }
  return {};
}

// The same in .scr itself, and what a killed repair of containers leaves there. Others may be
// writing: each file has a lock for that. A repair takes its time, so nobody waits for one.
Status remove_stray_temporaries(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(directory));
  for (const DirectoryEntry& entry : entries) {
    if (!is_hash_file_temporary(entry.name) || entry.type != FileInfo::Type::kRegular) continue;
    const std::string target = entry.name.substr(1, entry.name.find(".tmp.") - 1);
    auto lock = fs.open(directory + "/" + target + ".lock", OpenOptions::read_write());
    const bool wait = target != kRepairLock;
    Status locked = lock.ok() ? (*lock)->lock(LockMode::kExclusive, wait) : Status();
    if (!wait && locked.code() == StatusCode::kUnavailable) continue;
    if (!locked.ok() && !locks_are_missing(locked)) return locked;
    SCR_RETURN_IF_ERROR(fs.remove_if_exists(directory + "/" + entry.name));
  }
  return {};
}

// A summary that is damaged commits nothing.
bool commits_nothing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kCorrupt;
}

Result<bool> is_committed(FileSystem& fs, const std::string& directory) {
  auto summary = read_summary(fs, directory);
  if (summary.ok()) return true;
  if (commits_nothing(summary.status())) return false;
  return summary.status();
}

// Removes the temporary files of a flush that was begun, then its directory.
Status remove_begun(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const DatasetDescriptor& owner) {
  std::set<std::string> directories;
  Status status =
      for_each_file(fs, prefix, prefix + "/.scr/" + directory_name, nullptr,
                    [&](const std::string& base, const StoredFile& file) {
                      directories.insert(directory_of(file.file));
                      return fs.remove_if_exists(base + "/" + temporary_name(file.file, owner));
                    });
  // Without a plan no data was written; with a damaged one nobody knows its names.
  if (status.code() == StatusCode::kCorrupt) {
    log::warning("temporary files of dataset {} ('{}') may remain: {}", owner.id, owner.name,
                 status.message());
  } else if (!status.ok() && status.code() != StatusCode::kNotFound) {
    return status;
  }
  SCR_RETURN_IF_ERROR(
      remove_scavenged(fs, prefix, prefix + "/.scr/" + directory_name, owner, directories));
  SCR_RETURN_IF_ERROR(remove_made(fs, prefix, directories));
  return remove_dataset_directory(fs, prefix, directory_name);
}

// A directory whose flush was cut before it said whose it is, or after it had been removed but for
// that.
Status remove_nobodys(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(directory));
  const bool empty = std::all_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return is_hash_file_temporary(entry.name);
  });
  if (!empty) return {};
  SCR_RETURN_IF_ERROR(remove_hash_file_temporaries(fs, directory));
  return fs.remove_directory(directory);
}

// What became of the files of a committed dataset.
struct Renamed {
  bool whole = true;      // all are there
  bool replaced = false;  // a newer dataset has files at some of their names
};

// Containers are in a directory that nobody else writes to.
Result<bool> is_in_place(FileSystem& fs, const std::string& prefix, const std::string& base,
                         const StoredFile& file) {
  const std::string path = base + "/" + file.file;
  if (base == prefix) return is_flushed_file(fs, path, file);
  auto info = fs.info(path);
  if (!info.ok() && info.status().code() != StatusCode::kNotFound) return info.status();
  return info.ok() && info->size == file.size;
}

// Gives the files of a committed dataset their names, but for `taken` ones.
Result<Renamed> rename_waiting(FileSystem& fs, const std::string& prefix,
                               const std::string& directory, const Summary& summary,
                               bool keep_newer, const std::set<std::string>& taken) {
  Renamed result;
  Status status = for_each_file(
      fs, prefix, directory, &summary,
      [&](const std::string& base, const StoredFile& file) -> Status {
        const std::string temporary = base + "/" + temporary_name(file.file, summary.dataset);
        if (base == prefix && taken.contains(file.file)) {
          result.replaced = true;
          return fs.remove_if_exists(temporary);
        }
        const std::string path = base + "/" + file.file;
        SCR_ASSIGN_OR_RETURN(const bool renamed, put_in_place(fs, temporary, path, keep_newer));
        if (renamed) return fs.sync_directory(At(std::filesystem::path(path).parent_path()));
        SCR_ASSIGN_OR_RETURN(const bool there, is_in_place(fs, prefix, base, file));
        if (!there) {
          log::warning("'{}/{}' of dataset {} ('{}') is missing, or not the flushed one", base,
                       file.file, summary.dataset.id, summary.dataset.name);
          result.whole = false;
        }
        return {};
      });
  if (status.code() == StatusCode::kCorrupt || status.code() == StatusCode::kNotFound) {
    log::warning("the flush of '{}' cannot be finished: {}", summary.dataset.name,
                 status.message());
    result.whole = false;
    return result;
  }
  if (!status.ok())
    return status.with_context("finishing the flush of '" + summary.dataset.name + "'");
  return result;
}

// Names of plain files of datasets of the index that are newer than this one. Of a list that cannot
// be read nobody knows the names.
Result<std::set<std::string>> names_of_newer(FileSystem& fs, const std::string& prefix,
                                             const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  std::set<std::string> names;
  for (const IndexEntry& entry : index.entries()) {
    if (!is_newer(entry.dataset, dataset)) continue;
    const Status status = for_each_file(fs, prefix, prefix + "/.scr/" + entry.directory, nullptr,
                                        [&](const std::string&, const StoredFile& file) -> Status {
                                          names.insert(file.file);
                                          return {};
                                        });
    if (status.is_transient()) return status;
  }
  return names;
}

// As if it had been ended before the newer one, which would have superseded it then.
Status remove_replaced(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                       const DatasetDescriptor& dataset, const Intent& intent) {
  log::info(
      "dataset {} ('{}'), whose flush was cut, is gone: a newer one has taken its files' "
      "places",
      dataset.id, dataset.name);
  SCR_RETURN_IF_ERROR(remove_directories_of(fs, prefix, intent.superseded));
  SCR_RETURN_IF_ERROR(remove_scavenge_files(fs, prefix, directory_name, dataset, false));
  return remove_dataset_directory(fs, prefix, directory_name);
}

// False if a newer dataset has replaced it.
Result<bool> roll_forward_one(FileSystem& fs, const std::string& prefix,
                              const std::string& directory_name, Summary summary) {
  const std::string directory = prefix + "/.scr/" + directory_name;
  SCR_ASSIGN_OR_RETURN(const Intent intent, read_intent(fs, directory));
  SCR_RETURN_IF_ERROR(drop_from_index(fs, prefix, intent.superseded));
  std::set<std::string> taken;
  if (!intent.keep_newer) {  // else the times of the files decide
    SCR_ASSIGN_OR_RETURN(taken, names_of_newer(fs, prefix, summary.dataset));
  }
  SCR_ASSIGN_OR_RETURN(const Renamed renamed,
                       rename_waiting(fs, prefix, directory, summary, intent.keep_newer, taken));
  if (renamed.replaced) {
    SCR_RETURN_IF_ERROR(remove_replaced(fs, prefix, directory_name, summary.dataset, intent));
    return false;
  }
  summary.complete = summary.complete && renamed.whole;
  SCR_RETURN_IF_ERROR(remove_hash_file_temporaries(fs, directory));
  SCR_RETURN_IF_ERROR(end_flush(fs, prefix, directory_name, summary, intent.superseded));
  return true;
}

bool is_directory_of(const std::string& name, int id) {
  const std::string first = fmt::format("scr.dataset.{}", id);
  return name == first || name.starts_with(first + ".");
}

// Directories of flushes of this very dataset.
Result<std::vector<std::string>> directories_of(FileSystem& fs, const std::string& prefix,
                                                const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!is_directory_of(name, dataset.id)) continue;
    auto owner = read_intent(fs, prefix + "/.scr/" + name);
    if (owner.status().is_transient()) return owner.status();
    if (owner.ok() && owner->dataset.id == dataset.id && owner->dataset.created == dataset.created)
      found.push_back(name);
  }
  return found;
}

}  // namespace

Hash Intent::to_hash() const {
  Hash hash;
  hash.set("DSET", dataset.to_hash());
  hash.set_value("LAYOUT", layout);
  hash.set_value("ATTEMPT", attempt);
  if (keep_newer) hash.at("KEEP_NEWER");
  for (const Superseded& old : superseded)
    hash.at("SUPERSEDES").at(old.directory).set_value("CREATED", old.created);
  return hash;
}

Result<Intent> Intent::from_hash(const Hash& hash) {
  Intent intent;
  const Hash* dataset = hash.get("DSET");
  if (dataset == nullptr) return corrupt("it names no dataset");
  SCR_ASSIGN_OR_RETURN(intent.dataset, DatasetDescriptor::from_hash(*dataset));
  intent.layout = std::string(hash.value("LAYOUT").value_or(""));
  if (hash.contains("ATTEMPT")) {
    SCR_ASSIGN_OR_RETURN(intent.attempt, hash.require_int("ATTEMPT"));
  }
  intent.keep_newer = hash.contains("KEEP_NEWER");
  const Hash* superseded = hash.get("SUPERSEDES");
  if (superseded == nullptr) return intent;
  for (const auto& element : superseded->elements()) {
    Superseded old;
    SCR_ASSIGN_OR_RETURN(old.directory, safe_relative_path(element.key));
    SCR_ASSIGN_OR_RETURN(old.created, element.hash.require_int("CREATED"));
    if (!old.directory.starts_with("scr.dataset.") || old.directory.find('/') != std::string::npos)
      return corrupt("it names what is no dataset directory");
    intent.superseded.push_back(std::move(old));
  }
  return intent;
}

Status write_intent(FileSystem& fs, const std::string& directory, const Intent& intent,
                    Durability durability) {
  return write_hash_file(fs, intent_path(directory), intent.to_hash(), durability);
}

Result<Intent> read_intent(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, intent_path(directory)));
  auto intent = Intent::from_hash(hash);
  if (!intent.ok()) return intent.status().with_context("'" + intent_path(directory) + "'");
  return intent;
}

Result<bool> has_intent(FileSystem& fs, const std::string& directory) {
  return fs.exists(intent_path(directory));
}

Status sync_intent(FileSystem& fs, const std::string& directory) {
  return fs.sync_file(intent_path(directory));
}

Result<std::string> find_intent(FileSystem& fs, const std::string& prefix,
                                const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, directories_of(fs, prefix, dataset));
  for (const std::string& name : names) {
    SCR_ASSIGN_OR_RETURN(bool committed, is_committed(fs, prefix + "/.scr/" + name));
    if (!committed) return name;
  }
  return std::string();
}

Result<std::optional<Intent>> take_up(FileSystem& fs, const std::string& prefix,
                                      const std::string& directory_name, const std::string& layout,
                                      bool keep_newer) {
  const std::string directory = prefix + "/.scr/" + directory_name;
  SCR_ASSIGN_OR_RETURN(Intent intent, read_intent(fs, directory));
  if (intent.layout != layout) {
    SCR_RETURN_IF_ERROR(remove_begun(fs, prefix, directory_name, intent.dataset));
    return std::optional<Intent>();
  }
  SCR_RETURN_IF_ERROR(remove_hash_file_temporaries(fs, directory));
  ++intent.attempt;
  intent.keep_newer = intent.keep_newer || keep_newer;
  intent.superseded.clear();
  SCR_RETURN_IF_ERROR(write_intent(fs, directory, intent, Durability::kVolatile));
  return std::optional<Intent>(std::move(intent));
}

Status forget_scavenged(FileSystem& fs, const std::string& prefix,
                        const std::string& directory_name, const DatasetDescriptor& dataset) {
  return remove_scavenge_files(fs, prefix, directory_name, dataset, false);
}

Result<bool> roll_forward_dataset(FileSystem& fs, const std::string& prefix,
                                  const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, directories_of(fs, prefix, dataset));
  for (const std::string& name : names) {
    auto summary = read_summary(fs, prefix + "/.scr/" + name);
    if (!summary.ok()) continue;
    SCR_RETURN_IF_ERROR(roll_forward_one(fs, prefix, name, *summary).status());
    SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
    const IndexEntry* entry = index.find_directory(name);
    if (entry != nullptr && entry->complete) return true;
  }
  return false;
}

Result<std::vector<Unended>> find_unended(FileSystem& fs, const std::string& prefix,
                                          const Index& index) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  std::vector<Unended> unended;
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    if (index.find_directory(name) != nullptr) continue;
    SCR_ASSIGN_OR_RETURN(const bool begun, has_intent(fs, directory));
    if (!begun) continue;
    const auto summary = read_summary(fs, directory);
    if (summary.ok()) unended.push_back({name, summary->dataset});
    if (commits_nothing(summary.status())) continue;
    SCR_RETURN_IF_ERROR(summary.status());
  }
  std::ranges::stable_sort(
      unended, [](const Unended& a, const Unended& b) { return is_newer(a.dataset, b.dataset); });
  return unended;
}

Result<bool> roll_forward_directory(FileSystem& fs, const std::string& prefix,
                                    const std::string& directory_name) {
  SCR_ASSIGN_OR_RETURN(Summary summary, read_summary(fs, prefix + "/.scr/" + directory_name));
  return roll_forward_one(fs, prefix, directory_name, std::move(summary));
}

namespace {

void put_in_index(Index& index, const std::string& directory_name, const Summary& summary) {
  IndexEntry entry;
  entry.directory = directory_name;
  entry.dataset = summary.dataset;
  entry.complete = summary.complete;
  entry.flushed = timestamp_now();
  index.put(std::move(entry));
  const IndexEntry* current = index.find_directory(index.current());
  const bool older = current != nullptr && current->id() > summary.dataset.id;
  if (summary.complete && summary.dataset.is_checkpoint() && !older)
    index.set_current(directory_name);
}

// What a flush does when its dataset is in the index.
Status do_last_step(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const DatasetDescriptor& dataset, const std::vector<Superseded>& superseded) {
  SCR_RETURN_IF_ERROR(remove_directories_of(fs, prefix, superseded));
  SCR_RETURN_IF_ERROR(remove_scavenge_files(fs, prefix, directory_name, dataset, true));
  return fs.remove_if_exists(intent_path(prefix + "/.scr/" + directory_name));
}

}  // namespace

Status end_flush(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                 const Summary& summary, const std::vector<Superseded>& superseded) {
  SCR_RETURN_IF_ERROR(update_index(fs, prefix, [&](Index& index) -> Status {
    SCR_ASSIGN_OR_RETURN(const bool unended, has_intent(fs, prefix + "/.scr/" + directory_name));
    if (unended) put_in_index(index, directory_name, summary);
    return {};
  }));
  return do_last_step(fs, prefix, directory_name, summary.dataset, superseded);
}

Status end_last_step(FileSystem& fs, const std::string& prefix, const IndexEntry& entry) {
  const auto intent = read_intent(fs, prefix + "/.scr/" + entry.directory);
  if (intent.status().code() == StatusCode::kNotFound) return {};
  if (intent.status().is_transient()) return intent.status();
  return do_last_step(fs, prefix, entry.directory, entry.dataset,
                      intent.ok() ? intent->superseded : std::vector<Superseded>());
}

Status end_flushes_of(FileSystem& fs, const std::string& prefix,
                      const std::function<bool(const DatasetDescriptor&)>& leaving) {
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  for (const IndexEntry& entry : index.entries()) {
    if (leaving(entry.dataset)) SCR_RETURN_IF_ERROR(end_last_step(fs, prefix, entry));
  }
  SCR_ASSIGN_OR_RETURN(const auto unended, find_unended(fs, prefix, index));
  for (const Unended& flush : unended) {
    if (!leaving(flush.dataset)) continue;
    SCR_RETURN_IF_ERROR(roll_forward_directory(fs, prefix, flush.directory).status());
  }
  return {};
}

Status add_to_index(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const Summary& summary) {
  return update_index(fs, prefix, [&](Index& index) -> Status {
    put_in_index(index, directory_name, summary);
    return {};
  });
}

Status remove_dataset_directory(FileSystem& fs, const std::string& prefix,
                                const std::string& directory_name) {
  const std::string path = prefix + "/.scr/" + directory_name;
  auto directory = fs.open_directory(path);
  if (!directory.ok()) {
    return directory.status().code() == StatusCode::kNotFound ? Status() : directory.status();
  }
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(path));
  // The intent goes last: as long as it is there, this can be done again.
  for (const DirectoryEntry& entry : entries) {
    if (is_own_file(entry.name) && entry.name != kIntentName)
      SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**directory, entry.name)));
  }
  SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**directory, std::string(kIntentName))));
  return fs.remove_directory(path);
}

Status roll_forward(FileSystem& fs, const std::string& prefix, std::vector<std::string>* rolled) {
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  SCR_RETURN_IF_ERROR(finish_deletions(fs, prefix, index));
  SCR_ASSIGN_OR_RETURN(const auto unended, find_unended(fs, prefix, index));
  for (const Unended& flush : unended) {
    // A newer one that was ended just now may have superseded it.
    SCR_ASSIGN_OR_RETURN(const bool there, has_intent(fs, prefix + "/.scr/" + flush.directory));
    if (!there) continue;
    SCR_ASSIGN_OR_RETURN(const bool indexed, roll_forward_directory(fs, prefix, flush.directory));
    if (indexed && rolled != nullptr) rolled->push_back(flush.dataset.name);
  }
  // Cut between the index and the very last step: only the newest flush can be.
  if (index.entries().empty()) return {};
  return end_last_step(fs, prefix, index.entries().front());
}

namespace {

bool has_rank_filemap(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return rank_of_filemap_name(entry.name).has_value();
  });
}

// Whether a scavenge was cut that has brought everything that is needed: with the caches gone, this
// may be all that there is of the dataset. A checkpoint is not needed any more once there is a
// newer one.
Result<bool> can_be_added(FileSystem& fs, const std::string& prefix, const std::string& name,
                          const DatasetDescriptor& dataset, const Index& index) {
  const bool outdated =
      !dataset.output &&
      std::any_of(index.entries().begin(), index.entries().end(), [&](const IndexEntry& entry) {
        return entry.complete && entry.dataset.is_checkpoint() &&
               entry.dataset.created > dataset.created;
      });
  if (outdated) return false;
  SCR_ASSIGN_OR_RETURN(const auto entries, fs.list(prefix + "/.scr/" + name));
  if (!has_rank_filemap(entries)) return false;
  const auto scan = scan_dataset(fs, prefix, name);
  if (scan.ok()) return scan->complete() || scan->recoverable();
  if (scan.status().code() == StatusCode::kCorrupt) return false;
  return scan.status();
}

}  // namespace

Status clean_up(FileSystem& fs, const std::string& prefix, std::span<const std::int64_t> keep) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
  SCR_RETURN_IF_ERROR(remove_stray_temporaries(fs, prefix + "/.scr"));
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    if (index.find_directory(name) != nullptr) continue;
    auto owner = read_intent(fs, directory);
    if (owner.status().code() == StatusCode::kNotFound)
      SCR_RETURN_IF_ERROR(remove_nobodys(fs, directory));
    if (owner.status().is_transient()) return owner.status();
    if (!owner.ok() || std::find(keep.begin(), keep.end(), owner->dataset.created) != keep.end()) {
      continue;
    }
    SCR_ASSIGN_OR_RETURN(bool committed, is_committed(fs, directory));
    if (committed) continue;
    SCR_ASSIGN_OR_RETURN(const bool whole, can_be_added(fs, prefix, name, owner->dataset, index));
    if (whole) {
      log::warning(
          "a scavenge of dataset {} ('{}') was cut after it had copied what is needed; "
          "'scr_index --prefix {} --add {}' ends it",
          owner->dataset.id, owner->dataset.name, prefix, name);
      continue;
    }
    log::info("removing what is left of the flush of dataset {} ('{}')", owner->dataset.id,
              owner->dataset.name);
    Status status = remove_begun(fs, prefix, name, owner->dataset);
    if (status.is_transient()) return status;
    if (!status.ok())
      log::warning("{}", status.message());  // somebody keeps files there: no reason to stop
  }
  return {};
}

}  // namespace scr::flush
