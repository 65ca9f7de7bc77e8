#include "core/base/job_cleaner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <unordered_set>

#include "core/base/filemap_journal.hpp"
#include "core/base/flush_file.hpp"
#include "core/base/job_directories.hpp"
#include "core/base/job_owner.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

// An administrator runs this on files that users wrote: no file of theirs may cost much memory.
constexpr std::uint64_t kLargestStateFile = std::uint64_t{256} << 20U;
constexpr std::size_t kMostNamed = 100;
constexpr int kDeepest = 64;

// Files of h5scr at the top of a job's directory, the owner's two apart: every `*.scrinfo`, its
// lock and journal, and what a process that was killed while it wrote one left.
bool is_state_file(std::string_view name) {
  if (name.starts_with(".owner.scr.tmp.")) return true;
  if (name.starts_with('.')) return name.find(".scrinfo.tmp.") != std::string_view::npos;
  return name.ends_with(".scrinfo") || name.ends_with(".scrinfo.lock") ||
         name.ends_with(".scrinfo.journal");
}

bool is_owner_file(std::string_view name) {
  return name == kOwnerFileName || name == kOwnerLockName;
}

// Ok for a regular file of a sane size: opening a pipe would hang.
Status check_state_file(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const FileInfo found, fs.info(at));
  if (found.type != FileInfo::Type::kRegular) {
    return corrupt(fmt::format("'{}' is not a regular file", at.display()));
  }
  if (found.size > kLargestStateFile) {
    return corrupt(fmt::format("'{}' is too large: {} bytes", at.display(), found.size));
  }
  return {};
}

class JobCleaner {
 public:
  JobCleaner(FileSystem& fs, const CleanOptions& options, std::vector<JobDirectory>& directories,
             CleanedJob& job)
      : fs_(fs), options_(options), directories_(directories), job_(job) {}

  void run() {
    if (!take_directories() || !check_owner() || !read_filemaps()) return;
    if (!options_.force && has_dataset_to_save()) return;
    clean();
    if (job_.state == CleanState::kRemoved && job_.left_count > 0) {
      stop(CleanState::kPartly, fmt::format("{} left that no filemap lists", job_.left_count));
    }
  }

 private:
  bool stop(CleanState state, std::string reason) {
    job_.state = state;
    job_.reason = std::move(reason);
    return false;
  }
  bool fail(const Status& status) {
    return stop(CleanState::kFailed, std::string(status.message()));
  }
  void leave(std::string path) {
    ++job_.left_count;
    if (job_.left.size() < kMostNamed) job_.left.push_back(std::move(path));
  }

  bool take_directories();
  bool are_empty();
  Status read_owner(const JobDirectory& directory);
  bool check_owner();
  bool read_filemaps();
  Status read_filemaps_of(const JobDirectory& directory);
  FlushState state_of(const FlushFile& flushed, const FilemapEntry& entry) const;
  void compare_with_prefix(const DatasetDescriptor& dataset, FlushState& state) const;
  bool has_dataset_to_save();
  void list_files(const FilemapEntry& entry);

  void clean();
  bool clean_below(JobDirectory& directory, const std::string& below, int depth);
  bool remove_file(JobDirectory& directory, const std::string& path);
  Status remove_state_of(JobDirectory& directory, bool all);

  FileSystem& fs_;
  const CleanOptions& options_;
  std::vector<JobDirectory>& directories_;
  CleanedJob& job_;

  std::vector<JobOwner> locks_;
  std::optional<JobOwnerInfo> owner_;  // of the directory with the latest sign of life
  std::vector<Filemap> filemaps_;      // not merged: each may list files that the others do not
  FlushFile flushed_;
  std::unordered_set<std::string> listed_;  // paths as in JobDirectory::paths.front()
  bool out_of_reach_ = false;               // a filemap lists files below no base of ours
};

