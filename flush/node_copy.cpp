#include "flush/node_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/base/flush_file.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/confined_files.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "flush/made_directories.hpp"
#include "flush/rank_filemap.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr::flush {

namespace {

// The control directory, if it is one of this user that nobody else can write to. Null if there is
// none, as on a spare node or on one that came back with empty storage: such a node has nothing of
// the job, which is an answer and no failure.
Result<std::unique_ptr<Directory>> open_control(FileSystem& fs, const NodeJob& job) {
  auto directory = fs.open_directory(job.control);
  if (directory.status().errno_value() == ENOENT) return std::unique_ptr<Directory>();
  SCR_RETURN_IF_ERROR(directory.status());
  SCR_RETURN_IF_ERROR(check_private_directory(fs, **directory));
  return directory;
}

// User and job id are the last two parts of the control directory's path.
Result<JobOwnerInfo> owner_of(const NodeJob& job) {
  constexpr std::string_view kStart = "scr.";
  const auto parts = text::split(job.control, '/');
  if (parts.size() < 3 || !parts.back().starts_with(kStart)) {
    return invalid_argument(fmt::format("'{}' is no control directory <base>/<user>/scr.<job id>",
                                        text::escape(job.control)));
  }
  JobOwnerInfo owner;
  owner.user = parts[parts.size() - 2];
  owner.job_id = parts.back().substr(kStart.size());
  owner.prefix = job.prefix;
  return owner;
}

// The prefix directory of the runs that wrote what is in the cache (core/runtime/program.hpp), if
// it is not this one.
std::string other_prefix(FileSystem& fs, const Directory& control, const NodeJob& job) {
  const auto record = read_hash_file(fs, At(control, "program.scrinfo"));
  if (!record.ok()) return {};
  std::string recorded(record->value("PREFIX").value_or(""));
  const auto real = fs.real_path(job.prefix);
  return recorded == job.prefix || (real.ok() && recorded == *real) ? std::string() : recorded;
}

Status check_prefix(FileSystem& fs, const Directory& control, const NodeJob& job) {
  const std::string other = other_prefix(fs, control, job);
  return other.empty() ? Status() : not_of_prefix(job, other);
}

Result<FlushFile> read_flush_state(FileSystem& fs, const Directory& control) {
  auto flush = read_flush_file(fs, At(control, std::string(kFlushFileName)));
  if (flush.status().code() == StatusCode::kNotFound) return FlushFile();
  return flush;
}

// A dataset that bypasses the cache lists its temporary files in the prefix directory.
bool is_cached(const FilemapEntry& entry, const NodeJob& job) {
  return !entry.directory.empty() && !relative_to(entry.directory, job.prefix);
}

class NodeCopier {
 public:
  NodeCopier(FileSystem& fs, const NodeJob& job, const NodeCopyRequest& request, NodeReport& report)
      : fs_(fs), job_(job), request_(request), report_(report) {}

  Status run() {
    SCR_ASSIGN_OR_RETURN(const auto control, open_control(fs_, job_));
    report_.absent = control == nullptr;
    if (report_.absent) return {};
    SCR_RETURN_IF_ERROR(check_prefix(fs_, *control, job_));
    SCR_RETURN_IF_ERROR(open(*control));
    for (const int rank : filemap_.ranks(request_.dataset)) {
      const auto assigned = request_.assigned.find(rank);
      if (assigned != request_.assigned.end() && assigned->second != report_.host) continue;
      const FilemapEntry& entry = *filemap_.get(rank, request_.dataset);
      if (entry.dataset.created != dataset_.created || !is_cached(entry, job_)) continue;
      Status status = copy_rank(rank, entry);
      if (status.code() == StatusCode::kNoSpace)
        return status;  // for the others there is none either
      if (!status.ok()) problem(rank, status);
    }
    return {};
  }

 private:
  void problem(int rank, const Status& status) {
    report_.problems.push_back(fmt::format("rank {}: {}", rank, status.message()));
  }

