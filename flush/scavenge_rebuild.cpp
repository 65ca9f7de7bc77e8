// Scavenge: makes the files of ranks that did not come from their nodes, from redundancy data.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/file_checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "core/mpi/single_communicator.hpp"
#include "flush/flush.hpp"
#include "flush/made_directories.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/scavenge.hpp"
#include "flush/segmented_file.hpp"
#include "flush/staged_files.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

constexpr std::size_t kReadSize = std::size_t{1} << 20U;

// The places of the stream that no file has, handed out in order.
class Gaps {
 public:
  Gaps(std::uint64_t stream, std::uint64_t container_size)
      : stream_(stream), container_size_(container_size) {}

  void take(const std::vector<Segment>& segments) {
    for (const Segment& segment : segments) {
      const std::uint64_t begin = stream_offset(segment, container_size_);
      taken_[begin] = std::max(taken_[begin], begin + segment.length);
    }
  }

  // Segments for `size` bytes; kCorrupt if there is no place left.
  Result<std::vector<Segment>> place(std::uint64_t size) {
    std::vector<Segment> segments;
    while (size > 0) {
      while (next_ != taken_.end() && next_->first <= at_) {
        at_ = std::max(at_, next_->second);
        ++next_;
      }
      const std::uint64_t end = next_ == taken_.end() ? stream_ : std::min(next_->first, stream_);
      if (at_ >= end) return corrupt("the containers have no place for the files to be rebuilt");
      const std::uint64_t length = std::min(size, end - at_);
      for (Segment& segment : place_in_containers(at_, length, container_size_))
        segments.push_back(std::move(segment));
      at_ += length;
      size -= length;
    }
    return segments;
  }
  void start() { next_ = taken_.begin(); }

 private:
  std::uint64_t stream_;
  std::uint64_t container_size_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // begin to end
  std::map<std::uint64_t, std::uint64_t>::const_iterator next_ = taken_.end();
  std::uint64_t at_ = 0;
};

std::uint64_t length_of(const std::vector<Segment>& segments) {
  std::uint64_t length = 0;
  for (const Segment& segment : segments) length += segment.length;
  return length;
}

class Rebuilder {
 public:
  Rebuilder(FileSystem& fs, const std::string& prefix, const std::string& name, const Scan& scan,
            const RebuildOptions& options)
      : fs_(fs), prefix_path_(prefix), name_(name), scan_(scan), options_(options) {}

  Result<std::vector<int>> run() {
    SCR_ASSIGN_OR_RETURN(prefix_, fs_.open_directory(prefix_path_, /*no_follow=*/false));
    SCR_ASSIGN_OR_RETURN(directory_, fs_.open_directory(At(*prefix_, ".scr/" + name_)));
    staged_ = std::make_unique<StagedFiles>(fs_, *prefix_, *directory_);
    for (const auto& [rank, scanned] : scan_.ranks) {
      if (!scan_.missing.contains(rank)) ranks_.emplace(rank, scanned);
    }
    SCR_RETURN_IF_ERROR(plan_missing());
    for (const auto& [id, scanned] : scan_.sets) {
      if (!scanned.needed || (options_.set && *options_.set != id) ||
          (options_.scheme && *options_.scheme != scanned.set.scheme))
        continue;
      SCR_RETURN_IF_ERROR(rebuild_set(scanned).with_context(fmt::format(
          "rebuilding {} set {} of dataset {} ('{}')", redundancy::scheme_name(scanned.set.scheme),
          id, scan_.dataset().id, text::escape(scan_.dataset().name))));
    }
    return std::vector<int>(rebuilt_.begin(), rebuilt_.end());
  }

 private:
  // --- where missing files go

  // Missing ranks in the order of the stream: node after node, a node being where its lowest rank
  // is.
  std::vector<int> missing_in_order() const {
    std::map<int, std::string> hosts;
    std::map<std::string, int> first;
    for (const auto& [id, scanned] : scan_.sets) {
      for (const redundancy::Member& member : scanned.set.members) {
        hosts[member.rank] = member.host;
        const auto [found, fresh] = first.try_emplace(member.host, member.rank);
        found->second = std::min(found->second, member.rank);
      }
    }
    std::vector<int> ranks;
    for (const auto& [rank, files] : scan_.told) ranks.push_back(rank);
    std::ranges::sort(ranks, {}, [&](int rank) { return std::pair(first[hosts[rank]], rank); });
    return ranks;
  }

