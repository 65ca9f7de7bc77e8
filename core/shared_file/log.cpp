#include "core/shared_file/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/checksum.hpp"
#include "core/shared_file/wire.hpp"

namespace scr::shared_file {

namespace {

constexpr std::uint64_t kMagic = 0x0a31474f4c524353;  // "SCRLOG1\n"
constexpr std::size_t kFooterSize = 64;
constexpr std::size_t kEntrySize = 28;
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 63U;
// Gathered before they are written; what is as long as a quarter of it is written at once.
constexpr std::size_t kGathered = std::size_t{256} << 10U;
// From here on putting two checksums together is cheaper than computing one more.
constexpr std::uint64_t kWorthCombining = std::uint64_t{64} << 10U;

Status broken(const File& log, std::string_view what) {
  return corrupt(fmt::format("'{}' is no log of a shared file: {}", log.path(), what));
}

// A write that goes on where the last one ended, in the file and in the log.
void add_extent(std::vector<Extent>& extents, const Extent& extent) {
  if (!extents.empty()) {
    Extent& last = extents.back();
    if (last.end() == extent.offset && last.log_offset + last.length == extent.log_offset) {
      last.length += extent.length;
      return;
    }
  }
  extents.push_back(extent);
}

// How many bytes from an offset of the shared file on may have one checksum.
std::uint64_t room_for_entry(std::uint64_t offset) {
  return kMostLogEntry - offset % kMostLogEntry;
}

// What follows the table, and holds it.
struct Footer {
  LogTable table;  // without its entries
  std::uint64_t count = 0;
  std::uint32_t table_crc = 0;
};

Result<Footer> read_footer(File& log) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, log.info());
  if (info.size < kFooterSize) return broken(log, "it is too short");
  std::array<std::byte, kFooterSize> bytes{};
  SCR_RETURN_IF_ERROR(log.read_exactly(bytes, info.size - kFooterSize));
  WireReader in(bytes);
  if (in.u64() != kMagic) return broken(log, "it does not end with a table");
  Footer footer;
  LogTable& table = footer.table;
  table.rank = in.u32();
  table.first_rank = in.u32();
  table.number = in.u32();
  footer.table_crc = in.u32();
  table.size = in.u64();
  table.data_size = in.u64();
  footer.count = in.u64();
  table.written = static_cast<std::int64_t>(in.u64());
  (void)in.u32();  // reserved
  if (crc32(std::span(bytes).first(kFooterSize - 4)) != in.u32()) {
    return broken(log, "the checksum of its last bytes is wrong");
  }
  if (footer.count > info.size / kEntrySize ||
      table.data_size != info.size - kFooterSize - footer.count * kEntrySize) {
    return broken(log, "its size is not what its table says");
  }
  if (table.size > kFarthest) return broken(log, "no file is as long as it says");
  return footer;
}

}  // namespace

std::string log_name(const std::string& file, int rank) {
  return fmt::format("{}.{}.scrlog", file, rank);
}

Result<LogTable> read_log_table(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(at, OpenOptions::read()));
  return read_log_table(*file);
}

Result<LogTable> read_log_footer(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(at, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(Footer footer, read_footer(*file));
  return std::move(footer.table);
}

Result<LogTable> read_log_table(File& log) {
  SCR_ASSIGN_OR_RETURN(Footer footer, read_footer(log));
  LogTable& table = footer.table;
  std::vector<std::byte> bytes(footer.count * kEntrySize);
  SCR_RETURN_IF_ERROR(log.read_exactly(bytes, table.data_size));
  if (crc32(bytes) != footer.table_crc) return broken(log, "the checksum of its table is wrong");
  WireReader rows(bytes);
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < footer.count; ++i) {
    LogEntry entry;
    entry.offset = rows.u64();
    entry.length = rows.u64();
    entry.log_offset = rows.u64();
    entry.crc = rows.u32();
    const bool good = entry.length > 0 && entry.length <= kMostLogEntry && entry.offset >= end &&
                      entry.offset < kFarthest && entry.end() <= table.size &&
                      entry.log_offset <= table.data_size &&
                      entry.length <= table.data_size - entry.log_offset;
    if (!good) return broken(log, fmt::format("entry {} of its table is impossible", i));
    end = entry.end();
    table.entries.push_back(entry);
  }
  return std::move(table);
}

Result<std::unique_ptr<Log>> Log::create(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::create_truncate()));
  return std::unique_ptr<Log>(new Log(path, std::move(file)));
}