// Locks all that have a lock, so that the job can neither run nor start until we are done. One lock
// is enough to know that h5scr made them all: they have the same user, owner and job.
bool JobCleaner::take_directories() {
  for (const JobDirectory& directory : directories_) {
    if (!directory.fault.empty()) return stop(CleanState::kFailed, directory.fault);
    auto lock = JobOwner::take_over(fs_, *directory.directory);
    if (lock.ok()) {
      locks_.push_back(*std::move(lock));
    } else if (lock.status().code() == StatusCode::kUnavailable) {
      return stop(CleanState::kAlive, "a process of the job is running");
    } else if (lock.status().code() != StatusCode::kNotFound) {
      return fail(lock.status());
    }
  }
  return !locks_.empty() || are_empty();
}

// Empty: a scr_clean was interrupted at its last step, or a job is about to start; that job makes
// the directory again if we remove it (JobOwner::hold).
bool JobCleaner::are_empty() {
  for (const JobDirectory& directory : directories_) {
    const auto entries = fs_.list(At(*directory.directory, "."));
    if (!entries.ok()) return fail(entries.status());
    if (entries->empty()) continue;
    return stop(CleanState::kFailed,
                fmt::format("'{}' has no {}: nothing tells whose it is and what it holds",
                            directory.paths.front(), kOwnerLockName));
  }
  return true;
}

Status JobCleaner::read_owner(const JobDirectory& directory) {
  const At at(*directory.directory, std::string(kOwnerFileName));
  const Status sane = check_state_file(fs_, at);
  if (sane.code() == StatusCode::kNotFound) return {};  // killed just before it was written
  SCR_RETURN_IF_ERROR(sane);
  SCR_ASSIGN_OR_RETURN(JobOwnerInfo info, read_owner_file(fs_, *directory.directory));
  if (info.job_id != job_.job_id || info.user != job_.user) {
    return corrupt(fmt::format("'{}' is that of job '{}' of user '{}'", at.display(),
                               text::escape(info.job_id), text::escape(info.user)));
  }
  if (!owner_ || owner_->heartbeat < info.heartbeat) owner_ = std::move(info);
  return {};
}

bool JobCleaner::check_owner() {
  for (const JobDirectory& directory : directories_) {
    if (const Status read = read_owner(directory); !read.ok()) return fail(read);
  }
  if (!owner_) return true;
  if (!options_.other_hosts && owner_->host != options_.host) {
    // Locks of another host do not always reach us.
    return stop(CleanState::kOtherHost,
                fmt::format("made by host '{}'; run scr_clean there, or with --other-hosts",
                            text::escape(owner_->host)));
  }
  const std::int64_t age = options_.now - owner_->heartbeat;
  if (options_.older_than > 0 && age < options_.older_than) {
    return stop(CleanState::kRecent, fmt::format("its last sign of life is {} s old", age));
  }
  return true;
}

Status JobCleaner::read_filemaps_of(const JobDirectory& directory) {
  SCR_ASSIGN_OR_RETURN(const auto entries, fs_.list(At(*directory.directory, ".")));
  std::set<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (is_filemap_name(entry.name)) names.insert(entry.name);
  }
  const At master(*directory.directory, std::string(kMasterFilemapName));
  if (Status sane = check_state_file(fs_, master); sane.ok()) {
    SCR_ASSIGN_OR_RETURN(const auto more, read_master_filemap(fs_, master));
    names.insert(more.begin(), more.end());
  } else if (sane.code() != StatusCode::kNotFound) {
    return sane;
  }
  for (const std::string& name : names) {
    const At at(*directory.directory, name);
    const Status sane = check_state_file(fs_, at);
    if (sane.code() == StatusCode::kNotFound) continue;
    SCR_RETURN_IF_ERROR(sane);
    const Status journal = check_state_file(fs_, journal_of(at));
    if (!journal.ok() && journal.code() != StatusCode::kNotFound) return journal;
    SCR_ASSIGN_OR_RETURN(Filemap filemap, read_filemap(fs_, at));
    filemaps_.push_back(std::move(filemap));
  }
  return {};
}