  // Segments that the rank's own filemap had, if it is there and about the same files.
  const FlushDescriptor* known_segments(int rank, const std::vector<FileMeta>& files) const {
    const auto found = scan_.ranks.find(rank);
    if (found == scan_.ranks.end()) return nullptr;
    const auto& segments = found->second.descriptor.segments;
    const bool same = std::ranges::all_of(final_files(files), [&](const FinalFile& file) {
      const auto known = segments.find(file.name);
      return known != segments.end() && length_of(known->second) == file.size;
    });
    return same ? &found->second.descriptor : nullptr;
  }

  // Of all files together; more than containers can hold is nobody's dataset.
  Result<std::uint64_t> stream_size() const {
    std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
    if (scan_.layout.container_size < limit / kMaxContainers)
      limit = scan_.layout.container_size * kMaxContainers;
    std::uint64_t size = 0;
    const auto add = [&](const std::vector<FileMeta>& files) {
      for (const FinalFile& file : final_files(files)) {
        if (file.size > limit - size) return false;
        size += file.size;
      }
      return true;
    };
    bool fits = true;
    for (const auto& [rank, scanned] : ranks_) fits = fits && add(scanned.entry.files);
    for (const auto& [rank, files] : scan_.told) fits = fits && add(files);
    if (fits) return size;
    return corrupt("the files are larger than containers can be");
  }

  // Lists the files of every rank that is missing, with their places, before any is written.
  Status plan_missing() {
    std::uint64_t stream = 0;
    if (scan_.layout.containers()) {
      SCR_ASSIGN_OR_RETURN(stream, stream_size());
    }
    Gaps gaps(stream, std::max<std::uint64_t>(scan_.layout.container_size, 1));
    for (const auto& [rank, scanned] : ranks_) {
      for (const auto& [file, segments] : scanned.descriptor.segments) gaps.take(segments);
    }
    for (const auto& [rank, files] : scan_.told) {
      const FlushDescriptor* known = known_segments(rank, files);
      if (known == nullptr) continue;
      for (const FinalFile& file : final_files(files)) gaps.take(known->segments.at(file.name));
    }
    gaps.start();
    for (const int rank : missing_in_order()) {
      ScannedRank planned;
      planned.entry.dataset = scan_.dataset();
      planned.descriptor.layout = scan_.layout;
      const std::vector<FileMeta>& files = scan_.told.at(rank);
      const FlushDescriptor* known = known_segments(rank, files);
      for (const FinalFile& file : final_files(files)) {
        if (!scan_.layout.containers()) break;
        auto& segments = planned.descriptor.segments[file.name];
        if (known != nullptr) {
          segments = known->segments.at(file.name);
        } else {
          SCR_ASSIGN_OR_RETURN(segments, gaps.place(file.size));
        }
      }
      for (FileMeta meta : files) {
        meta.complete = false;
        planned.entry.files.push_back(std::move(meta));
      }
      keep_redundancy_files(rank, planned.entry);
      SCR_RETURN_IF_ERROR(make_parents(planned.entry));
      const auto [found, fresh] = ranks_.insert_or_assign(rank, std::move(planned));
      SCR_RETURN_IF_ERROR(write_rank(rank, found->second));
    }
    return {};
  }

  // Those of sets in which the rank is a guest, or that are whole although its files are not.
  void keep_redundancy_files(int rank, FilemapEntry& entry) const {
    const auto found = scan_.ranks.find(rank);
    if (found == scan_.ranks.end()) return;
    for (const FileMeta& meta : found->second.entry.files) {
      if (meta.type != FileType::kFull) entry.files.push_back(meta);
    }
  }

