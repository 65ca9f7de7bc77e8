#include "flush/clean_up.hpp"

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/made_directories.hpp"
#include "flush/parity.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/scan.hpp"

namespace scr::flush {

namespace {

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
    directories.insert(parent_of(meta.file));
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

// Removes the temporary files of a flush that was begun, then its directory.
Status remove_begun(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const DatasetDescriptor& owner) {
  std::set<std::string> directories;
  Status status = for_each_flushed_file(
      fs, prefix, prefix + "/.scr/" + directory_name, nullptr,
      [&](const std::string& base, const StoredFile& file) {
        directories.insert(parent_of(file.file));
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
        directories.insert(parent_of(meta.file));
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

Result<std::vector<CutFlush>> find_cut(
    FileSystem& fs, const std::string& prefix,
    const std::function<bool(const DatasetDescriptor&)>& is_unwanted) {
  SCR_ASSIGN_OR_RETURN(const auto names, dataset_directories(fs, prefix));
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  std::vector<CutFlush> found;
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    if (index.find_directory(name) != nullptr) continue;
    const auto owner = read_intent(fs, directory);
    if (owner.status().is_transient()) return owner.status();
    if (!owner.ok() || !is_unwanted(owner->dataset)) continue;
    SCR_ASSIGN_OR_RETURN(const bool committed, is_committed(fs, directory));
    if (committed) continue;
    SCR_ASSIGN_OR_RETURN(const bool whole, can_be_added(fs, prefix, name, owner->dataset, index));
    if (whole) {
      log::warning(
          "a scavenge of dataset {} ('{}') was cut after it had copied what is needed; "
          "'scr_index --prefix {} --add {}' ends it",
          owner->dataset.id, owner->dataset.name, prefix, name);
      continue;
    }
    found.push_back({name, owner->dataset});
  }
  return found;
}

Status remove_cut(FileSystem& fs, const std::string& prefix, std::span<const CutFlush> flushes) {
  for (const CutFlush& cut : flushes) {
    log::info("removing what is left of the flush of dataset {} ('{}')", cut.dataset.id,
              cut.dataset.name);
    const Status status = remove_begun(fs, prefix, cut.directory, cut.dataset);
    if (status.is_transient()) return status;
    if (!status.ok())
      log::warning("{}", status.message());  // somebody keeps files there: no reason to stop
  }
  return {};
}

Status remove_cut_of(FileSystem& fs, const std::string& prefix, const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const auto cut, find_cut(fs, prefix, [&](const DatasetDescriptor& found) {
                         return found.id == dataset.id && found.created == dataset.created;
                       }));
  return remove_cut(fs, prefix, cut);
}

Status clean_up(FileSystem& fs, const std::string& prefix, std::span<const std::int64_t> keep) {
  SCR_ASSIGN_OR_RETURN(const auto names, dataset_directories(fs, prefix));
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  SCR_RETURN_IF_ERROR(remove_stray_temporaries(fs, prefix + "/.scr"));
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    if (index.find_directory(name) != nullptr) continue;
    if (read_intent(fs, directory).status().code() == StatusCode::kNotFound)
      SCR_RETURN_IF_ERROR(remove_nobodys(fs, directory));
  }
  SCR_ASSIGN_OR_RETURN(const auto cut, find_cut(fs, prefix, [&](const DatasetDescriptor& found) {
                         return std::ranges::find(keep, found.created) == keep.end();
                       }));
  return remove_cut(fs, prefix, cut);
}

}  // namespace scr::flush
