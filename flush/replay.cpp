#include "flush/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/checksum.hpp"
#include "core/base/read_only_file.hpp"
#include "core/shared_file/wire.hpp"

namespace scr::flush {

namespace {

using shared_file::LogEntry;
using shared_file::LogPlace;
using shared_file::WireReader;
using shared_file::WireWriter;

// Large writes, and no process with less than that unless the file is small.
constexpr std::uint64_t kSmallestRegion = std::uint64_t{4} << 20U;
// Holes shorter than that are written, so that writes stay large.
constexpr std::uint64_t kSmallestHole = std::uint64_t{1} << 20U;

Status bad_message() { return internal_error("a message of a flush of a shared file is broken"); }

// How a file is divided: the same on all processes that know its size.
struct Regions {
  Regions(std::uint64_t size_in, int ranks, std::uint32_t first_rank) : size(size_in) {
    const auto share =
        (size + static_cast<std::uint64_t>(ranks) - 1) / static_cast<std::uint64_t>(ranks);
    length = std::max(kSmallestRegion,
                      (share + kSmallestRegion - 1) / kSmallestRegion * kSmallestRegion);
    first = static_cast<int>(first_rank % static_cast<std::uint32_t>(ranks));
    world = ranks;
  }
  std::uint64_t count() const { return std::max<std::uint64_t>(1, (size + length - 1) / length); }
  int rank_of(std::uint64_t region) const {
    return static_cast<int>((static_cast<std::uint64_t>(first) + region) %
                            static_cast<std::uint64_t>(world));
  }
  std::uint64_t begin(std::uint64_t region) const { return region * length; }
  std::uint64_t end(std::uint64_t region) const { return std::min(size, (region + 1) * length); }

  std::uint64_t size;
  std::uint64_t length;
  int first;
  int world;
};

void put_text(WireWriter& out, const std::string& text) {
  out.u32(static_cast<std::uint32_t>(text.size()));
  for (const char c : text) out.u8(static_cast<std::uint8_t>(c));
}

std::string get_text(WireReader& in) {
  std::string text(std::min<std::size_t>(in.u32(), in.left()), '\0');
  for (char& c : text) c = static_cast<char>(in.u8());
  return text;
}

std::vector<RankMessage> messages_of(std::map<int, WireWriter>& by_rank) {
  std::vector<RankMessage> messages;
  for (auto& [rank, out] : by_rank) messages.push_back({rank, out.take()});
  return messages;
}

// The part of a file's pieces that is in [begin, end).
std::vector<CopyPiece> cut(const std::vector<CopyPiece>& pieces, std::uint64_t begin,
                           std::uint64_t end) {
  std::vector<CopyPiece> parts;
  std::uint64_t position = 0;
  for (const CopyPiece& piece : pieces) {
    const std::uint64_t from = std::max(begin, position);
    const std::uint64_t to = std::min(end, position + piece.length);
    if (from < to) {
      parts.push_back({piece.destination, piece.offset + (from - position), to - from, 0});
    }
    position += piece.length;
  }
  return parts;
}

// Bytes of a file, from and to.
struct Run {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// What is written of a region: all but its long holes. Its last byte is always written, so that the
// size of the file is made durable together with what is in it.
std::vector<Run> runs_of(const ReplayRegion& region) {
  if (!region.skips_holes || region.begin == region.end) return {{region.begin, region.end}};
  std::vector<Run> runs;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    if (!runs.empty() && begin < runs.back().end + kSmallestHole) {
      runs.back().end = end;
    } else {
      runs.push_back({begin, end});
    }
  };
  for (const ReplayPart& part : region.parts) {
    add(std::max(part.entry.offset, region.begin), std::min(part.entry.end(), region.end));
  }
  add(region.end - 1, region.end);
  return runs;
}

std::uint32_t crc_of_zeros(std::uint64_t length) {
  std::uint32_t crc = 0;
  const std::byte zero{0};
  std::uint32_t part = crc32(std::span(&zero, 1));
  for (std::uint64_t size = 1; length != 0; length >>= 1U, size *= 2) {
    if ((length & 1U) != 0) crc = crc32_combine(crc, part, size);
    part = crc32_combine(part, part, size);
  }
  return crc;
}

// The pieces of a region, read from the logs. What comes next in a log is mostly what its rank has
// next in the region, so a read takes along as much of that as there is room for: the log may be on
// another node.
class RegionFile final : public ReadOnlyFile {
 public:
  RegionFile(const ReplayRegion& region, OpenSharedLog open_log)
      : region_(region),
        open_log_(std::move(open_log)),
        name_(region.file),
        runs_(runs_of(region)),
        next_(region.parts.size(), kNone) {
    for (const Run& run : runs_) {
      starts_.push_back(size_);
      size_ += run.end - run.begin;
    }
    std::map<std::uint64_t, std::size_t> later;  // the nearest part of a log
    for (std::size_t i = region_.parts.size(); i-- > 0;) {
      const auto [found, fresh] = later.try_emplace(region_.parts[i].place.id, i);
      if (!fresh) next_[i] = std::exchange(found->second, i);
    }
    room_ = std::min(kMostRead, kMostMemory / std::max<std::size_t>(1, later.size()));
  }

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    if (offset >= size_ || buffer.empty()) return std::size_t{0};
    const auto after = std::ranges::upper_bound(starts_, offset);
    const auto index = static_cast<std::size_t>(after - starts_.begin()) - 1;
    const std::uint64_t begin = runs_[index].begin + (offset - starts_[index]);
    buffer = buffer.first(std::min<std::uint64_t>(buffer.size(), runs_[index].end - begin));
    SCR_RETURN_IF_ERROR(read_run(buffer, begin));
    return buffer.size();
  }
  Result<FileInfo> info() override {
    FileInfo info;
    info.type = FileInfo::Type::kRegular;
    info.size = size_;
    return info;
  }
  const std::string& path() const override { return name_; }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  // At a time, of a log: more than one request to another node, and with few logs so little that
  // what was received is mostly still in a core's own cache when it is verified and written.
  static constexpr std::size_t kMostRead = std::size_t{1} << 20U;
  static constexpr std::size_t kMostMemory = std::size_t{32} << 20U;  // of all logs