  Status make_parents(const FilemapEntry& entry) {
    std::vector<std::string> made;
    for (const FileMeta& meta : entry.files) {
      const std::string parent = parent_of(meta.file);
      if (meta.type != FileType::kFull || lies_in_container(scan_.layout, meta) || parent.empty())
        continue;
      SCR_RETURN_IF_ERROR(make_missing(fs_, prefix_path_, prefix_.get(), parent, made));
    }
    return note_made(fs_, prefix_path_, made);
  }

  Status write_rank(int rank, ScannedRank& scanned) {
    scanned.entry.flush = scanned.descriptor.to_hash();
    scanned.entry.expected_files = static_cast<int>(scanned.entry.files.size());
    return write_rank_filemap(fs_, *directory_, rank, scanned.entry);
  }

  // --- one set

  // Tells the view where the files of a member are.
  Status stage(const redundancy::RedundancySet& set, int index,
               const redundancy::MemberFiles& member) {
    const int rank = set.members[static_cast<std::size_t>(index)].rank;
    for (const FileMeta& meta : member.files) {
      if (lies_in_container(scan_.layout, meta)) {
        std::vector<Segment> segments = ranks_.at(rank).descriptor.segments.at(meta.file);
        for (Segment& segment : segments)
          segment.file = temporary_name(segment.file, scan_.dataset());
        staged_->add_contained(meta.file, std::move(segments));
      } else {
        SCR_ASSIGN_OR_RETURN(std::string path,
                             safe_relative_path(temporary_name(meta.file, scan_.dataset())));
        staged_->add_plain(meta.file, std::move(path));
      }
    }
    const std::string redundancy_file = set.file_name(index);
    staged_->add_own(redundancy_file, redundancy_file);
    // New files have these names while they are made.
    const std::string start = redundancy::temporary_name_start(set, index);
    for (std::size_t i = 0; i < member.files.size(); ++i)
      staged_->add_alias(start + std::to_string(i), member.files[i].file);
    staged_->add_alias(start + std::to_string(member.files.size()), redundancy_file);
    return {};
  }

  redundancy::HostedMember host(const ScannedSet& scanned, int index) {
    const redundancy::Member& member = scanned.set.members[static_cast<std::size_t>(index)];
    redundancy::HostedMember hosted;
    hosted.index = index;
    hosted.directory = directory_.get();
    hosted.content.index = index;
    hosted.present = !scanned.lost[static_cast<std::size_t>(index)];
    const auto found = ranks_.find(member.rank);
    if (found == ranks_.end()) return hosted;
    const std::string redundancy_file = scanned.set.file_name(index);
    for (const FileMeta& meta : found->second.entry.files) {
      if (meta.type == FileType::kFull && !member.guest) hosted.content.files.push_back(meta);
      if (meta.type != FileType::kFull && meta.file == redundancy_file)
        hosted.content.redundancy = meta;
    }
    return hosted;
  }

  // A member is about to be made anew: until it is whole nobody shall take it for that.
  static Status register_member(void* context, const redundancy::HostedMember& member) {
    auto& self = *static_cast<Rebuilder*>(context);
    const redundancy::RedundancySet& set = self.current_->set;
    const redundancy::Member& who = set.members[static_cast<std::size_t>(member.index)];
    const auto found = self.ranks_.find(who.rank);
    if (found != self.ranks_.end()) {
      FilemapEntry& entry = found->second.entry;
      entry.remove(set.file_name(member.index));
      for (const FileMeta& meta : member.content.files) {
        FileMeta* listed = entry.find(meta.file);
        if (listed == nullptr || listed->size != meta.size)
          return corrupt(
              fmt::format("rank {} has other files than its redundancy set tells", who.rank));
        listed->complete = false;
      }
      SCR_RETURN_IF_ERROR(self.write_rank(who.rank, found->second));
    } else if (!member.content.files.empty()) {
      return corrupt(fmt::format("nobody knows the files of rank {}", who.rank));
    }
    return self.stage(set, member.index, member.content);
  }

