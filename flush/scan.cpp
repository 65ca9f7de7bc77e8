#include "flush/scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "flush/rank_filemap.hpp"
#include "redundancy/plan.hpp"

namespace scr::flush {

namespace {

class Scanner {
 public:
  Scanner(FileSystem& fs, std::string prefix, std::string name)
      : fs_(fs), prefix_path_(std::move(prefix)), name_(std::move(name)) {}

  Result<Scan> run() {
    if (name_.find('/') != std::string::npos || !safe_relative_path(name_).ok())
      return invalid_argument(fmt::format("'{}' is no directory below .scr", text::escape(name_)));
    SCR_ASSIGN_OR_RETURN(prefix_, fs_.open_directory(prefix_path_, /*no_follow=*/false));
    SCR_ASSIGN_OR_RETURN(directory_, fs_.open_directory(At(*prefix_, ".scr/" + name_)));
    SCR_ASSIGN_OR_RETURN(scan_.intent, read_intent(fs_, prefix_path_ + "/.scr/" + name_));
    SCR_ASSIGN_OR_RETURN(scan_.layout, Layout::from_text(scan_.intent.layout));
    if (scan_.dataset().ranks < 1)
      return corrupt(fmt::format("the intent in '{}' tells of {} ranks", directory_->path(),
                                 scan_.dataset().ranks));
    SCR_RETURN_IF_ERROR(read_ranks());
    find_missing();
    SCR_RETURN_IF_ERROR(read_sets());
    judge();
    return std::move(scan_);
  }

 private:
  void problem(const Status& status) { scan_.problems.emplace_back(status.message()); }

  // --- ranks
  Status read_ranks() {
    SCR_ASSIGN_OR_RETURN(const auto entries, fs_.list(At(*directory_, ".")));
    for (const DirectoryEntry& found : entries) {
      const auto rank = rank_of_filemap_name(found.name);
      if (!rank) continue;
      Status status = read_rank(*rank);
      if (status.is_transient()) return status;
      if (!status.ok()) problem(status);
    }
    return {};
  }

  Status read_rank(int rank) {
    ScannedRank scanned;
    SCR_ASSIGN_OR_RETURN(scanned.entry, read_rank_filemap(fs_, *directory_, rank, scan_.dataset()));
    const std::string name = directory_->path() + "/" + rank_filemap_name(rank);
    if (rank >= scan_.dataset().ranks)
      return corrupt(fmt::format("'{}' is of a rank that the dataset has not", name));
    auto descriptor = FlushDescriptor::of(scanned.entry);
    if (!descriptor.ok()) return descriptor.status().with_context(fmt::format("'{}'", name));
    scanned.descriptor = std::move(*descriptor);
    if (scanned.descriptor.layout != scan_.layout)
      return corrupt(fmt::format("'{}' has another layout than its dataset", name));
    for (const FileMeta& meta : scanned.entry.files) {
      if (meta.type != FileType::kFull) continue;
      if (names_.insert(meta.file).second &&
          (!meta.shared_size || names_.insert(meta.shared).second))
        continue;
      return corrupt(fmt::format("'{}' lists '{}', which another rank lists, too", name,
                                 text::escape(meta.file)));
    }
    scanned.whole = scanned.entry.expected_files == static_cast<int>(scanned.entry.files.size());
    for (FileMeta& meta : scanned.entry.files) {
      Status status = meta.complete ? check_file(scanned, meta) : Status();
      if (status.is_transient()) return status;
      if (!status.ok()) problem(status);
      meta.complete = meta.complete && status.ok();
      if (meta.type == FileType::kFull && !meta.complete) scanned.whole = false;
    }
    scan_.ranks.emplace(rank, std::move(scanned));
    return {};
  }

  Status check_file(const ScannedRank& rank, const FileMeta& meta) {
    if (meta.type == FileType::kFull && !meta.crc)
      return corrupt(fmt::format("'{}' has no checksum", text::escape(meta.file)));
    if (meta.type != FileType::kFull)
      return check_size(At(*directory_, meta.file), meta.size, /*exactly=*/true);
    if (!lies_in_container(scan_.layout, meta)) {
      SCR_ASSIGN_OR_RETURN(const std::string temporary,
                           safe_relative_path(temporary_name(meta.file, scan_.dataset())));
      return check_size(At(*prefix_, temporary), meta.size, /*exactly=*/true);
    }
    for (const Segment& segment : rank.descriptor.segments.at(meta.file)) {
      const std::string container = temporary_name(segment.file, scan_.dataset());
      SCR_RETURN_IF_ERROR(check_size(At(*directory_, container), segment.offset + segment.length,
                                     /*exactly=*/false));
    }
    return {};
  }

  Status check_size(const At& at, std::uint64_t size, bool exactly) {
    SCR_ASSIGN_OR_RETURN(const FileInfo info, fs_.info(at));
    if (info.type != FileInfo::Type::kRegular)
      return Status(StatusCode::kPermissionDenied,
                    fmt::format("'{}' is not a regular file", at.display()));
    if (exactly ? info.size == size : info.size >= size) return {};
    return corrupt(fmt::format("'{}' has {} bytes, but {} are recorded for it", at.display(),
                               info.size, size));
  }