  // What was read of a log last.
  struct Window {
    std::unique_ptr<File> log;
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;

    bool holds(const LogEntry& entry) const {
      return entry.log_offset >= begin && entry.log_offset + entry.length <= begin + bytes.size();
    }
  };

  // From there on in the shared file, all of which is in the region.
  Status read_run(std::span<std::byte> buffer, std::uint64_t begin) {
    const std::uint64_t end = begin + buffer.size();
    std::uint64_t position = begin;
    const auto fill_to = [&](std::uint64_t to) {
      std::memset(buffer.data() + (position - begin), 0, to - position);
      position = to;
    };
    auto part = std::ranges::upper_bound(region_.parts, begin, {},
                                         [](const ReplayPart& p) { return p.entry.end(); });
    for (; part != region_.parts.end() && part->entry.offset < end; ++part) {
      const auto index = static_cast<std::size_t>(part - region_.parts.begin());
      SCR_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, load(index));
      const std::uint64_t from = std::max(begin, part->entry.offset);
      const std::uint64_t to = std::min(end, part->entry.end());
      fill_to(from);
      std::memcpy(buffer.data() + (from - begin), bytes.data() + (from - part->entry.offset),
                  to - from);
      position = to;
    }
    fill_to(end);
    return {};
  }

  // Whole, and verified.
  Result<std::span<const std::byte>> load(std::size_t index) {
    const ReplayPart& part = region_.parts[index];
    Window& window = windows_[part.place.id];
    if (!window.log) {
      SCR_ASSIGN_OR_RETURN(window.log, open_log_(region_.file, part.place));
    }
    if (!window.holds(part.entry)) {
      verified_ = kNone;
      SCR_RETURN_IF_ERROR(fill(window, index));
    }
    const auto bytes = std::span<const std::byte>(window.bytes)
                           .subspan(part.entry.log_offset - window.begin, part.entry.length);
    if (verified_ != index && crc32(bytes) != part.entry.crc) {
      window.bytes.clear();
      return corrupt(fmt::format(
          "'{}': {} bytes at {} of '{}', which rank {} wrote, have a wrong checksum",
          window.log->path(), part.entry.length, part.entry.offset, region_.file, part.place.rank));
    }
    verified_ = index;  // reads come in order, and may take less than a part
    return bytes;
  }

  // The part and those after it, as long as they follow each other in the log.
  Status fill(Window& window, std::size_t index) {
    const LogEntry& first = region_.parts[index].entry;
    std::uint64_t end = first.log_offset + first.length;
    for (std::size_t i = next_[index]; i != kNone; i = next_[i]) {
      const LogEntry& entry = region_.parts[i].entry;
      if (entry.log_offset != end || end + entry.length - first.log_offset > room_) break;
      end += entry.length;
    }
    window.begin = first.log_offset;
    window.bytes.resize(end - first.log_offset);
    Status status = window.log->read_exactly(window.bytes, window.begin);
    if (!status.ok()) window.bytes.clear();
    return status;
  }

