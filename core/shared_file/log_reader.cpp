#include "core/shared_file/log_reader.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/holes.hpp"
#include "core/base/read_only_file.hpp"

namespace scr::shared_file {

void LogReader::set_base(std::shared_ptr<File> base, std::uint64_t limit) {
  base_ = std::move(base);
  base_limit_ = limit;
}

void LogReader::limit_base(std::uint64_t limit) { base_limit_ = std::min(base_limit_, limit); }

void LogReader::set_whole(std::shared_ptr<File> whole, std::uint64_t size) {
  set_base(std::move(whole), size);
  is_whole_ = true;
}

Result<std::uint64_t> LogReader::size_of_logs() {
  if (!sealed_) return homes_->size(file_);
  const std::lock_guard lock(mutex_);
  if (!size_) {
    SCR_ASSIGN_OR_RETURN(size_, homes_->size(file_));
  }
  return *size_;
}

Result<std::uint64_t> LogReader::size() {
  if (is_whole_) return base_limit_;
  auto size = size_of_logs();
  if (size.ok() || !elsewhere_) return size;
  auto other = other_copy();
  if (!other.ok()) return size;
  SCR_ASSIGN_OR_RETURN(const FileInfo there, (*other)->info());
  return there.size;
}

Result<File*> LogReader::other_copy() {
  const std::lock_guard lock(mutex_);
  if (!other_copy_) {
    SCR_ASSIGN_OR_RETURN(other_copy_, elsewhere_());
  }
  return other_copy_.get();
}

// --- where the bytes are -------------------------------------------------------------------------

namespace {

// Small enough that a system call costs more than the copy.
constexpr std::size_t kSmallRead = 8192;
constexpr std::size_t kReadAhead = 32768;

std::uint64_t stripe_of(std::uint64_t offset) { return offset / kStripeSize; }

Range stripe_range(std::uint64_t number) { return {number * kStripeSize, kStripeSize}; }

Location cut(const Location& location, std::uint64_t begin, std::uint64_t end) {
  Location part = location;
  part.range = {begin, end - begin};
  part.log_offset += begin - location.range.offset;
  return part;
}

// What of the ranges comes before the first byte beyond `end`, and how many bytes that is.
std::vector<Range> up_to(std::span<const Range> ranges, std::uint64_t end, std::uint64_t& count) {
  std::vector<Range> parts;
  parts.reserve(ranges.size());
  count = 0;
  for (const Range& range : ranges) {
    if (range.length == 0) continue;
    if (range.offset >= end) break;
    parts.push_back({range.offset, std::min(range.length, end - range.offset)});
    count += parts.back().length;
    if (parts.back().length < range.length) break;
  }
  return parts;
}

// The bytes of the second follow those of the first in the same log.
bool continues(const Location& first, const Location& second) {
  return first.log && second.log && first.log->id == second.log->id &&
         first.log_offset + first.range.length == second.log_offset;
}

}  // namespace

// Asks the homes of a sealed file for the stripes that are not known yet, all at once. Who goes
// from one stripe to the next gets the following ones along, from as many homes as there are.
Status LogReader::learn(std::span<const Range> ranges) {
  std::vector<Range> unknown;
  std::uint64_t last = ~std::uint64_t{0};
  const auto add = [&](std::uint64_t number) {
    if (number != last && !stripes_.contains(number)) unknown.push_back(stripe_range(number));
    last = number;
  };
  for (const Range& range : ranges) {
    if (range.length == 0) continue;
    for (std::uint64_t number = stripe_of(range.offset); number <= stripe_of(range.end() - 1);
         ++number) {
      add(number);
    }
  }
  if (unknown.empty()) return {};
  const auto by_offset = [](const Range& a, const Range& b) { return a.offset < b.offset; };
  std::sort(unknown.begin(), unknown.end(), by_offset);
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  const std::uint64_t first = stripe_of(unknown.front().offset);
  if (unknown.size() == 1 && first > 0 && stripes_.contains(first - 1) && size_) {
    const auto nodes = static_cast<std::uint64_t>(homes_->nodes());
    for (std::uint64_t next = first + 1; next < first + nodes; ++next) {
      if (next * kStripeSize < *size_) add(next);
    }
  }
  SCR_ASSIGN_OR_RETURN(const auto found, homes_->look_up(file_, unknown));
  return keep(unknown, found);
}

Status LogReader::keep(std::span<const Range> asked, const std::vector<Location>& found) {
  auto location = found.begin();
  for (const Range& stripe : asked) {
    std::vector<Location> pieces;
    std::uint64_t position = stripe.offset;
    for (; position < stripe.end() && location != found.end(); ++location) {
      if (location->range.offset != position) break;
      pieces.push_back(*location);
      position = location->range.end();
    }
    if (position != stripe.end()) {
      return corrupt("an answer about a shared file has not what was asked for");
    }
    stripes_[stripe_of(stripe.offset)] = std::move(pieces);
  }
  return {};
}

Result<std::vector<Location>> LogReader::locate(std::span<const Range> ranges) {
  if (!sealed_) return homes_->look_up(file_, ranges);
  const std::lock_guard lock(mutex_);
  SCR_RETURN_IF_ERROR(learn(ranges));
  std::vector<Location> found;
  found.reserve(ranges.size());
  for (const Range& range : ranges) {
    for (std::uint64_t begin = range.offset; begin < range.end();) {
      const std::vector<Location>& stripe = stripes_.at(stripe_of(begin));
      const std::uint64_t end = std::min(range.end(), (stripe_of(begin) + 1) * kStripeSize);
      auto piece = std::upper_bound(
          stripe.begin(), stripe.end(), begin,
          [](std::uint64_t at, const Location& candidate) { return at < candidate.range.end(); });
      for (; begin < end; ++piece) {
        const std::uint64_t stop = std::min(end, piece->range.end());
        found.push_back(cut(*piece, begin, stop));
        begin = stop;
      }
    }
  }
  return found;
}

// --- the bytes -----------------------------------------------------------------------------------

Result<LogReader::Source*> LogReader::source(const LogPlace& place) {
  const std::lock_guard lock(mutex_);
  const auto known = sources_.find(place.id);
  if (known != sources_.end()) return &known->second;
  SCR_ASSIGN_OR_RETURN(auto file, open_log_(place));
  Source& fresh = sources_[place.id];
  fresh.log = std::move(file);
  return &fresh;
}

// Reads of a log that does not change take along what follows, if they come in order. Logs of
// other nodes do the same by themselves.
Status LogReader::read_small(Source& source, std::uint64_t offset, std::span<std::byte> out) {
  const std::lock_guard lock(source.mutex);
  const auto holds = [&] {
    return offset >= source.begin && offset + out.size() <= source.begin + source.ahead.size();
  };
  const bool in_order = offset == source.next;
  source.next = offset + out.size();
  if (!holds()) {
    if (!in_order) return source.log->read_exactly(out, offset);
    source.begin = offset;
    source.ahead.resize(kReadAhead);
    auto count = source.log->read(source.ahead, offset);
    source.ahead.resize(count.ok() ? *count : 0);
    if (!holds()) return source.log->read_exactly(out, offset);
  }
  std::memcpy(out.data(), source.ahead.data() + (offset - source.begin), out.size());
  return {};
}

Status LogReader::read_hole(std::uint64_t offset, std::span<std::byte> out) {
  std::size_t from_base = 0;
  if (base_ && offset < base_limit_) {
    from_base = std::min<std::uint64_t>(out.size(), base_limit_ - offset);
    SCR_RETURN_IF_ERROR(base_->read_exactly(out.first(from_base), offset));
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(from_base), out.end(), std::byte{0});
  return {};
}

Status LogReader::read_location(const Location& location, std::span<std::byte> out) {
  if (!location.log) return read_hole(location.range.offset, out);
  SCR_ASSIGN_OR_RETURN(Source* const found, source(*location.log));
  const bool is_local = found->log->descriptor() >= 0;
  if (sealed_ && is_local && out.size() <= kSmallRead) {
    return read_small(*found, location.log_offset, out);
  }
  return found->log->read_exactly(out, location.log_offset);
}

// Pieces that follow each other in a log, as those of one process with a strided view do, are read
// together.
Status LogReader::read_locations(std::span<const Location> locations, std::span<std::byte> out) {
  for (std::size_t i = 0; i < locations.size();) {
    Location run = locations[i++];
    for (; i < locations.size() && continues(run, locations[i]); ++i) {
      run.range.length += locations[i].range.length;
    }
    if (run.range.length == 0) continue;  // beyond the end of the file
    SCR_RETURN_IF_ERROR(read_location(run, out.first(run.range.length)));
    out = out.subspan(run.range.length);
  }
  return {};
}

Result<std::uint64_t> LogReader::read_logs(std::span<const Range> ranges,
                                           std::span<std::byte> out) {
  if (!sealed_) return read_open(ranges, out);
  SCR_ASSIGN_OR_RETURN(const std::uint64_t end, size_of_logs());
  std::uint64_t count = 0;
  const std::vector<Range> wanted = up_to(ranges, end, count);
  if (count == 0) return std::uint64_t{0};
  SCR_ASSIGN_OR_RETURN(const std::vector<Location> locations, locate(wanted));
  SCR_RETURN_IF_ERROR(read_locations(locations, out.first(count)));
  return count;
}

// A file that may change is asked about each time, with one round of messages.
Result<std::uint64_t> LogReader::read_open(std::span<const Range> ranges,
                                           std::span<std::byte> out) {
  SCR_ASSIGN_OR_RETURN(Homes::Found found, homes_->look_up_with_size(file_, ranges));
  std::uint64_t count = 0;
  (void)up_to(ranges, found.size, count);
  std::uint64_t left = count;
  for (Location& location : found.locations) {
    location.range.length = std::min(location.range.length, left);
    left -= location.range.length;
  }
  SCR_RETURN_IF_ERROR(read_locations(found.locations, out.first(count)));
  return count;
}

Result<std::uint64_t> LogReader::read(std::span<const Range> ranges, std::span<std::byte> out) {
  if (is_whole_) return read_ranges(*base_, ranges, out);
  auto count = read_logs(ranges, out);
  if (count.ok() || !elsewhere_) return count;
  auto other = other_copy();
  if (!other.ok()) return count;
  return read_ranges(**other, ranges, out);
}

Result<std::uint64_t> read_ranges(File& file, std::span<const Range> ranges,
                                  std::span<std::byte> out) {
  std::uint64_t done = 0;
  for (const Range& range : ranges) {
    SCR_ASSIGN_OR_RETURN(const std::size_t got,
                         file.read(out.subspan(done, range.length), range.offset));
    done += got;
    if (got < range.length) break;
  }
  return done;
}

// --- as a file -----------------------------------------------------------------------------------

namespace {

class ReaderFile final : public ReadOnlyFile {
 public:
  ReaderFile(std::unique_ptr<LogReader> reader, std::string name)
      : reader_(std::move(reader)), name_(std::move(name)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    const Range range{offset, buffer.size()};
    SCR_ASSIGN_OR_RETURN(const std::uint64_t count, reader_->read(std::span(&range, 1), buffer));
    return static_cast<std::size_t>(count);
  }
  Result<FileInfo> info() override {
    FileInfo info;
    info.type = FileInfo::Type::kRegular;
    info.mode = 0400;
    info.device = kOwnDevice;
    info.inode = reader_->id();
    SCR_ASSIGN_OR_RETURN(info.size, reader_->size());
    return info;
  }
  // Nobody changes it, so every reader may have its lock.
  Status lock(LockMode /*mode*/, bool /*wait*/) override { return {}; }
  Status unlock() override { return {}; }
  // As scr::next_data(): the homes know it of a file that is in logs only.
  std::uint64_t next_data(std::uint64_t offset, std::uint64_t end) {
    const Range range{offset, end - offset};
    if (range.length == 0 || reader_->base() != nullptr) return offset;
    const auto found = reader_->locate(std::span(&range, 1));
    if (!found.ok()) return offset;
    const auto data = std::ranges::find_if(
        *found, [](const Location& location) { return location.log.has_value(); });
    return data == found->end() ? end : data->range.offset;
  }
  const std::string& path() const override { return name_; }

 private:
  std::unique_ptr<LogReader> reader_;
  std::string name_;
};

}  // namespace

std::uint64_t LogReader::next_in_base(std::uint64_t offset, std::uint64_t end) const {
  if (auto* const logs = dynamic_cast<ReaderFile*>(base_.get())) {
    return logs->next_data(offset, end);
  }
  return next_data(*base_, offset, end);
}

std::unique_ptr<File> as_file(std::unique_ptr<LogReader> reader, std::string name) {
  return std::make_unique<ReaderFile>(std::move(reader), std::move(name));
}

}  // namespace scr::shared_file
