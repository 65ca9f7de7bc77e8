#include "flush/scavenge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.hpp"
#include "core/mpi/single_communicator.hpp"
#include "flush/clean_up.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/parity.hpp"
#include "flush/roll_forward.hpp"
#include "flush/scavenge_shared.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

std::string path_of(const std::string& prefix, const std::string& name) {
  return prefix + "/.scr/" + name;
}

// --- commit

// What the files of a rank are in the prefix directory. Shared ones have no checksums yet.
RankFiles stored_files(const ScannedRank& rank) {
  RankFiles files;
  for (const FinalFile& final_file : final_files(rank.entry.files)) {
    StoredFile file;
    file.file = final_file.name;
    file.size = final_file.size;
    file.shared = final_file.shared;
    file.in_container = rank.descriptor.layout.containers();
    if (!file.shared) {
      const FileMeta& meta = *rank.entry.find(file.file);
      file.crc = *meta.crc;
      if (!file.in_container) file.mtime_ns = meta.mtime_ns;
    }
    if (file.in_container) file.segments = rank.descriptor.segments.at(file.file);
    files.push_back(std::move(file));
  }
  return files;
}

// Redundancy files that were needed stay, beside the summary: a fetch passes over them (NOFETCH).
// Copies of other ranks' files (PARTNER) do not: those files are there themselves.
void add_redundancy(const ScannedRank& rank, RankFiles& files) {
  for (const FileMeta& meta : rank.entry.files) {
    const bool parity = meta.type == FileType::kXor || meta.type == FileType::kReedSolomon;
    if (!parity || !meta.complete || !meta.crc) continue;
    // The application has a file of that name: the list has room for one.
    if (std::ranges::find(files, meta.file, &StoredFile::file) != files.end()) continue;
    StoredFile file;
    file.file = meta.file;
    file.size = meta.size;
    file.crc = *meta.crc;
    file.fetch = false;
    files.push_back(std::move(file));
  }
}

// The segments of all files fill the stream without a gap and without an overlap.
Status check_stream(const std::map<int, RankFiles>& ranks, std::uint64_t container_size,
                    std::uint64_t& stream) {
  std::map<std::uint64_t, std::uint64_t> pieces;  // begin to end
  for (const auto& [rank, files] : ranks) {
    for (const StoredFile& file : files) {
      for (const Segment& segment : file.segments) {
        const auto begin = stream_offset(segment, container_size);
        if (!pieces.emplace(begin, begin + segment.length).second)
          return corrupt(fmt::format("two files lie at the same place of '{}'", segment.file));
      }
    }
  }
  stream = 0;
  for (const auto& [begin, end] : pieces) {
    if (begin != stream)
      return corrupt(fmt::format("the files in containers {} at byte {} of the stream",
                                 begin > stream ? "leave a gap" : "overlap",
                                 std::min(begin, stream)));
    stream = end;
  }
  return {};
}

class Committer {
 public:
  Committer(FileSystem& fs, const std::string& prefix, const std::string& name, const Scan& scan)
      : fs_(fs), prefix_(prefix), directory_(path_of(prefix, name)), scan_(scan) {}

  Status run() {
    std::map<int, RankFiles> ranks;
    for (const auto& [rank, scanned] : scan_.ranks) ranks.emplace(rank, stored_files(scanned));
    SCR_RETURN_IF_ERROR(replay_scavenged(fs_, prefix_, directory_, scan_, ranks));
    summary_.dataset = scan_.dataset();
    summary_.dataset.complete = true;
    summary_.complete = true;
    Intent intent = scan_.intent;
    intent.superseded.clear();
    if (scan_.layout.containers()) {
      SCR_RETURN_IF_ERROR(describe_containers(ranks));
    } else {
      SCR_ASSIGN_OR_RETURN(intent.superseded, superseded_by(ranks));
    }
    for (const auto& [rank, scanned] : scan_.ranks) add_redundancy(scanned, ranks.at(rank));
    SCR_RETURN_IF_ERROR(write_ranks(ranks));
    SCR_RETURN_IF_ERROR(write_intent(fs_, directory_, intent, Durability::kDurable));
    SCR_RETURN_IF_ERROR(fs_.sync_directory(prefix_ + "/.scr"));
    SCR_RETURN_IF_ERROR(write_summary(fs_, directory_, summary_));
    SCR_ASSIGN_OR_RETURN(const bool ended, roll_forward_dataset(fs_, prefix_, scan_.dataset()));
    if (ended) return {};
    return internal_error(
        fmt::format("'{}' was committed, but is not complete in the index", directory_));
  }