  const ReplayRegion region_;
  const OpenSharedLog open_log_;
  const std::string name_;
  const std::vector<Run> runs_;
  std::vector<std::uint64_t> starts_;  // of the runs, in this file
  std::uint64_t size_ = 0;
  std::vector<std::size_t> next_;  // part of the same log
  std::size_t room_ = 0;
  std::map<std::uint64_t, Window> windows_;  // by the id of the log
  std::size_t verified_ = kNone;
};

// Tells those who write a file's regions where they go.
void tell_places(const SharedLog& log, const Regions& regions, int owner,
                 const std::vector<CopyPiece>& pieces, std::map<int, WireWriter>& by_rank) {
  for (std::uint64_t region = 0; region < regions.count(); ++region) {
    WireWriter& out = by_rank[regions.rank_of(region)];
    put_text(out, log.file);
    const auto mine = cut(pieces, regions.begin(region), regions.end(region));
    out.u32(static_cast<std::uint32_t>(owner)).u64(regions.begin(region)).u64(regions.end(region));
    out.u32(static_cast<std::uint32_t>(mine.size()));
    for (const CopyPiece& piece : mine) {
      put_text(out, piece.destination);
      out.u64(piece.offset).u64(piece.length);
    }
  }
}

Status hear_places(WireReader& in, std::vector<ReplayRegion>& regions) {
  while (in.ok() && in.left() > 0) {
    ReplayRegion region;
    region.file = get_text(in);
    region.owner = static_cast<int>(in.u32());
    region.begin = in.u64();
    region.end = in.u64();
    const std::uint32_t count = in.u32();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      CopyPiece piece;
      piece.destination = get_text(in);
      piece.offset = in.u64();
      piece.length = in.u64();
      region.destinations.push_back(std::move(piece));
    }
    regions.push_back(std::move(region));
  }
  return in.ok() ? Status() : bad_message();
}

// Tells those who write the regions what this log has of them.
void tell_parts(const SharedLog& log, const Regions& regions, std::map<int, WireWriter>& by_rank) {
  std::map<std::uint64_t, std::vector<const LogEntry*>> by_region;
  for (const LogEntry& entry : log.table.entries) {
    for (std::uint64_t region = entry.offset / regions.length;
         region * regions.length < entry.end(); ++region) {
      by_region[region].push_back(&entry);
    }
  }
  for (const auto& [region, entries] : by_region) {
    WireWriter& out = by_rank[regions.rank_of(region)];
    put_text(out, log.file);
    out.u64(regions.begin(region)).u32(log.place.rank).u32(log.place.node).u64(log.place.id);
    out.u64(entries.size());
    for (const LogEntry* entry : entries) {
      out.u64(entry->offset).u64(entry->length).u64(entry->log_offset).u32(entry->crc);
    }
  }
}

Status hear_parts(WireReader& in, std::vector<ReplayRegion>& regions) {
  while (in.ok() && in.left() > 0) {
    const std::string file = get_text(in);
    const std::uint64_t begin = in.u64();
    LogPlace place;
    place.rank = in.u32();
    place.node = in.u32();
    place.id = in.u64();
    const std::uint64_t count = in.u64();
    const auto region = std::ranges::find_if(
        regions, [&](const ReplayRegion& r) { return r.file == file && r.begin == begin; });
    if (region == regions.end()) return bad_message();
    for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
      LogEntry entry;
      entry.offset = in.u64();
      entry.length = in.u64();
      entry.log_offset = in.u64();
      entry.crc = in.u32();
      region->parts.push_back({entry, place});
    }
  }
  return in.ok() ? Status() : bad_message();
}