bool JobCleaner::read_filemaps() {
  for (const JobDirectory& directory : directories_) {
    if (const Status read = read_filemaps_of(directory); !read.ok()) return fail(read);
    const At at(*directory.directory, std::string(kFlushFileName));
    if (!check_state_file(fs_, at).ok()) continue;
    // One that cannot be read tells us of nothing that is safe in the prefix.
    if (auto flush = read_flush_file(fs_, at); flush.ok()) flushed_ = *std::move(flush);
  }
  for (const Filemap& filemap : filemaps_) {
    for (const int rank : filemap.ranks()) {
      for (const int dataset : filemap.datasets()) {
        if (const FilemapEntry* entry = filemap.get(rank, dataset)) list_files(*entry);
      }
    }
  }
  return true;
}

void JobCleaner::list_files(const FilemapEntry& entry) {
  if (entry.directory.empty()) return;
  for (const JobDirectory& directory : directories_) {
    for (const std::string& path : directory.paths) {
      const auto below = relative_to(entry.directory, path);
      if (!below) continue;
      const std::string start =
          directory.paths.front() + (*below == "." ? "/" : "/" + *below + "/");
      for (const FileMeta& meta : entry.files) listed_.insert(start + meta.file);
      return;
    }
  }
  // Files of a dataset that bypasses the cache are in the prefix, and none of our business.
  if (owner_ && !owner_->prefix.empty() && relative_to(entry.directory, owner_->prefix)) return;
  out_of_reach_ = true;
  leave(entry.directory);
}

// What the flush file says; where it says nothing, a complete dataset counts as not flushed.
FlushState JobCleaner::state_of(const FlushFile& flushed, const FilemapEntry& entry) const {
  if (const FlushState* state = flushed.get(entry.dataset.id)) return *state;
  FlushState state;
  state.in_cache = entry.dataset.complete;
  state.is_checkpoint = entry.dataset.is_checkpoint();
  state.is_output = entry.dataset.output;
  return state;
}

// The mark is as old as the flush: the prefix directory may have been wiped out since.
void JobCleaner::compare_with_prefix(const DatasetDescriptor& dataset, FlushState& state) const {
  if (!options_.look || !owner_ || owner_->prefix.empty() || !state.in_cache) return;
  const InPrefix found = options_.look(owner_->prefix, dataset, state.in_prefix);
  if (found == InPrefix::kTakenAway) state.in_cache = false;
  if (found == InPrefix::kYes || found == InPrefix::kNo) state.in_prefix = found == InPrefix::kYes;
}

bool JobCleaner::has_dataset_to_save() {
  FlushFile here;
  for (const Filemap& filemap : filemaps_) {
    for (const int rank : filemap.ranks()) {
      for (const int dataset : filemap.datasets()) {
        const FilemapEntry* entry = filemap.get(rank, dataset);
        if (entry == nullptr || entry->files.empty()) continue;
        FlushState state = state_of(flushed_, *entry);
        compare_with_prefix(entry->dataset, state);
        if (here.get(dataset) == nullptr || state.in_cache) here.at(dataset) = state;
      }
    }
  }
  const std::vector<int> ids = here.datasets_to_save();
  if (ids.empty()) return false;
  stop(
      CleanState::kUnflushed,
      fmt::format("dataset {} is not in the prefix '{}'; bring it there, or use --force to lose it",
                  fmt::join(ids, ", "), owner_ ? text::escape(owner_->prefix) : "?"));
  return true;
}

bool JobCleaner::remove_file(JobDirectory& directory, const std::string& path) {
  const At at(*directory.directory, path);
  const auto info = fs_.info(at);
  if (!info.ok() && info.status().code() == StatusCode::kNotFound) return true;
  if (!options_.dry_run) {
    if (const Status removed = fs_.remove(at); !removed.ok()) return fail(removed);
  }
  ++job_.files;
  if (info.ok() && info->type == FileInfo::Type::kRegular) job_.bytes += info->size;
  return true;
}

