#include "flush/delete_dataset.hpp"

#include <set>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/fetch.hpp"
#include "flush/intent.hpp"
#include "flush/made_directories.hpp"
#include "flush/rank2file.hpp"
#include "flush/roll_forward.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

Status delete_file(FileSystem& fs, const std::string& path, const StoredFile& file) {
  SCR_ASSIGN_OR_RETURN(const bool own, is_flushed_file(fs, path, file));
  return own ? fs.remove_if_exists(path) : Status();
}

// Deletes all that can be. The first failure that may pass is returned: then rank2file must stay.
// Directories that we made for them go, too.
Status delete_files(FileSystem& fs, const std::string& prefix, const std::string& directory) {
  std::set<std::string> directories;
  Status first;
  const auto note = [&first](const Status& status) {
    if (status.ok()) return;
    if (!status.is_transient())
      log::warning("files of a deleted dataset may remain: {}", status.message());
    else if (first.ok())
      first = status;
  };
  const auto ranks = read_rank_count(fs, directory);
  if (ranks.status().code() == StatusCode::kNotFound) return {};  // removed before the cut
  note(ranks.status());
  for (int block = 0; ranks.ok() && block < rank2file_block_count(*ranks); ++block) {
    const auto files = read_rank2file_block(fs, directory, block);
    if (files.status().code() == StatusCode::kNotFound) continue;
    note(files.status());
    if (!files.ok()) continue;
    for (const auto& [rank, list] : *files) {
      for (const StoredFile& file : list) {
        if (file.contained() || !file.fetch) continue;  // in the dataset's own directory
        note(delete_file(fs, prefix + "/" + file.file, file));
        directories.insert(parent_of(file.file));
      }
    }
  }
  note(remove_made(fs, prefix, directories));
  return first;
}

Status remove_summary(FileSystem& fs, const std::string& directory) {
  SCR_RETURN_IF_ERROR(fs.remove_if_exists(directory + "/" + std::string(kSummaryName)));
  return fs.sync_directory(directory);
}

Status finish_deletion(FileSystem& fs, const std::string& prefix,
                       const std::string& directory_name) {
  const std::string directory = prefix + "/.scr/" + directory_name;
  SCR_ASSIGN_OR_RETURN(const bool there, fs.exists(directory));
  Status status;
  if (there) {
    SCR_RETURN_IF_ERROR(remove_summary(fs, directory));
    SCR_RETURN_IF_ERROR(delete_files(fs, prefix, directory));
    status = remove_dataset_directory(fs, prefix, directory_name);
    // Somebody keeps files of his own there: they stay, and all else is gone.
    if (status.is_transient()) return status;
  }
  SCR_RETURN_IF_ERROR(update_index(fs, prefix, [&](Index& index) -> Status {
    index.end_deletion(directory_name);
    return {};
  }));
  return status;
}

}  // namespace

Status delete_dataset(FileSystem& fs, const std::string& prefix,
                      const std::string& directory_name) {
  SCR_ASSIGN_OR_RETURN(const Index before, read_index(fs, prefix));
  if (const IndexEntry* entry = before.find_directory(directory_name))
    SCR_RETURN_IF_ERROR(end_last_step(fs, prefix, *entry));
  SCR_RETURN_IF_ERROR(update_index(fs, prefix, [&](Index& index) -> Status {
    index.begin_deletion(directory_name);
    if (index.current() == directory_name) {
      const auto candidates = index.restart_candidates();
      index.set_current(candidates.empty() ? "" : candidates.front()->directory);
    }
    return {};
  }));
  return finish_deletion(fs, prefix, directory_name)
      .with_context("deleting '" + directory_name + "', which the next start goes on with");
}

Status finish_deletions(FileSystem& fs, const std::string& prefix, const Index& index) {
  for (const std::string& name : index.deletions()) {
    SCR_ASSIGN_OR_RETURN(const bool flushed_anew, has_intent(fs, prefix + "/.scr/" + name));
    const Status status = flushed_anew ? update_index(fs, prefix,
                                                      [&](Index& now) -> Status {
                                                        now.end_deletion(name);
                                                        return {};
                                                      })
                                       : finish_deletion(fs, prefix, name);
    if (!status.ok()) log::warning("'{}' is not deleted yet: {}", name, status.message());
  }
  return {};
}

}  // namespace scr::flush