  Status open(const Directory& control) {
    SCR_ASSIGN_OR_RETURN(filemap_, read_node_filemap(fs_, control, report_.problems));
    SCR_ASSIGN_OR_RETURN(const JobOwnerInfo owner, owner_of(job_));
    SCR_ASSIGN_OR_RETURN(confined_, ConfinedFiles::open_job(fs_, owner));
    SCR_ASSIGN_OR_RETURN(prefix_, fs_.open_directory(job_.prefix, /*no_follow=*/false));
    SCR_ASSIGN_OR_RETURN(directory_, fs_.open_directory(At(*prefix_, directory_name())));
    SCR_ASSIGN_OR_RETURN(const Intent intent, read_intent(fs_, directory_path()));
    dataset_ = intent.dataset;
    SCR_ASSIGN_OR_RETURN(layout_, Layout::from_text(intent.layout));
    if (dataset_.id == request_.dataset) return {};
    return failed_precondition(fmt::format("'{}' is for dataset {}, not {}", directory_path(),
                                           dataset_.id, request_.dataset));
  }

  std::string directory_name() const { return ".scr/" + request_.directory; }
  std::string directory_path() const { return job_.prefix + "/" + directory_name(); }

  // Is the redundancy file of that name wanted? Only if a set it belongs to has lost a member.
  bool wants(const FilemapEntry& entry, const FileMeta& meta, int rank) const {
    const auto descriptor = StoredDescriptor::from_hash(entry.redundancy);
    if (!descriptor.ok()) return true;
    for (const auto& set : descriptor->sets) {
      const int index = set.index_of(rank);
      if (index < 0 || set.file_name(index) != meta.file) continue;
      return std::ranges::any_of(set.members, [&](const redundancy::Member& member) {
        return !member.guest && (request_.missing.contains(member.rank) ||
                                 request_.failed_hosts.contains(member.host));
      });
    }
    return true;
  }

  // What of this rank shall be in the prefix directory, nothing of it marked complete.
  Result<FilemapEntry> plan(int rank, const FilemapEntry& cached) const {
    FilemapEntry entry;
    entry.dataset = dataset_;
    SCR_ASSIGN_OR_RETURN(FlushDescriptor descriptor, FlushDescriptor::of(cached));
    if (descriptor.layout != layout_) {
      return corrupt(fmt::format("its files are laid out as '{}', those of the dataset as '{}'",
                                 descriptor.layout.to_text(), layout_.to_text()));
    }
    int dropped = 0;
    for (FileMeta meta : cached.files) {
      const bool full = meta.type == FileType::kFull;
      if (!full && (!is_redundancy_file_name(meta.file) || !wants(cached, meta, rank))) {
        ++dropped;
        continue;
      }
      entry.files.push_back(std::move(meta));
    }
    entry.expected_files = cached.expected_files < 0
                               ? static_cast<int>(entry.files.size()) + 1  // never closed
                               : cached.expected_files - dropped;
    entry.flush = descriptor.to_hash();
    return entry;
  }

  Result<std::string> temporary_of(const FileMeta& meta) const {
    return safe_relative_path(temporary_name(meta.file, dataset_));
  }

  Result<CopyTask> task_of(const FilemapEntry& cached, const FlushDescriptor& descriptor,
                           const FileMeta& meta) const {
    CopyTask task;
    task.source = cached.directory + "/" + meta.file;
    task.size = meta.size;
    task.crc = *meta.crc;
    if (meta.type != FileType::kFull) {
      task.pieces.push_back({directory_path() + "/" + meta.file, 0, meta.size, 0});
    } else if (!lies_in_container(layout_, meta)) {
      SCR_ASSIGN_OR_RETURN(const std::string temporary, temporary_of(meta));
      task.pieces.push_back({job_.prefix + "/" + temporary, 0, meta.size, 0});
    } else {
      for (const Segment& segment : descriptor.segments.at(meta.file)) {
        task.pieces.push_back({directory_path() + "/" + temporary_name(segment.file, dataset_),
                               segment.offset, segment.length, 0});
      }
    }
    return task;
  }

