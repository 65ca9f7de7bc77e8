#include "flush/scavenge_shared.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/access.hpp"
#include "core/base/checksum.hpp"
#include "core/base/file_checksum.hpp"
#include "core/base/text.hpp"
#include "core/mpi/single_communicator.hpp"
#include "flush/confined_files.hpp"
#include "flush/flush.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/replay.hpp"

namespace scr::flush {

namespace {

constexpr std::size_t kReadSize = std::size_t{1} << 20U;

class LogReplayer {
 public:
  LogReplayer(FileSystem& fs, const std::string& prefix, const std::string& directory,
              const Scan& scan, std::map<int, RankFiles>& ranks)
      : fs_(fs), prefix_path_(prefix), directory_path_(directory), scan_(scan), ranks_(ranks) {}

  Status run() {
    for (const auto& [rank, scanned] : scan_.ranks) {
      for (const FileMeta& meta : scanned.entry.files) {
        if (meta.type == FileType::kFull && !meta.shared.empty()) logs_.push_back({rank, &meta});
      }
    }
    if (logs_.empty()) return {};
    SCR_ASSIGN_OR_RETURN(prefix_, fs_.open_directory(prefix_path_, /*no_follow=*/false));
    const Status status = replay();
    if (status.code() != StatusCode::kCorrupt) return status;
    SCR_ASSIGN_OR_RETURN(const bool found, distrust_damaged());
    if (!found) return status;
    return corrupt(fmt::format("{}; it is copied again, or rebuilt, when this is tried again",
                               status.message()));
  }

 private:
  struct Log {
    int rank;
    const FileMeta* meta;
  };

  Status replay() {
    SCR_ASSIGN_OR_RETURN(const auto tables, read_tables());
    SCR_ASSIGN_OR_RETURN(const auto confined, ConfinedFiles::open_prefix(fs_, prefix_path_));
    SCR_RETURN_IF_ERROR(make_files(*confined));
    SingleCommunicator alone;
    SCR_ASSIGN_OR_RETURN(const auto regions,
                         plan_replay(alone, tables, [this](const std::string& name, std::uint64_t) {
                           return places_of(*files_.at(name), scan_.dataset(), prefix_path_,
                                            directory_path_);
                         }));
    std::vector<CopyTask> tasks =
        replay_tasks(regions, [this](const std::string&, const shared_file::LogPlace& place) {
          return open_log(logs_[place.id]);
        });
    CopyProgress progress;
    SCR_RETURN_IF_ERROR(copy_all(*confined, tasks, {}, progress));
    SCR_ASSIGN_OR_RETURN(const auto pieces, collect_replayed(alone, regions, tasks));
    for (auto& [rank, files] : ranks_) SCR_RETURN_IF_ERROR(add_checksums(pieces, files));
    return end_files(*confined);
  }

  Result<std::unique_ptr<File>> open_log(const Log& log) const {
    return fs_.open(At(*prefix_, temporary_name(log.meta->file, scan_.dataset())),
                    OpenOptions::read());
  }

  // What the logs say must be what the filemaps say: a log that lies is not followed.
  Result<std::vector<SharedLog>> read_tables() {
    std::vector<SharedLog> tables;
    for (auto& [rank, files] : ranks_) {
      for (StoredFile& file : files) {
        if (file.shared) files_.emplace(file.file, &file);
      }
    }
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      SCR_ASSIGN_OR_RETURN(const auto file, open_log(logs_[i]));
      SharedLog log;
      log.file = logs_[i].meta->shared;
      SCR_ASSIGN_OR_RETURN(log.table, shared_file::read_log_table(*file));
      log.place.id = i;
      log.place.rank = log.table.rank;
      SCR_RETURN_IF_ERROR(check_table(logs_[i], log.table));
      times_[log.file] = log.table.written;
      tables.push_back(std::move(log));
    }
    for (const auto& [name, file] : files_) {
      if (!times_.contains(name))
        return corrupt(fmt::format("'{}' has no logs", text::escape(name)));
    }
    return tables;
  }

