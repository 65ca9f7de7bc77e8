#include "flush/roll_forward.hpp"

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "flush/clean_up.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/delete_dataset.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"

namespace scr::flush {

namespace {

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
  Status status = for_each_flushed_file(
      fs, prefix, directory, &summary,
      [&](const std::string& base, const StoredFile& file) -> Status {
        const std::string temporary = base + "/" + temporary_name(file.file, summary.dataset);
        if (base == prefix && taken.contains(file.file)) {
          result.replaced = true;
          return fs.remove_if_exists(temporary);
        }
        const std::string path = base + "/" + file.file;
        SCR_ASSIGN_OR_RETURN(const bool renamed,
                             put_in_place(fs, base, file.file, summary.dataset, keep_newer));
        if (renamed) return fs.sync_directory(At(std::filesystem::path(path).parent_path()));
        SCR_ASSIGN_OR_RETURN(const bool there, is_in_place(fs, prefix, base, file));
        const bool may_go = keep_newer && base == prefix;
        if (!there && !(may_go && was_let_go(fs, prefix, file.file, summary.dataset))) {
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
    const Status status =
        for_each_flushed_file(fs, prefix, prefix + "/.scr/" + entry.directory, nullptr,
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
  SCR_RETURN_IF_ERROR(
      remove_scavenge_files(fs, prefix, directory_name, dataset, /*committed=*/false));
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

void put_in_index(Index& index, const std::string& directory_name, const Summary& summary) {
  IndexEntry entry;
  entry.directory = directory_name;
  entry.dataset = summary.dataset;
  entry.complete = summary.complete;
  entry.flushed = timestamp_now();
  index.put(std::move(entry));
  const IndexEntry* current = index.find_directory(index.current());
  const bool older = current != nullptr && (current->id() > summary.dataset.id ||
                                            index.chosen() >= summary.dataset.created);
  if (summary.complete && summary.dataset.is_checkpoint() && !older)
    index.set_current(directory_name);
}

// What a flush does when its dataset is in the index.
Status do_last_step(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const DatasetDescriptor& dataset, const std::vector<Superseded>& superseded) {
  SCR_RETURN_IF_ERROR(remove_directories_of(fs, prefix, superseded));
  SCR_RETURN_IF_ERROR(
      remove_scavenge_files(fs, prefix, directory_name, dataset, /*committed=*/true));
  return remove_intent(fs, prefix + "/.scr/" + directory_name);
}

}  // namespace

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

}  // namespace scr::flush