  Status rebuild_set(const ScannedSet& scanned) {
    current_ = &scanned;
    const redundancy::RedundancySet& set = scanned.set;
    std::vector<redundancy::HostedMember> members;
    for (int i = 0; i < set.size(); ++i) {
      members.push_back(host(scanned, i));
      if (members.back().present) SCR_RETURN_IF_ERROR(stage(set, i, members.back().content));
    }
    SingleCommunicator alone;
    redundancy::EncodeOptions options;
    options.progress = options_.progress;
    const std::vector<int> hosts(members.size(), 0);
    SCR_RETURN_IF_ERROR(redundancy::rebuild(alone, *staged_, set, hosts, members,
                                            /*verify_all=*/false, register_member, this, options)
                            .status());
    for (const redundancy::HostedMember& member : members) {
      const redundancy::Member& who = set.members[static_cast<std::size_t>(member.index)];
      if (!member.rebuilt || who.guest) continue;
      SCR_RETURN_IF_ERROR(finish_rank(who.rank, member.content));
      rebuilt_.insert(who.rank);
    }
    return {};
  }

  // The files of a rank are new, and their checksums right: makes them durable and says so.
  Status finish_rank(int rank, const redundancy::MemberFiles& content) {
    ScannedRank& scanned = ranks_.at(rank);
    for (const FileMeta& meta : content.files) {
      if (lies_in_container(scan_.layout, meta)) {
        SCR_RETURN_IF_ERROR(sum_segments(meta, scanned.descriptor.segments.at(meta.file)));
      } else {
        const At at(*prefix_, temporary_name(meta.file, scan_.dataset()));
        SCR_RETURN_IF_ERROR(fs_.sync_file(at));
        const std::string parent = parent_of(meta.file);
        SCR_RETURN_IF_ERROR(fs_.sync_directory(At(*prefix_, parent.empty() ? "." : parent)));
      }
      FileMeta* listed = scanned.entry.find(meta.file);
      *listed = meta;
      listed->complete = true;
    }
    SCR_RETURN_IF_ERROR(fs_.sync_file(At(*directory_, content.redundancy.file)));
    scanned.entry.put(content.redundancy);
    return write_rank(rank, scanned);
  }

  // Reads a rebuilt file back from its containers: each segment has a checksum of its own.
  Status sum_segments(const FileMeta& meta, std::vector<Segment>& segments) {
    std::vector<Segment> there = segments;
    for (Segment& segment : there) segment.file = temporary_name(segment.file, scan_.dataset());
    SCR_ASSIGN_OR_RETURN(const auto file,
                         SegmentedFile::open(fs_, *directory_, meta.file, there, true));
    std::vector<std::byte> buffer(kReadSize);
    std::uint64_t offset = 0;
    std::uint32_t whole = 0;
    for (Segment& segment : segments) {
      SCR_ASSIGN_OR_RETURN(segment.crc, checksum_range(*file, offset, segment.length, buffer));
      whole = crc32_combine(whole, segment.crc, segment.length);
      offset += segment.length;
    }
    if (whole != meta.crc)
      return corrupt(fmt::format("'{}' has a wrong checksum in its containers", meta.file));
    SCR_RETURN_IF_ERROR(file->sync());
    SCR_RETURN_IF_ERROR(file->close());
    return fs_.sync_directory(At(*directory_, "."));
  }

  FileSystem& fs_;
  const std::string& prefix_path_;
  const std::string& name_;
  const Scan& scan_;
  const RebuildOptions& options_;
  std::unique_ptr<Directory> prefix_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<StagedFiles> staged_;
  std::map<int, ScannedRank> ranks_;  // as they are in the prefix directory now
  const ScannedSet* current_ = nullptr;
  std::set<int> rebuilt_;
};

}  // namespace

Result<std::vector<int>> rebuild_missing(FileSystem& fs, const std::string& prefix,
                                         const std::string& name, const Scan& scan,
                                         const RebuildOptions& options) {
  if (scan.complete()) return std::vector<int>();
  if (!scan.recoverable()) {
    return Status(StatusCode::kUnrecoverable,
                  fmt::format("dataset {} ('{}') is unrecoverable: {}", scan.dataset().id,
                              text::escape(scan.dataset().name), scan.why_unrecoverable));
  }
  return Rebuilder(fs, prefix, name, scan, options).run();
}

}  // namespace scr::flush
