#include "core/routing/job_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "core/base/filemap.hpp"
#include "core/base/flush_file.hpp"
#include "core/base/log.hpp"
#include "flush/fetch.hpp"

namespace scr::routing {

namespace {

constexpr std::string_view kJobPrefix = "scr.";

// A control directory that nobody else could have made or changed.
Result<std::unique_ptr<Directory>> open_own(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, fs.info(path));
  const bool safe =
      info.type == FileInfo::Type::kDirectory && info.uid == geteuid() && (info.mode & 0022) == 0;
  if (!safe) {
    return Status(StatusCode::kPermissionDenied,
                  fmt::format("'{}' is not a directory of this user alone", path));
  }
  return fs.open_directory(path);
}

std::optional<CachedFile> find_in(const Filemap& filemap, const std::string& relative,
                                  std::int64_t unsealed) {
  std::vector<int> datasets = filemap.datasets();
  std::reverse(datasets.begin(), datasets.end());
  for (int dataset : datasets) {
    for (int rank : filemap.ranks(dataset)) {
      const FilemapEntry* entry = filemap.get(rank, dataset);
      const FileMeta* meta = entry->find(relative);
      if (meta == nullptr || meta->type != FileType::kFull) continue;
      const bool sealed = entry->dataset.complete && meta->crc && meta->complete;
      if (!sealed && (unsealed == 0 || entry->dataset.created != unsealed)) continue;
      CachedFile file{entry->dataset, entry->directory + "/" + relative, meta->size};
      if (sealed) file.crc = *meta->crc;
      return file;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> jobs_on_node(FileSystem& fs, const std::string& control_base,
                                      const std::string& user, const std::string& job_id) {
  auto names = fs.list(control_base + "/" + user);
  std::vector<std::string> jobs;
  if (!names.ok()) return jobs;
  const std::string own = std::string(kJobPrefix) + job_id;
  for (const DirectoryEntry& entry : *names) {
    if (entry.name == own || entry.name.starts_with(own + "."))
      jobs.push_back(entry.name.substr(kJobPrefix.size()));
  }
  return jobs;
}

Result<std::optional<CachedFile>> find_cached_file(FileSystem& fs, const std::string& control_base,
                                                   const std::string& user,
                                                   const std::string& job_id,
                                                   const std::string& relative,
                                                   std::int64_t unsealed) {
  const std::string path = fmt::format("{}/{}/{}{}", control_base, user, kJobPrefix, job_id);
  auto control = open_own(fs, path);
  if (control.status().code() == StatusCode::kNotFound) return std::optional<CachedFile>();
  SCR_RETURN_IF_ERROR(control.status());
  auto names = read_master_filemap(fs, At(**control, std::string(kMasterFilemapName)));
  if (names.status().code() == StatusCode::kNotFound) return std::optional<CachedFile>();
  SCR_RETURN_IF_ERROR(names.status());
  std::optional<CachedFile> newest;
  for (const std::string& name : *names) {
    auto filemap = read_filemap(fs, At(**control, name));
    if (!filemap.ok()) {
      log::detail("{}", filemap.status().message());
      continue;
    }
    auto found = find_in(*filemap, relative, unsealed);
    if (found && (!newest || found->dataset.id > newest->dataset.id)) newest = std::move(found);
  }
  if (!newest) return newest;
  const auto states = read_flush_file(fs, At(**control, std::string(kFlushFileName)));
  const FlushState* state = states.ok() ? states->get(newest->dataset.id) : nullptr;
  newest->flushed = newest->crc && state != nullptr && state->in_prefix;
  return newest;
}

Status verify_cached_file(FileSystem& fs, const CachedFile& file) {
  static auto& mutex = *new std::mutex;  // files may be read after main()
  static auto& verified = *new std::set<std::pair<std::string, std::int64_t>>;
  SCR_ASSIGN_OR_RETURN(const FileInfo info, fs.info(file.path));
  const std::pair key(file.path, info.mtime_ns);
  {
    std::lock_guard lock(mutex);
    if (verified.contains(key)) return {};
  }
  SCR_ASSIGN_OR_RETURN(const bool good, flush::has_checksum(fs, file.path, file.size, *file.crc));
  if (!good) {
    return corrupt(fmt::format("'{}' of dataset {} ('{}') is damaged: its checksum is wrong",
                               file.path, file.dataset.id, file.dataset.name));
  }
  std::lock_guard lock(mutex);
  verified.insert(key);
  return {};
}

}  // namespace scr::routing