// Two logs that claim the same bytes: something went wrong when the file was closed.
Status check_parts(ReplayRegion& region) {
  std::ranges::sort(region.parts, {}, [](const ReplayPart& p) { return p.entry.offset; });
  for (std::size_t i = 1; i < region.parts.size(); ++i) {
    const ReplayPart& before = region.parts[i - 1];
    const ReplayPart& part = region.parts[i];
    if (before.entry.end() > part.entry.offset) {
      return corrupt(fmt::format("the logs of ranks {} and {} both claim byte {} of '{}'",
                                 before.place.rank, part.place.rank, part.entry.offset,
                                 region.file));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ReplayRegion>> plan_replay(
    Communicator& world, const std::vector<SharedLog>& logs,
    const std::function<std::vector<CopyPiece>(const std::string& file, std::uint64_t size)>&
        place_file,
    bool new_files) {
  std::map<int, WireWriter> places;
  std::map<int, WireWriter> parts;
  for (const SharedLog& log : logs) {
    const Regions regions(log.table.size, world.size(), log.table.first_rank);
    if (log.table.rank == log.table.first_rank) {
      tell_places(log, regions, world.rank(), place_file(log.file, log.table.size), places);
    }
    tell_parts(log, regions, parts);
  }
  std::vector<ReplayRegion> regions;
  Status status;
  for (const RankMessage& message : world.sparse_exchange(messages_of(places))) {
    WireReader in(message.data);
    if (status.ok()) status = hear_places(in, regions);
  }
  for (const RankMessage& message : world.sparse_exchange(messages_of(parts))) {
    WireReader in(message.data);
    if (status.ok()) status = hear_parts(in, regions);
  }
  for (ReplayRegion& region : regions) {
    if (status.ok()) status = check_parts(region);
    region.skips_holes = new_files;
  }
  SCR_RETURN_IF_ERROR(agree_all(world, status, "dividing a shared file"));
  return regions;
}

std::unique_ptr<File> open_region(const ReplayRegion& region, OpenSharedLog open_log) {
  return std::make_unique<RegionFile>(region, std::move(open_log));
}

std::vector<CopyTask> replay_tasks(const std::vector<ReplayRegion>& regions,
                                   const OpenSharedLog& open_log) {
  std::vector<CopyTask> tasks;
  for (const ReplayRegion& region : regions) {
    CopyTask task;
    task.source = region.file;
    task.open = [&region, open_log]() -> Result<std::unique_ptr<File>> {
      return open_region(region, open_log);
    };
    for (const Run& run : runs_of(region)) {
      task.size += run.end - run.begin;
      std::ranges::move(cut(region.destinations, run.begin - region.begin, run.end - region.begin),
                        std::back_inserter(task.pieces));
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Result<std::map<std::string, std::vector<ReplayedPiece>>> collect_replayed(
    Communicator& world, const std::vector<ReplayRegion>& regions, std::span<const CopyTask> done) {
  std::map<int, WireWriter> by_rank;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const ReplayRegion& region = regions[i];
    WireWriter& out = by_rank[region.owner];
    std::uint64_t position = region.begin;
    const auto tell = [&](std::uint64_t length, std::uint32_t crc) {
      put_text(out, region.file);
      out.u64(position).u64(length).u32(crc);
      position += length;
    };
    const auto tell_hole = [&](std::uint64_t upto) {
      if (position < upto) tell(upto - position, crc_of_zeros(upto - position));
    };
    std::size_t piece = 0;
    for (const Run& run : runs_of(region)) {
      tell_hole(run.begin);
      for (; position < run.end; ++piece) {
        if (piece == done[i].pieces.size()) return internal_error("a region was not copied");
        tell(done[i].pieces[piece].length, done[i].pieces[piece].crc);
      }
    }
    tell_hole(region.end);
  }
  std::map<std::string, std::vector<ReplayedPiece>> collected;
  Status status;
  for (const RankMessage& message : world.sparse_exchange(messages_of(by_rank))) {
    WireReader in(message.data);
    while (in.ok() && in.left() > 0) {
      const std::string file = get_text(in);
      ReplayedPiece piece;
      piece.offset = in.u64();
      piece.length = in.u64();
      piece.crc = in.u32();
      collected[file].push_back(piece);
    }
    if (!in.ok()) status = bad_message();
  }
  for (auto& [file, pieces] : collected) std::ranges::sort(pieces, {}, &ReplayedPiece::offset);
  if (!status.ok()) return status;
  return collected;
}

Status add_checksums(const std::map<std::string, std::vector<ReplayedPiece>>& pieces,
                     RankFiles& files) {
  for (StoredFile& file : files) {
    if (!file.shared) continue;
    std::uint64_t position = 0;
    std::size_t segment = 0;
    std::uint64_t segment_end = file.segments.empty() ? 0 : file.segments[0].length;
    const auto found = pieces.find(file.file);  // none of an empty file
    for (const ReplayedPiece& piece :
         found == pieces.end() ? std::vector<ReplayedPiece>() : found->second) {
      if (piece.offset != position) return internal_error("a piece of a shared file is missing");
      file.crc = crc32_combine(file.crc, piece.crc, piece.length);
      position += piece.length;
      if (file.segments.empty()) continue;
      Segment& current = file.segments[segment];
      current.crc = crc32_combine(current.crc, piece.crc, piece.length);
      if (position == segment_end && ++segment < file.segments.size()) {
        segment_end += file.segments[segment].length;
      }
    }
    if (position != file.size) return internal_error("a piece of a shared file is missing");
  }
  return {};
}

}  // namespace scr::flush