  // The copy's length in the prefix directory, if it is a regular file there.
  Result<std::uint64_t> size_there(const FileMeta& meta) const {
    const bool full = meta.type == FileType::kFull;
    std::string path = directory_name() + "/" + meta.file;
    if (full) {
      SCR_ASSIGN_OR_RETURN(path, temporary_of(meta));
    }
    SCR_ASSIGN_OR_RETURN(const FileInfo info, fs_.info(At(*prefix_, path)));
    if (info.type != FileInfo::Type::kRegular) {
      return Status(StatusCode::kPermissionDenied,
                    fmt::format("'{}/{}' is not a regular file", job_.prefix, path));
    }
    return info.size;
  }

  bool is_there(const Segment& segment) const {
    const auto info = fs_.info(At(*directory_, temporary_name(segment.file, dataset_)));
    return info.ok() && info->type == FileInfo::Type::kRegular &&
           info->size >= segment.offset + segment.length;
  }

  // Takes from an earlier copy's rank filemap what it has completed and is still there.
  void adopt_earlier(int rank, FilemapEntry& entry) const {
    auto earlier = read_rank_filemap(fs_, *directory_, rank, dataset_);
    auto there =
        earlier.ok() ? FlushDescriptor::of(*earlier) : Result<FlushDescriptor>(earlier.status());
    auto mine = FlushDescriptor::of(entry);
    if (!there.ok() || !mine.ok() || there->layout != mine->layout) return;
    for (FileMeta& meta : entry.files) {
      const FileMeta* before = earlier->find(meta.file);
      if (before == nullptr || !before->complete || before->type != meta.type ||
          before->size != meta.size || before->crc != meta.crc)
        continue;
      if (lies_in_container(layout_, meta)) {
        auto& segments = mine->segments[meta.file];
        const auto& known = there->segments[meta.file];
        const bool same = std::ranges::equal(segments, known, [](const auto& a, const auto& b) {
          return a.file == b.file && a.offset == b.offset && a.length == b.length;
        });
        if (!same || !std::ranges::all_of(known, [&](const auto& s) { return is_there(s); }))
          continue;
        segments = known;
      } else if (auto size = size_there(meta); !size.ok() || *size != meta.size) {
        continue;
      }
      meta.complete = true;
    }
    entry.flush = mine->to_hash();
  }

  // Directories of plain files, without following a symbolic link.
  Status make_parents(const FilemapEntry& entry) {
    for (const FileMeta& meta : entry.files) {
      if (meta.type != FileType::kFull || lies_in_container(layout_, meta)) continue;
      const std::string parent = parent_of(meta.file);
      if (parent.empty() || !made_.insert(parent).second) continue;
      std::vector<std::string> made;
      SCR_RETURN_IF_ERROR(make_missing(fs_, job_.prefix, prefix_.get(), parent, made));
      SCR_RETURN_IF_ERROR(note_made(fs_, job_.prefix, made));
      for (std::string name = parent; !name.empty(); name = parent_of(name)) {
        const std::string above = parent_of(name);
        SCR_RETURN_IF_ERROR(fs_.sync_directory(At(*prefix_, above.empty() ? "." : above)));
      }
    }
    return {};
  }

  // A leftover that is longer than the file would stay so.
  Status cut_leftover(const FileMeta& meta) {
    if (lies_in_container(layout_, meta)) return {};
    auto size = size_there(meta);
    if (size.status().code() == StatusCode::kNotFound) return {};
    SCR_RETURN_IF_ERROR(size.status());
    if (*size <= meta.size) return {};
    std::string path = directory_name() + "/" + meta.file;
    if (meta.type == FileType::kFull) {
      SCR_ASSIGN_OR_RETURN(path, temporary_of(meta));
    }
    return fs_.remove(At(*prefix_, path));
  }

  // Nobody else reads what takes the place of a file before it has its name, and the file's mode.
  Status keep_private(const FileMeta& meta) {
    if (meta.type != FileType::kFull || lies_in_container(layout_, meta)) return {};
    SCR_ASSIGN_OR_RETURN(const std::string temporary, temporary_of(meta));
    const std::string& name = meta.shared.empty() ? meta.file : meta.shared;
    if (!fs_.info(At(*prefix_, name)).ok()) return {};
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    options.mode = 0600;
    SCR_ASSIGN_OR_RETURN(const auto made, confined_->open(job_.prefix + "/" + temporary, options));
    return made->close();
  }