Result<std::unique_ptr<Log>> Log::reopen(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::read_write()));
  SCR_ASSIGN_OR_RETURN(const LogTable table, read_log_table(*file));
  std::unique_ptr<Log> log(new Log(path, std::move(file)));
  log->end_ = table.data_size;
  log->has_table_ = true;
  for (const LogEntry& entry : table.entries) {
    log->places_.insert({entry.offset, entry.length, entry.log_offset, {0, 0, log->sequence_++}});
    log->sums_.push_back({entry.offset, entry.log_offset, entry.length, entry.crc});
  }
  std::ranges::sort(log->sums_, {}, &Sum::log_offset);
  log->whole_holds_ = false;
  return log;
}

// --- checksums -----------------------------------------------------------------------------------

// Bytes at the end of the log.
void Log::sum_new(const Extent& extent, std::span<const std::byte> data) {
  for (std::uint64_t done = 0; done < data.size();) {
    const std::uint64_t offset = extent.offset + done;
    const std::uint64_t log_offset = extent.log_offset + done;
    const bool goes_on = !sums_.empty() && sums_.back().holds &&
                         sums_.back().offset + sums_.back().length == offset &&
                         sums_.back().log_offset + sums_.back().length == log_offset &&
                         offset % kMostLogEntry != 0;
    if (!goes_on) sums_.push_back({offset, log_offset});
    Sum& sum = sums_.back();
    const std::uint64_t length = std::min(room_for_entry(offset), data.size() - done);
    const std::span part = data.subspan(done, length);
    if (length >= kWorthCombining) {
      const std::uint32_t crc = crc32(part);
      sum.crc = sum.length == 0 ? crc : crc32_combine(sum.crc, crc, length);
      if (whole_holds_) whole_ = Crc32(crc32_combine(whole_.value(), crc, length));
    } else {
      Crc32 crc(sum.crc);
      crc.update(part);
      sum.crc = crc.value();
      if (whole_holds_) whole_.update(part);
    }
    sum.length += length;
    done += length;
  }
}

// Bytes in the place of others.
void Log::sum_again(const Extent& extent, std::span<const std::byte> data) {
  whole_holds_ = false;
  const std::uint64_t end = extent.log_offset + extent.length;
  auto sum = std::partition_point(sums_.begin(), sums_.end(), [&](const Sum& s) {
    return s.log_offset + s.length <= extent.log_offset;
  });
  for (; sum != sums_.end() && sum->log_offset < end; ++sum) {
    const bool all = sum->log_offset >= extent.log_offset && sum->log_offset + sum->length <= end;
    sum->holds = all;
    if (all) sum->crc = crc32(data.subspan(sum->log_offset - extent.log_offset, sum->length));
  }
}

Result<std::uint32_t> Log::sum_of(const LogEntry& entry) {
  const auto sum = std::ranges::lower_bound(sums_, entry.log_offset, {}, &Sum::log_offset);
  if (sum != sums_.end() && sum->holds && sum->log_offset == entry.log_offset &&
      sum->length == entry.length) {
    return sum->crc;
  }
  std::vector<std::byte> bytes(entry.length);
  SCR_RETURN_IF_ERROR(file_->read_exactly(bytes, entry.log_offset));
  return crc32(bytes);
}

Status Log::sum_entries(std::span<const Extent> extents, std::vector<LogEntry>& entries) {
  for (const Extent& extent : extents) {
    for (std::uint64_t done = 0; done < extent.length;) {
      LogEntry entry{extent.offset + done, 0, extent.log_offset + done, 0};
      entry.length = std::min(extent.length - done, room_for_entry(entry.offset));
      SCR_ASSIGN_OR_RETURN(entry.crc, sum_of(entry));
      entries.push_back(entry);
      done += entry.length;
    }
  }
  return {};
}

// --- writing -------------------------------------------------------------------------------------

Status Log::write_out() {
  if (gathered_.empty()) return {};
  SCR_RETURN_IF_ERROR(file_->write_all(gathered_, gathered_at_));
  gathered_.clear();
  return {};
}

Status Log::take_gathered(
    const std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>& visit) {
  const std::uint64_t end = gathered_at_ + gathered_.size();
  Status status;
  places_.for_each([&](const Extent& extent) {
    const std::uint64_t from = std::max(extent.log_offset, gathered_at_);
    const std::uint64_t to = std::min(extent.log_offset + extent.length, end);
    if (!status.ok() || from >= to) return;
    status = visit(extent.offset + (from - extent.log_offset),
                   std::span(gathered_).subspan(from - gathered_at_, to - from));
  });
  if (status.ok()) gathered_.clear();
  return status;
}

// At the end of the log. The bytes have their place there also if it fails, so that no others get
// it.
Status Log::append_bytes(std::span<const std::byte> data) {
  if (data.empty()) return {};
  const std::uint64_t at = end_;
  end_ += data.size();
  const bool large = data.size() >= kGathered / 4;
  const bool fits = !large && gathered_.size() + data.size() <= kGathered &&
                    gathered_at_ + gathered_.size() == at;
  if (!fits) SCR_RETURN_IF_ERROR(write_out());
  if (large) return file_->write_all(data, at);
  if (gathered_.empty()) gathered_at_ = at;
  if (gathered_.capacity() == 0) gathered_.reserve(kGathered);
  gathered_.insert(gathered_.end(), data.begin(), data.end());
  return {};
}