 private:
  Status write_ranks(const std::map<int, RankFiles>& ranks) {
    for (int block = 0; block < rank2file_block_count(scan_.dataset().ranks); ++block) {
      const auto begin = ranks.lower_bound(block * kRanksPerBlock);
      const auto end = std::int64_t{block + 1} * kRanksPerBlock;
      std::map<int, RankFiles> part;
      for (auto rank = begin; rank != ranks.end() && rank->first < end; ++rank) part.insert(*rank);
      SCR_RETURN_IF_ERROR(write_rank2file_block(fs_, directory_, block, part));
    }
    return write_rank2file_top(fs_, directory_, scan_.dataset().ranks);
  }

  Result<std::vector<Superseded>> superseded_by(const std::map<int, RankFiles>& ranks) {
    SingleCommunicator alone;
    RankFiles all;
    for (const auto& [rank, files] : ranks) all.insert(all.end(), files.begin(), files.end());
    return find_superseded(alone, fs_, prefix_, scan_.dataset(), all, scan_.intent.keep_newer);
  }

  Status describe_containers(const std::map<int, RankFiles>& ranks) {
    summary_.containers = true;
    summary_.container_size = scan_.layout.container_size;
    SCR_RETURN_IF_ERROR(check_stream(ranks, summary_.container_size, summary_.stream_size));
    summary_.container_count = summary_.stream_size / summary_.container_size +
                               (summary_.stream_size % summary_.container_size != 0 ? 1 : 0);
    summary_.container_parity = summary_.container_count > 0 ? scan_.layout.container_parity : 0;
    if (summary_.container_parity == 0) return {};
    std::vector<std::string> data;
    std::vector<std::string> parity;
    for (std::uint64_t i = 0; i < summary_.container_count; ++i)
      data.push_back(temporary_path(container_name(i)));
    for (std::uint64_t i = 0; i < parity_container_count(summary_); ++i)
      parity.push_back(temporary_path(parity_container_name(i)));
    ParityWriter writer(fs_, summary_, std::move(data), std::move(parity));
    SingleCommunicator alone;
    SCR_ASSIGN_OR_RETURN(summary_.parity_crcs,
                         writer.collect(alone, writer.write_share(0, 1, nullptr)));
    return {};
  }

  std::string temporary_path(const std::string& file) const {
    return directory_ + "/" + temporary_name(file, scan_.dataset());
  }

  FileSystem& fs_;
  const std::string& prefix_;
  std::string directory_;
  const Scan& scan_;
  Summary summary_;
};

}  // namespace

Result<std::optional<std::string>> begin_scavenge(FileSystem& fs, const std::string& prefix,
                                                  const DatasetDescriptor& dataset,
                                                  const Layout& layout, bool keep_newer) {
  SCR_RETURN_IF_ERROR(fs.make_directories(prefix + "/.scr"));
  SCR_ASSIGN_OR_RETURN(const bool ended, roll_forward_dataset(fs, prefix, dataset));
  if (ended) return std::optional<std::string>();
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  for (const IndexEntry& entry : index.entries()) {
    if (entry.complete && entry.id() == dataset.id && entry.dataset.created == dataset.created)
      return std::optional<std::string>();
  }
  SCR_ASSIGN_OR_RETURN(std::string found, find_intent(fs, prefix, dataset));
  if (!found.empty()) {
    SCR_ASSIGN_OR_RETURN(const auto taken,
                         take_up(fs, prefix, found, layout.to_text(), keep_newer));
    if (taken) return std::optional<std::string>(std::move(found));
  }
  SCR_ASSIGN_OR_RETURN(std::string name, make_dataset_directory(fs, prefix, dataset.id));
  Intent intent;
  intent.dataset = dataset;
  intent.layout = layout.to_text();
  intent.keep_newer = keep_newer;
  const Status status = write_intent(fs, path_of(prefix, name), intent, Durability::kDurable);
  if (!status.ok()) (void)remove_dataset_directory(fs, prefix, name);
  SCR_RETURN_IF_ERROR(status);
  return std::optional<std::string>(std::move(name));
}

Status commit_scavenge(FileSystem& fs, const std::string& prefix, const std::string& name) {
  SCR_ASSIGN_OR_RETURN(const Scan scan, scan_dataset(fs, prefix, name));
  if (!scan.complete()) {
    return failed_precondition(fmt::format("files of rank {} of dataset {} ('{}') are missing",
                                           scan.missing.to_text(), scan.dataset().id,
                                           text::escape(scan.dataset().name)));
  }
  return Committer(fs, prefix, name, scan).run();
}

}  // namespace scr::flush