// True if the directory `below` ("." is the job's own) is empty afterwards, state files apart.
bool JobCleaner::clean_below(JobDirectory& directory, const std::string& below, int depth) {
  const auto entries = fs_.list(At(*directory.directory, below));
  if (!entries.ok()) return fail(entries.status());
  bool empty = true;
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = below == "." ? entry.name : below + "/" + entry.name;
    const std::string full = directory.paths.front() + "/" + path;
    if (below == "." && (is_state_file(entry.name) || is_owner_file(entry.name))) continue;
    bool gone = false;
    if (entry.type == FileInfo::Type::kDirectory && depth < kDeepest) {
      gone = clean_below(directory, path, depth + 1);
    } else if (entry.type != FileInfo::Type::kDirectory && listed_.contains(full)) {
      gone = remove_file(directory, path);
    } else {
      leave(full);
    }
    empty = empty && gone;
  }
  if (!empty || below == "." || options_.dry_run) return empty;
  const Status removed = fs_.remove_directory(At(*directory.directory, below));
  return removed.ok() || fail(removed);
}

Status JobCleaner::remove_state_of(JobDirectory& directory, bool all) {
  SCR_ASSIGN_OR_RETURN(const auto entries, fs_.list(At(*directory.directory, ".")));
  for (const DirectoryEntry& entry : entries) {
    if (!is_state_file(entry.name)) continue;
    SCR_RETURN_IF_ERROR(fs_.remove_if_exists(At(*directory.directory, entry.name)));
  }
  if (!all) return {};
  // The owner's files go last, so that an interrupted clean can be taken up again.
  for (const std::string_view name : {kOwnerFileName, kOwnerLockName}) {
    SCR_RETURN_IF_ERROR(fs_.remove_if_exists(At(*directory.directory, std::string(name))));
  }
  const Status removed = fs_.remove_directory(At(*directory.parent, directory.name));
  // Not empty any more: the job starts again, which is fine.
  const int why = removed.errno_value();
  return why == ENOTEMPTY || why == EEXIST || why == ENOENT ? Status() : removed;
}

void JobCleaner::clean() {
  std::vector<bool> empty;
  for (JobDirectory& directory : directories_) empty.push_back(clean_below(directory, ".", 0));
  // Filemaps are needed for as long as they list a file that is still there, in whatever directory.
  if (job_.state == CleanState::kFailed || out_of_reach_ || options_.dry_run) return;
  for (std::size_t i = 0; i < directories_.size(); ++i) {
    const Status removed = remove_state_of(directories_[i], empty[i]);
    if (!removed.ok()) fail(removed);
  }
}

}  // namespace

std::string_view clean_state_name(CleanState state) {
  switch (state) {
    case CleanState::kRemoved:
      return "removed";
    case CleanState::kAlive:
      return "alive";
    case CleanState::kRecent:
      return "recent";
    case CleanState::kOtherHost:
      return "other host";
    case CleanState::kUnflushed:
      return "unflushed";
    case CleanState::kPartly:
      return "partly";
    case CleanState::kFailed:
      return "failed";
  }
  return "unknown";
}

CleanReport clean_jobs(FileSystem& fs, const CleanOptions& options) {
  CleanReport report;
  FoundJobs found = find_job_directories(fs, options.bases, options.user, options.job_id);
  report.problems = std::move(found.problems);
  for (auto& [key, directories] : found.jobs) {
    CleanedJob job;
    job.user = key.first;
    job.job_id = key.second;
    for (const JobDirectory& directory : directories) {
      job.directories.push_back(directory.paths.front());
    }
    JobCleaner(fs, options, directories, job).run();
    report.jobs.push_back(std::move(job));
  }
  return report;
}

}  // namespace scr
