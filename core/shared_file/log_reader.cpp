#include "core/shared_file/log_reader.hpp"

#include <algorithm>

#include "core/base/read_only_file.hpp"

namespace scr::shared_file {

void LogReader::set_base(std::shared_ptr<File> base, std::uint64_t limit) {
  base_ = std::move(base);
  base_limit_ = limit;
}

void LogReader::limit_base(std::uint64_t limit) { base_limit_ = std::min(base_limit_, limit); }

Result<std::uint64_t> LogReader::size() {
  if (!sealed_) return homes_->size(file_);
  const std::lock_guard lock(mutex_);
  if (!size_) {
    SCR_ASSIGN_OR_RETURN(size_, homes_->size(file_));
  }
  return *size_;
}

// The map of one stripe of a sealed file, which is asked for once.
Result<const ExtentMap*> LogReader::stripe(std::uint64_t number) {
  const auto known = stripes_.find(number);
  if (known != stripes_.end()) return &known->second;
  const Range whole{number * kStripeSize, kStripeSize};
  SCR_ASSIGN_OR_RETURN(const auto found, homes_->look_up(file_, std::span(&whole, 1)));
  ExtentMap map;
  for (const Location& location : found) {
    if (!location.log) continue;
    places_[location.log->rank] = *location.log;
    map.insert({location.range.offset,
                location.range.length,
                location.log_offset,
                {1, location.log->rank, 0}});
  }
  return &stripes_.emplace(number, std::move(map)).first->second;
}

Result<std::vector<Location>> LogReader::locate(std::span<const Range> ranges) {
  if (!sealed_) return homes_->look_up(file_, ranges);
  const std::lock_guard lock(mutex_);
  std::vector<Location> found;
  for (const Range& range : ranges) {
    for (std::uint64_t begin = range.offset; begin < range.end();) {
      const std::uint64_t number = begin / kStripeSize;
      const std::uint64_t end = std::min(range.end(), (number + 1) * kStripeSize);
      SCR_ASSIGN_OR_RETURN(const ExtentMap* map, stripe(number));
      for (const Piece& piece : map->find(begin, end - begin)) {
        Location location{{piece.offset, piece.length}, 0, std::nullopt};
        if (piece.source) {
          location.log_offset = piece.source->log_offset;
          location.log = places_.at(piece.source->stamp.rank);
        }
        found.push_back(location);
      }
      begin = end;
    }
  }
  return found;
}

Result<File*> LogReader::log(const LogPlace& place) {
  const std::lock_guard lock(mutex_);
  const auto known = logs_.find(place.id);
  if (known != logs_.end()) return known->second.get();
  SCR_ASSIGN_OR_RETURN(auto file, open_log_(place));
  return logs_.emplace(place.id, std::move(file)).first->second.get();
}

Status LogReader::read_location(const Location& location, std::span<std::byte> out) {
  if (location.log) {
    SCR_ASSIGN_OR_RETURN(File * file, log(*location.log));
    return file->read_exactly(out, location.log_offset);
  }
  std::size_t from_base = 0;
  if (base_ && location.range.offset < base_limit_) {
    from_base = std::min<std::uint64_t>(out.size(), base_limit_ - location.range.offset);
    SCR_RETURN_IF_ERROR(base_->read_exactly(out.first(from_base), location.range.offset));
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(from_base), out.end(), std::byte{0});
  return {};
}

Result<std::uint64_t> LogReader::read(std::span<const Range> ranges, std::span<std::byte> out) {
  SCR_ASSIGN_OR_RETURN(const std::uint64_t end, size());
  std::vector<Range> wanted;
  std::uint64_t count = 0;
  for (const Range& range : ranges) {
    if (range.length == 0) continue;
    if (range.offset >= end) break;
    wanted.push_back({range.offset, std::min(range.length, end - range.offset)});
    count += wanted.back().length;
    if (wanted.back().length < range.length) break;
  }
  if (count == 0) return std::uint64_t{0};
  SCR_ASSIGN_OR_RETURN(const std::vector<Location> locations, locate(wanted));
  std::size_t next = 0;
  for (const Location& location : locations) {
    SCR_RETURN_IF_ERROR(read_location(location, out.subspan(next, location.range.length)));
    next += location.range.length;
  }
  return count;
}

// --- as a file -----------------------------------------------------------------------------------

namespace {

class ReaderFile final : public ReadOnlyFile {
 public:
  ReaderFile(std::unique_ptr<LogReader> reader, std::string name, OpenElsewhere elsewhere)
      : reader_(std::move(reader)), name_(std::move(name)), elsewhere_(std::move(elsewhere)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    const Range range{offset, buffer.size()};
    auto count = reader_->read(std::span(&range, 1), buffer);
    if (count.ok()) return static_cast<std::size_t>(*count);
    if (!elsewhere_) return count.status();
    auto other = open_elsewhere();
    if (!other.ok()) return count.status();
    return (*other)->read_some(buffer, offset);
  }
  Result<FileInfo> info() override {
    FileInfo info;
    info.type = FileInfo::Type::kRegular;
    info.mode = 0400;
    info.device = kOwnDevice;
    info.inode = reader_->id();
    auto size = reader_->size();
    if (!size.ok() && elsewhere_) {
      if (auto other = open_elsewhere(); other.ok()) {
        SCR_ASSIGN_OR_RETURN(const FileInfo there, (*other)->info());
        size = there.size;
      }
    }
    SCR_RETURN_IF_ERROR(size.status());
    info.size = *size;
    return info;
  }
  // Nobody changes it, so every reader may have its lock.
  Status lock(LockMode /*mode*/, bool /*wait*/) override { return {}; }
  Status unlock() override { return {}; }
  const std::string& path() const override { return name_; }

 private:
  Result<File*> open_elsewhere() {
    const std::lock_guard lock(mutex_);
    if (!other_) {
      SCR_ASSIGN_OR_RETURN(other_, elsewhere_());
    }
    return other_.get();
  }

  std::unique_ptr<LogReader> reader_;
  std::string name_;
  OpenElsewhere elsewhere_;
  std::mutex mutex_;  // of the following
  std::unique_ptr<File> other_;
};

}  // namespace

std::unique_ptr<File> as_file(std::unique_ptr<LogReader> reader, std::string name,
                              OpenElsewhere elsewhere) {
  return std::make_unique<ReaderFile>(std::move(reader), std::move(name), std::move(elsewhere));
}

}  // namespace scr::shared_file
