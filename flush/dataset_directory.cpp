#include "flush/dataset_directory.hpp"

#include <fmt/format.h>

#include "flush/containers.hpp"
#include "flush/intent.hpp"
#include "flush/parity.hpp"
#include "flush/rank_filemap.hpp"

namespace scr::flush {

namespace {

bool is_own_file(const std::string& name) {
  return name == kIntentName || name == kSummaryName || name.starts_with("rank2file.") ||
         name.starts_with("ctr.") || (name.starts_with(".") && name.ends_with(".tmp")) ||
         name.find(".tmp.") != std::string::npos || rank_of_filemap_name(name) ||
         is_redundancy_file_name(name);
}

}  // namespace

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

bool is_directory_of(const std::string& name, int id) {
  const std::string first = fmt::format("scr.dataset.{}", id);
  return name == first || name.starts_with(first + ".");
}

Result<bool> is_committed(FileSystem& fs, const std::string& directory) {
  auto summary = read_summary(fs, directory);
  if (summary.ok()) return true;
  if (commits_nothing(summary.status())) return false;
  return summary.status();
}

bool commits_nothing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kCorrupt;
}

Status for_each_flushed_file(
    FileSystem& fs, const std::string& prefix, const std::string& directory, const Summary* summary,
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

}  // namespace scr::flush