// In the place of others. Those that the file has change there: others may know of them.
Status Log::rewrite(const Extent& extent, std::span<const std::byte> data) {
  sum_again(extent, data);
  const std::uint64_t end = extent.log_offset + extent.length;
  const std::uint64_t gathered_end = gathered_at_ + gathered_.size();
  if (extent.log_offset >= gathered_at_ && end <= gathered_end) {
    std::ranges::copy(
        data, gathered_.begin() + static_cast<std::ptrdiff_t>(extent.log_offset - gathered_at_));
    return {};
  }
  if (end > gathered_at_ && extent.log_offset < gathered_end) SCR_RETURN_IF_ERROR(write_out());
  return file_->write_all(data, extent.log_offset);
}

// A table says that the log is complete.
Status Log::cut_table() {
  if (!has_table_) return {};
  SCR_RETURN_IF_ERROR(file_->truncate(end_));
  has_table_ = false;
  return {};
}

Status Log::write(std::span<const Range> ranges, std::span<const std::byte> data,
                  std::vector<Extent>& entered) {
  if (!data.empty()) SCR_RETURN_IF_ERROR(cut_table());
  // New bytes go to the end of the log, as many as possible in one piece.
  std::size_t run = 0;  // where in `data` the bytes begin that are not there yet
  std::size_t next = 0;
  const auto append_run = [&]() -> Status {
    const std::span bytes = data.subspan(run, next - run);
    run = next;
    return append_bytes(bytes);
  };
  const auto enter_new = [&](const Range& range) {
    const Extent extent{range.offset, range.length, end_ + (next - run), {0, 0, sequence_++}};
    sum_new(extent, data.subspan(next, range.length));
    next += range.length;
    places_.insert(extent);
    add_extent(entered, extent);
  };
  for (const Range& range : ranges) {
    if (range.length == 0) continue;
    if (places_.is_beyond(range.offset)) {  // files mostly grow at their end
      enter_new(range);
      continue;
    }
    for (const Piece& piece : places_.find(range.offset, range.length)) {
      if (!piece.source) {
        enter_new({piece.offset, piece.length});
        continue;
      }
      SCR_RETURN_IF_ERROR(append_run());
      const Extent extent{
          piece.offset, piece.length, piece.source->log_offset, {0, 0, sequence_++}};
      SCR_RETURN_IF_ERROR(rewrite(extent, data.subspan(next, piece.length)));
      next += piece.length;
      run = next;
      add_extent(entered, extent);
    }
  }
  return append_run();
}

Status Log::read(std::uint64_t log_offset, std::span<std::byte> out) {
  SCR_RETURN_IF_ERROR(write_out());
  return file_->read_exactly(out, log_offset);
}

void Log::truncate(std::uint64_t size) {
  std::vector<Extent> kept;
  places_.for_each([&](const Extent& extent) {
    if (extent.offset >= size) return;
    kept.push_back(extent);
    kept.back().length = std::min(extent.length, size - extent.offset);
  });
  places_.clear();
  for (const Extent& extent : kept) places_.insert(extent);
  if (!kept.empty()) return;
  end_ = 0;  // nothing refers to it any more
  gathered_.clear();
  sums_.clear();
  whole_ = Crc32();
  whole_holds_ = true;
}

Result<std::optional<std::uint32_t>> Log::finish(LogTable table, std::span<const Extent> holding) {
  SCR_RETURN_IF_ERROR(write_out());
  SCR_RETURN_IF_ERROR(sum_entries(holding, table.entries));
  WireWriter rows;
  for (const LogEntry& entry : table.entries) {
    rows.u64(entry.offset).u64(entry.length).u64(entry.log_offset).u32(entry.crc);
  }
  WireWriter footer;
  footer.u64(kMagic).u32(table.rank).u32(table.first_rank).u32(table.number);
  footer.u32(crc32(rows.view()));
  footer.u64(table.size).u64(end_).u64(table.entries.size());
  footer.u64(static_cast<std::uint64_t>(table.written)).u32(0);
  footer.u32(crc32(footer.view()));
  SCR_RETURN_IF_ERROR(file_->truncate(end_));
  SCR_RETURN_IF_ERROR(file_->write_all(rows.view(), end_));
  SCR_RETURN_IF_ERROR(file_->write_all(footer.view(), end_ + rows.size()));
  SCR_RETURN_IF_ERROR(file_->close());
  whole_.update(rows.view());
  whole_.update(footer.view());
  return whole_holds_ ? std::optional(whole_.value()) : std::nullopt;
}

}  // namespace scr::shared_file