  Status copy_tasks(std::vector<CopyTask>& tasks) {
    CopyProgress progress;
    CopyOptions options = request_.copy;
    options.resume = true;
    const std::uint64_t before = report_.bytes;
    if (request_.copy.progress)
      options.progress = [&](std::uint64_t done) { request_.copy.progress(before + done); };
    Status status = copy_all(*confined_, tasks, options, progress);
    report_.bytes += progress.bytes_done;
    return status;
  }

  void note_copied(FilemapEntry& entry, FlushDescriptor& descriptor, FileMeta& meta,
                   const CopyTask& task) {
    meta.complete = true;
    if (!lies_in_container(layout_, meta)) return;
    auto& segments = descriptor.segments[meta.file];
    for (std::size_t i = 0; i < segments.size(); ++i) segments[i].crc = task.pieces[i].crc;
    entry.flush = descriptor.to_hash();
  }

  // Copies files of the rank: all at once; if one is damaged, each by itself.
  Status copy_files(int rank, const FilemapEntry& cached, FilemapEntry& entry,
                    const std::vector<std::size_t>& wanted) {
    SCR_ASSIGN_OR_RETURN(FlushDescriptor descriptor, FlushDescriptor::of(entry));
    std::vector<CopyTask> tasks;
    for (const std::size_t i : wanted) {
      SCR_RETURN_IF_ERROR(cut_leftover(entry.files[i]));
      SCR_RETURN_IF_ERROR(keep_private(entry.files[i]));
      SCR_ASSIGN_OR_RETURN(CopyTask task, task_of(cached, descriptor, entry.files[i]));
      tasks.push_back(std::move(task));
    }
    const Status all = copy_tasks(tasks);
    if (all.code() == StatusCode::kNoSpace) return all;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      Status status = all;
      if (!all.ok() && tasks.size() > 1) {
        std::vector<CopyTask> one{tasks[t]};
        status = copy_tasks(one);
        tasks[t] = std::move(one.front());
        if (status.code() == StatusCode::kNoSpace) return status;
      }
      if (status.ok()) note_copied(entry, descriptor, entry.files[wanted[t]], tasks[t]);
      if (!status.ok()) problem(rank, status);
    }
    return {};
  }

  Status copy_rank(int rank, const FilemapEntry& cached) {
    SCR_ASSIGN_OR_RETURN(FilemapEntry entry, plan(rank, cached));
    std::vector<std::size_t> wanted;
    std::vector<bool> usable;
    for (FileMeta& meta : entry.files) {
      usable.push_back(meta.complete && meta.crc);
      meta.complete = false;
    }
    adopt_earlier(rank, entry);
    for (std::size_t i = 0; i < entry.files.size(); ++i) {
      if (usable[i] && !entry.files[i].complete) wanted.push_back(i);
      if (!usable[i])
        problem(rank, corrupt(fmt::format("'{}' was never complete", entry.files[i].file)));
    }
    SCR_RETURN_IF_ERROR(make_parents(entry));
    SCR_RETURN_IF_ERROR(write_rank_filemap(fs_, *directory_, rank, entry));
    if (!wanted.empty()) {
      const Status copied = copy_files(rank, cached, entry, wanted);
      SCR_RETURN_IF_ERROR(write_rank_filemap(fs_, *directory_, rank, entry));
      SCR_RETURN_IF_ERROR(copied);
    }
    const bool listed = entry.expected_files == static_cast<int>(entry.files.size());
    const bool whole = std::ranges::all_of(entry.files, [](const FileMeta& meta) {
      return meta.type != FileType::kFull || meta.complete;
    });
    if (listed && whole) report_.copied.add(rank);
    if (!listed) problem(rank, corrupt("its filemap does not list all of its files"));
    return {};
  }

  FileSystem& fs_;
  const NodeJob& job_;
  const NodeCopyRequest& request_;
  NodeReport& report_;
  Filemap filemap_;
  DatasetDescriptor dataset_;
  Layout layout_;
  std::unique_ptr<ConfinedFiles> confined_;
  std::unique_ptr<Directory> prefix_;
  std::unique_ptr<Directory> directory_;  // of the dataset
  std::set<std::string> made_;            // directories of files
};

}  // namespace

