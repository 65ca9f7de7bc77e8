#include "flush/intent.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/hash_file.hpp"
#include "core/base/log.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/parity.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kIntentName = "flush.scr";

std::string intent_path(const std::string& directory) { return directory + "/" + std::string(kIntentName); }

Result<DatasetDescriptor> read_intent(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(Hash hash, read_hash_file(fs, intent_path(directory)));
  const Hash* dataset = hash.get("DSET");
  if (dataset == nullptr) return corrupt("'" + intent_path(directory) + "' names no dataset");
  return DatasetDescriptor::from_hash(*dataset);
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
         name.find(".tmp.") != std::string::npos || name.ends_with(".scrfilemap");
}

// Calls `action(base, file)` for every file of a dataset that the flush itself wrote: plain files, or
// containers.
Status for_each_file(FileSystem& fs, const std::string& prefix, const std::string& directory,
                     const Summary* summary,
                     const std::function<Status(const std::string&, const StoredFile&)>& action) {
  SCR_ASSIGN_OR_RETURN(int ranks, read_rank_count(fs, directory));
  for (int block = 0; block < rank2file_block_count(ranks); ++block) {
    SCR_ASSIGN_OR_RETURN(auto files, read_rank2file_block(fs, directory, block));
    for (const auto& [rank, list] : files) {
      for (const StoredFile& file : list) {
        if (!file.contained()) SCR_RETURN_IF_ERROR(action(prefix, file));
      }
    }
  }
  if (summary == nullptr || !summary->containers) return {};
  auto container = [&](const std::string& name) {
    StoredFile file;
    file.file = name;
    return action(directory, file);
  };
  for (std::uint64_t i = 0; i < summary->container_count; ++i) SCR_RETURN_IF_ERROR(container(container_name(i)));
  for (std::uint64_t i = 0; i < parity_container_count(*summary); ++i) {
    SCR_RETURN_IF_ERROR(container(parity_container_name(i)));
  }
  return {};
}

}  // namespace

Status write_intent(FileSystem& fs, const std::string& directory, const DatasetDescriptor& dataset) {
  Hash hash;
  hash.set("DSET", dataset.to_hash());
  return write_hash_file(fs, intent_path(directory), hash, Durability::kDurable);
}

Result<std::string> find_intent(FileSystem& fs, const std::string& prefix, const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    auto owner = read_intent(fs, directory);
    if (!owner.ok() || owner->id != dataset.id || owner->created != dataset.created) continue;
    SCR_ASSIGN_OR_RETURN(bool committed, fs.exists(directory + "/" + std::string(kSummaryName)));
    if (!committed) return name;
  }
  return std::string();
}

Status add_to_index(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const Summary& summary) {
  SCR_RETURN_IF_ERROR(update_index(fs, prefix, [&](Index& index) -> Status {
    IndexEntry entry;
    entry.directory = directory_name;
    entry.dataset = summary.dataset;
    entry.complete = summary.complete;
    entry.flushed = timestamp_now();
    index.put(std::move(entry));
    if (summary.complete && summary.dataset.is_checkpoint()) index.set_current(directory_name);
    return {};
  }));
  return fs.remove_if_exists(intent_path(prefix + "/.scr/" + directory_name));
}

Status remove_dataset_directory(FileSystem& fs, const std::string& prefix, const std::string& directory_name) {
  const std::string path = prefix + "/.scr/" + directory_name;
  auto directory = fs.open_directory(path);
  if (!directory.ok()) {
    return directory.status().code() == StatusCode::kNotFound ? Status() : directory.status();
  }
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(path));
  // The intent goes last: as long as it is there, this can be done again.
  for (const DirectoryEntry& entry : entries) {
    if (is_own_file(entry.name) && entry.name != kIntentName) SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**directory, entry.name)));
  }
  SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**directory, std::string(kIntentName))));
  return fs.remove_directory(path);
}

Status roll_forward(FileSystem& fs, const std::string& prefix, std::vector<std::string>* rolled) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    if (index.find_directory(name) != nullptr) continue;
    SCR_ASSIGN_OR_RETURN(bool begun, fs.exists(intent_path(directory)));
    if (!begun) continue;
    auto summary = read_summary(fs, directory);
    if (!summary.ok()) continue;  // not committed, or damaged: then it cannot be trusted
    Status status = for_each_file(fs, prefix, directory, &*summary,
                                  [&](const std::string& base, const StoredFile& file) -> Status {
      const std::string temporary = base + "/" + temporary_name(file.file, summary->dataset);
      SCR_ASSIGN_OR_RETURN(bool waiting, fs.exists(temporary));
      if (!waiting) return {};  // renamed before the run was killed
      SCR_RETURN_IF_ERROR(fs.rename(temporary, base + "/" + file.file));
      return fs.sync_directory(At(std::filesystem::path(base + "/" + file.file).parent_path()));
    });
    if (!status.ok()) return status.with_context("finishing the flush of '" + summary->dataset.name + "'");
    SCR_RETURN_IF_ERROR(add_to_index(fs, prefix, name, *summary));
    if (rolled != nullptr) rolled->push_back(summary->dataset.name);
  }
  return {};
}

Status clean_up(FileSystem& fs, const std::string& prefix, std::span<const std::int64_t> keep) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  for (const std::string& name : names) {
    const std::string directory = prefix + "/.scr/" + name;
    auto owner = read_intent(fs, directory);
    if (!owner.ok() || std::find(keep.begin(), keep.end(), owner->created) != keep.end()) continue;
    SCR_ASSIGN_OR_RETURN(bool committed, fs.exists(directory + "/" + std::string(kSummaryName)));
    if (committed) continue;
    log::info("removing what is left of the flush of dataset {} ('{}')", owner->id, owner->name);
    Status status = for_each_file(fs, prefix, directory, nullptr, [&](const std::string& base, const StoredFile& file) {
      return fs.remove_if_exists(base + "/" + temporary_name(file.file, *owner));
    });
    // Without a plan no data was written.
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
    SCR_RETURN_IF_ERROR(remove_dataset_directory(fs, prefix, name));
  }
  return {};
}

Status delete_dataset(FileSystem& fs, const std::string& prefix, const std::string& directory_name) {
  const std::string directory = prefix + "/.scr/" + directory_name;
  // First out of the index: from here on nobody takes it for complete.
  SCR_RETURN_IF_ERROR(update_index(fs, prefix, [&](Index& index) -> Status {
    index.remove(directory_name);
    if (index.current() == directory_name) {
      const auto candidates = index.restart_candidates();
      index.set_current(candidates.empty() ? "" : candidates.front()->directory);
    }
    return {};
  }));
  Status status = for_each_file(fs, prefix, directory, nullptr, [&](const std::string& base, const StoredFile& file) -> Status {
    auto info = fs.info(base + "/" + file.file);
    if (!info.ok() || info->size != file.size) return {};
    SCR_ASSIGN_OR_RETURN(bool same, has_checksum(fs, base + "/" + file.file, file.size, file.crc));
    return same ? fs.remove_if_exists(base + "/" + file.file) : Status();
  });
  if (!status.ok() && status.code() != StatusCode::kNotFound) log::warning("{}", status.message());
  return remove_dataset_directory(fs, prefix, directory_name);
}

}  // namespace scr::flush