  Status check_table(const Log& log, const shared_file::LogTable& table) const {
    const auto wrong = [&](std::string_view why) {
      return corrupt(fmt::format("the log of rank {} of '{}' {}", log.rank,
                                 text::escape(log.meta->shared), why));
    };
    const auto file = files_.find(log.meta->shared);
    if (file == files_.end()) return wrong("is of a file that no rank lists");
    if (table.rank != static_cast<std::uint32_t>(log.rank)) return wrong("is of another rank");
    if ((table.rank == table.first_rank) != log.meta->shared_size.has_value())
      return wrong("and its filemap do not agree on who lists the file");
    if (table.size != file->second->size) return wrong("tells of another size of the file");
    return {};
  }

  // The file has its size from the start: it may end with a hole.
  Status make_files(ConfinedFiles& confined) {
    for (const auto& [name, file] : files_) {
      if (file->contained()) continue;
      OpenOptions options = OpenOptions::read_write();
      options.create = true;
      options.mode = temporary_mode(fs_, prefix_path_ + "/" + name);
      SCR_ASSIGN_OR_RETURN(const auto made, confined.open(path_of(name), options));
      SCR_RETURN_IF_ERROR(made->truncate(file->size));
      SCR_RETURN_IF_ERROR(made->close());
    }
    return {};
  }

  // Durable also if empty, and as old as what they are made of, as those of a flush.
  Status end_files(ConfinedFiles& confined) {
    for (const auto& [name, file] : files_) {
      if (file->contained()) continue;
      const std::string path = path_of(name);
      SCR_ASSIGN_OR_RETURN(const auto made, confined.open(path, OpenOptions::read_write()));
      made->set_time(times_.at(name));
      SCR_RETURN_IF_ERROR(made->sync());
      SCR_RETURN_IF_ERROR(made->close());
      SCR_RETURN_IF_ERROR(confined.sync_directory(path.substr(0, path.rfind('/'))));
    }
    return {};
  }

  std::string path_of(const std::string& file) const {
    return prefix_path_ + "/" + temporary_name(file, scan_.dataset());
  }

  // Something in the logs is wrong: those that are no longer what was copied do not count any more.
  Result<bool> distrust_damaged() {
    SCR_ASSIGN_OR_RETURN(const auto directory, fs_.open_directory(directory_path_));
    std::map<int, FilemapEntry> changed;
    for (const Log& log : logs_) {
      const auto right = is_right(log);
      if (right.status().is_transient()) return right.status();
      if (right.ok() && *right) continue;
      const auto [entry, fresh] = changed.try_emplace(log.rank, scan_.ranks.at(log.rank).entry);
      entry->second.find(log.meta->file)->complete = false;
    }
    for (const auto& [rank, entry] : changed)
      SCR_RETURN_IF_ERROR(write_rank_filemap(fs_, *directory, rank, entry));
    return !changed.empty();
  }

  Result<bool> is_right(const Log& log) const {
    SCR_ASSIGN_OR_RETURN(const auto file, open_log(log));
    std::vector<std::byte> buffer(kReadSize);
    SCR_ASSIGN_OR_RETURN(const std::uint32_t crc, checksum_range(*file, 0, log.meta->size, buffer));
    return crc == log.meta->crc;
  }

  FileSystem& fs_;
  const std::string& prefix_path_;
  const std::string& directory_path_;  // of the dataset
  const Scan& scan_;
  std::map<int, RankFiles>& ranks_;
  std::unique_ptr<Directory> prefix_;
  std::vector<Log> logs_;
  std::map<std::string, StoredFile*> files_;   // shared ones, by name
  std::map<std::string, std::int64_t> times_;  // when they were closed
};

}  // namespace

Status replay_scavenged(FileSystem& fs, const std::string& prefix, const std::string& directory,
                        const Scan& scan, std::map<int, RankFiles>& ranks) {
  return LogReplayer(fs, prefix, directory, scan, ranks).run();
}

}  // namespace scr::flush