  // By the gaps between the ranks there are: a number in a file is no reason to loop for long.
  void find_missing() {
    int next = 0;
    for (const auto& [rank, scanned] : scan_.ranks) {
      if (rank > next) scan_.missing.add(next, rank - 1);
      if (!scanned.whole) scan_.missing.add(rank);
      next = rank + 1;
    }
    if (next < scan_.dataset().ranks) scan_.missing.add(next, scan_.dataset().ranks - 1);
  }

  // --- sets
  // The headers of redundancy files say which sets there are and who is in them. Only of interest
  // if something is missing.
  Status read_sets() {
    if (scan_.complete()) return {};
    for (auto& [rank, scanned] : scan_.ranks) {
      for (FileMeta& meta : scanned.entry.files) {
        if (meta.type == FileType::kFull || !meta.complete) continue;
        Status status = read_header(rank, meta);
        if (status.is_transient()) return status;
        meta.complete = status.ok();
        if (!status.ok()) problem(status);
      }
    }
    return {};
  }

  Status read_header(int rank, const FileMeta& meta) {
    const At at(*directory_, meta.file);
    SCR_ASSIGN_OR_RETURN(const redundancy::RedundancyHeader header,
                         redundancy::read_redundancy_header(fs_, at));
    const DatasetDescriptor& dataset = scan_.dataset();
    const bool fits =
        header.dataset.id == dataset.id && header.dataset.created == dataset.created &&
        header.set.index_of(rank) == header.index &&
        header.set.file_name(header.index) == meta.file &&
        std::ranges::all_of(header.set.members, [&](const redundancy::Member& member) {
          return member.rank < dataset.ranks;
        });
    if (!fits)
      return corrupt(fmt::format("'{}' is not the redundancy file of rank {} in dataset {}",
                                 at.display(), rank, dataset.id));
    auto [found, fresh] = scan_.sets.try_emplace(header.set.id);
    if (fresh) {
      found->second.set = header.set;
    } else if (found->second.set != header.set) {
      return corrupt(fmt::format("'{}' is of another set {} than files beside it", at.display(),
                                 header.set.id));
    }
    for (const redundancy::MemberFiles& member : header.members) {
      const redundancy::Member& who = header.set.members[static_cast<std::size_t>(member.index)];
      if (who.guest || !scan_.missing.contains(who.rank)) continue;
      for (const FileMeta& file : member.files) {
        SCR_RETURN_IF_ERROR(
            check_rank_file(who.rank, file).with_context(fmt::format("'{}'", at.display())));
      }
      scan_.told[who.rank] = member.files;
    }
    return {};
  }

  bool member_is_lost(const redundancy::RedundancySet& set, int index) const {
    const redundancy::Member& member = set.members[static_cast<std::size_t>(index)];
    const auto found = scan_.ranks.find(member.rank);
    if (found == scan_.ranks.end()) return true;
    if (!member.guest && !found->second.whole) return true;
    const FileMeta* meta = found->second.entry.find(set.file_name(index));
    return meta == nullptr || !meta->complete;
  }

  // Can what is missing be rebuilt? Says what cannot, with ranks and nodes.
  void judge() {
    RankRanges covered;
    std::string why;
    for (auto& [id, scanned] : scan_.sets) {
      for (int i = 0; i < scanned.set.size(); ++i) {
        const redundancy::Member& member = scanned.set.members[static_cast<std::size_t>(i)];
        scanned.lost.push_back(member_is_lost(scanned.set, i));
        if (member.guest) continue;
        covered.add(member.rank);
        scanned.needed = scanned.needed || scan_.missing.contains(member.rank);
      }
      scanned.bearable = redundancy::is_bearable(scanned.set, scanned.lost);
      if (scanned.needed && !scanned.bearable) why += in_words(scanned);
    }
    RankRanges lost;
    for (const auto& [first, last] : scan_.missing.ranges()) {
      // The ranks of the sets cut a range into pieces; what is left has nobody.
      int next = first;
      for (auto range = covered.ranges().begin(); range != covered.ranges().end(); ++range) {
        if (range->second < next || range->first > last) continue;
        if (range->first > next) lost.add(next, range->first - 1);
        next = range->second + 1;
      }
      if (next <= last) lost.add(next, last);
    }
    if (lost.count() > 0)
      why +=
          fmt::format("; of rank {} there is neither a copy nor redundancy data", lost.to_text());
    if (!why.empty()) scan_.why_unrecoverable = why.substr(2);
  }

  std::string in_words(const ScannedSet& scanned) const {
    std::string text;
    for (int i = 0; i < scanned.set.size(); ++i) {
      if (!scanned.lost[static_cast<std::size_t>(i)]) continue;
      const redundancy::Member& member = scanned.set.members[static_cast<std::size_t>(i)];
      text += fmt::format("{}rank {} on {}", text.empty() ? "" : ", ", member.rank,
                          text::escape(member.host));
    }
    return fmt::format("; {} set {} bears the loss of {} of its {} members, but has lost {}",
                       redundancy::scheme_name(scanned.set.scheme), scanned.set.id,
                       scanned.set.failures, scanned.set.size(), text);
  }

  FileSystem& fs_;
  std::string prefix_path_;
  std::string name_;
  std::unique_ptr<Directory> prefix_;
  std::unique_ptr<Directory> directory_;
  std::set<std::string> names_;  // application files, and what they become, seen so far
  Scan scan_;
};

}  // namespace

Result<Scan> scan_dataset(FileSystem& fs, const std::string& prefix, const std::string& name) {
  return Scanner(fs, prefix, name).run();
}

}  // namespace scr::flush