Status not_of_prefix(const NodeJob& job, const std::string& other) {
  return failed_precondition(
      fmt::format("the datasets in the cache are of runs in the prefix directory '{0}', not in "
                  "'{1}': save them there, with 'scr_postrun --prefix {0}'",
                  text::escape(other), text::escape(job.prefix)));
}

Result<Filemap> read_node_filemap(FileSystem& fs, const Directory& control,
                                  std::vector<std::string>& problems) {
  Filemap all;
  const auto names = read_master_filemap(fs, At(control, std::string(kMasterFilemapName)));
  if (names.status().code() == StatusCode::kNotFound) return all;
  SCR_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    auto filemap = read_filemap(fs, At(control, name));
    if (filemap.ok()) {
      all.merge(*filemap);
    } else {
      problems.emplace_back(filemap.status().message());
    }
  }
  return all;
}

Result<NodeReport> survey_node(FileSystem& fs, const NodeJob& job, const std::string& host) {
  NodeReport report;
  report.host = host;
  SCR_ASSIGN_OR_RETURN(const auto control, open_control(fs, job));
  report.absent = control == nullptr;
  if (report.absent) return report;
  report.other_prefix = other_prefix(fs, *control, job);
  if (!report.other_prefix.empty()) return report;
  SCR_ASSIGN_OR_RETURN(const Filemap filemap, read_node_filemap(fs, *control, report.problems));
  SCR_ASSIGN_OR_RETURN(const FlushFile flushed, read_flush_state(fs, *control));
  for (const int id : filemap.datasets()) {
    // Files of one id may be of several datasets, if a node was away for some runs.
    std::map<std::int64_t, NodeDataset> by_time;
    for (const int rank : filemap.ranks(id)) {
      const FilemapEntry& entry = *filemap.get(rank, id);
      if (!is_cached(entry, job)) continue;
      auto descriptor = FlushDescriptor::of(entry);
      if (!descriptor.ok()) {
        report.problems.push_back(
            fmt::format("rank {} in dataset {}: {}", rank, id, descriptor.status().message()));
        continue;
      }
      auto [found, fresh] = by_time.try_emplace(entry.dataset.created);
      NodeDataset& dataset = found->second;
      // One mark is enough: a rank sets it when all ranks have all they need.
      if (fresh || (entry.dataset.complete && !dataset.dataset.complete)) {
        dataset.dataset = entry.dataset;
        dataset.layout = descriptor->layout;
        dataset.keep_newer = descriptor->keep_newer;
      }
      dataset.ranks.add(rank);
    }
    for (auto& [created, dataset] : by_time) {
      const FlushState* state = flushed.get(id);
      dataset.in_prefix =
          state != nullptr && state->in_prefix && created == by_time.rbegin()->first;
      report.datasets.push_back(std::move(dataset));
    }
  }
  return report;
}

Result<NodeReport> copy_node(FileSystem& fs, const NodeJob& job, const std::string& host,
                             const NodeCopyRequest& request) {
  NodeReport report;
  report.host = host;
  if (request.directory.find('/') != std::string::npos)
    return invalid_argument(fmt::format("'{}' is no directory below .scr", request.directory));
  SCR_RETURN_IF_ERROR(safe_relative_path(request.directory).status());
  const Status status = NodeCopier(fs, job, request, report).run();
  report.error = std::string(status.message());
  return report;
}

Status mark_flushed(FileSystem& fs, const NodeJob& job, int dataset) {
  SCR_ASSIGN_OR_RETURN(const auto control, open_control(fs, job));
  if (control == nullptr) return {};
  SCR_RETURN_IF_ERROR(check_prefix(fs, *control, job));
  SCR_ASSIGN_OR_RETURN(FlushFile flushed, read_flush_state(fs, *control));
  FlushState* state = flushed.get(dataset);
  if (state == nullptr) return {};
  state->in_prefix = true;
  state->flushing = false;
  return write_flush_file(fs, At(*control, std::string(kFlushFileName)), flushed);
}

}  // namespace scr::flush
