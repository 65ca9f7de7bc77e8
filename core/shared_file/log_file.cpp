#include "core/shared_file/log_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/base/byte_size.hpp"
#include "core/base/holes.hpp"
#include "core/base/log.hpp"

namespace scr::shared_file {

Status LogFile::read_only() const {
  return {StatusCode::kPermissionDenied,
          fmt::format("'{}' is open for reading only", options_.name)};
}

namespace {

Status write_plain(File& file, std::span<const Range> ranges, std::span<const std::byte> data) {
  for (const Range& range : ranges) {
    SCR_RETURN_IF_ERROR(file.write_all(data.first(range.length), range.offset));
    data = data.subspan(range.length);
  }
  return {};
}

}  // namespace

Status LogFile::write(std::span<const Range> ranges, std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  if (plain_ != nullptr) return write_plain(*plain_, ranges, data);
  if (!log_) return read_only();
  Status status;
  if (!more_) status = log_->write(ranges, data, entered_);
  if (status.code() == StatusCode::kNoSpace && options_.open_more) status = begin_more();
  if (status.ok() && more_) status = write_more(ranges, data);
  for (const Range& range : ranges) {
    if (range.length > 0) entered_end_ = std::max(entered_end_, range.end());
  }
  if (!entered_.empty() || !entered_more_.empty()) unpublished_ = written_ = true;
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

// The device of the logs is full. What the log has stays there, and what is still in memory, with
// all that is written from here on, goes to a file beside the name.
Status LogFile::begin_more() {
  SCR_ASSIGN_OR_RETURN(auto file, options_.open_more());
  const Status status = log_->take_gathered([&](std::uint64_t offset, auto bytes) {
    entered_more_.push_back({offset, bytes.size(), offset, {}});
    return file->write_all(bytes, offset);
  });
  if (!status.ok()) entered_more_.clear();
  SCR_RETURN_IF_ERROR(status);
  more_ = std::move(file);
  return {};
}

Status LogFile::write_more(std::span<const Range> ranges, std::span<const std::byte> data) {
  SCR_RETURN_IF_ERROR(write_plain(*more_, ranges, data));
  for (const Range& range : ranges) {
    if (range.length > 0) entered_more_.push_back({range.offset, range.length, range.offset, {}});
  }
  return {};
}

// Homes are told of the log first: bytes that it could not take are known by their new place then.
Status LogFile::publish_locked() {
  if (!unpublished_) return {};
  // Before others are told where the bytes are.
  Status status = more_ ? Status() : log_->write_out();
  if (status.code() == StatusCode::kNoSpace && options_.open_more) status = begin_more();
  if (status.ok() && more_) status = more_->sync();  // for other nodes
  if (status.ok()) status = homes_->enter(options_.id, options_.place, entered_, entered_end_);
  if (status.ok() && !entered_more_.empty())
    status = homes_->enter(options_.id, kMore, entered_more_, entered_end_);
  if (!status.ok()) {
    if (failure_.ok()) failure_ = status;
    return status;
  }
  for (const Extent& extent : entered_) {
    for (std::uint64_t at = extent.offset; at < extent.end(); at += kStripeSize) {
      homes_told_.insert(homes_->home_of(options_.id, at));
    }
    homes_told_.insert(homes_->home_of(options_.id, extent.end() - 1));
  }
  entered_.clear();
  entered_more_.clear();
  unpublished_ = false;
  return {};
}

Status LogFile::publish() {
  if (!unpublished_) return {};
  const std::lock_guard lock(mutex_);
  return publish_locked();
}

Result<std::uint64_t> LogFile::read(std::span<const Range> ranges, std::span<std::byte> data) {
  if (plain_ != nullptr) return read_ranges(*plain_, ranges, data);
  SCR_RETURN_IF_ERROR(publish());
  auto count = reader_->read(ranges, data);
  // It may have moved meanwhile, and its logs are gone.
  if (!count.ok() && plain_ != nullptr) return read_ranges(*plain_, ranges, data);
  return count;
}

Result<std::uint64_t> LogFile::size() {
  if (plain_ != nullptr) {
    SCR_ASSIGN_OR_RETURN(const FileInfo info, plain_.load()->info());
    return info.size;
  }
  SCR_RETURN_IF_ERROR(publish());
  return reader_->size();
}

// All have told the homes what they wrote before, and nobody writes meanwhile.
Status LogFile::set_size(std::uint64_t size) {
  const Collective call(*this);
  Communicator& comm = *options_.comm;
  if (File* const plain = plain_; plain != nullptr) {
    comm.barrier();  // nobody writes to the old file any more
    const Status status = comm.rank() == 0 ? plain->truncate(size) : Status();
    return agree_all(comm, status, "changing the size of a file");
  }
  Status status = log_ ? publish() : read_only();
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "changing the size of a file"));
  if (comm.rank() == 0) status = homes_->truncate(options_.id, size);
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "changing the size of a file"));
  const std::lock_guard lock(mutex_);
  log_->truncate(size);
  reader_->limit_base(size);
  entered_end_ = 0;
  written_ = true;
  return {};
}

Status LogFile::reserve(std::uint64_t size) {
  const Collective call(*this);
  Communicator& comm = *options_.comm;
  if (plain_ != nullptr) {
    Status status;
    if (comm.rank() == 0) {
      auto now = this->size();
      status = now.status();
      if (now.ok() && *now < size) status = plain_.load()->truncate(size);
    }
    return agree_all(comm, status, "reserving room for a file");
  }
  Status status = log_ ? publish() : read_only();
  if (status.ok() && comm.rank() == 0) {
    status = homes_->enter(options_.id, options_.place, {}, size);
  }
  {
    const std::lock_guard lock(mutex_);
    written_ = true;
  }
  return agree_all(comm, status, "reserving room for a file");
}

Result<std::uint64_t> LogFile::advance_pointer(std::uint64_t by) {
  SCR_RETURN_IF_ERROR(publish());
  return homes_->add_to_pointer(options_.id, by);
}

Status LogFile::set_pointer(std::uint64_t to) {
  SCR_RETURN_IF_ERROR(publish());
  return homes_->set_pointer(options_.id, to);
}

// To the home a process is one owner.
Status LogFile::lock() {
  constexpr std::chrono::microseconds kLongest(5000);
  std::chrono::microseconds pause(20);
  threads_.lock();
  for (;;) {
    auto got = homes_->try_lock(options_.id, options_.place.rank + 1);
    if (!got.ok()) threads_.unlock();
    SCR_RETURN_IF_ERROR(got.status());
    if (*got) return {};
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongest);
  }
}

Status LogFile::unlock() {
  const Status published = publish();
  // Also if that failed: others wait for it.
  const Status unlocked = homes_->unlock(options_.id, options_.place.rank + 1);
  threads_.unlock();
  return published.ok() ? unlocked : published;
}

// What of the earlier version is still part of the file becomes part of the new one; every process
// takes its share of the stripes. Zeros need not be in a log: what no log has is zero.
Status LogFile::take_over_base() {
  const Communicator& comm = *options_.comm;
  const std::uint64_t limit = reader_->base_limit();
  std::vector<std::byte> buffer(kMostLogEntry);
  for (auto stripe = static_cast<std::uint64_t>(comm.rank()); stripe * kStripeSize < limit;
       stripe += static_cast<std::uint64_t>(comm.size())) {
    const Range range{stripe * kStripeSize, std::min(kStripeSize, limit - stripe * kStripeSize)};
    SCR_ASSIGN_OR_RETURN(const auto locations, reader_->locate(std::span(&range, 1)));
    for (const Location& location : locations) {
      if (!location.log) SCR_RETURN_IF_ERROR(take_over(location.range, buffer));
    }
  }
  return publish();
}

Status LogFile::take_over(const Range& range, std::span<std::byte> buffer) {
  std::uint64_t offset = reader_->next_in_base(range.offset, range.end());
  while (offset < range.end()) {
    const std::span bytes =
        buffer.first(std::min<std::uint64_t>(buffer.size(), range.end() - offset));
    SCR_RETURN_IF_ERROR(reader_->base()->read_exactly(bytes, offset));
    SCR_RETURN_IF_ERROR(visit_nonzero(bytes, [&](std::size_t position, auto piece) {
      const Range to{offset + position, piece.size()};
      return write(std::span(&to, 1), piece);
    }));
    offset = reader_->next_in_base(offset + bytes.size(), range.end());
  }
  return {};
}

Result<std::optional<std::uint32_t>> LogFile::finish_log(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  std::vector<int> nodes(homes_told_.begin(), homes_told_.end());
  if (options_.goes_on) {
    nodes.resize(static_cast<std::size_t>(homes_->nodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
  }
  SCR_ASSIGN_OR_RETURN(const auto holding, homes_->list(options_.id, options_.place.rank, nodes));
  LogTable table;
  table.rank = options_.place.rank;
  table.first_rank = options_.first_rank;
  table.number = options_.number;
  table.size = size;
  table.written = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  return log_->finish(std::move(table), holding);
}

// Programs sync a file before they close it, so it takes a third time (as with files of one
// process, Session::flushed()).
Status LogFile::sync() {
  constexpr int kSyncsBeforeClose = 2;
  const Collective call(*this);
  Communicator& comm = *options_.comm;
  if (File* const plain = plain_; plain != nullptr)
    return agree_all(comm, plain->sync(), "syncing a file");
  Status status = publish();
  // Before anybody has come back from the sync and can tell others to open the file.
  if (status.ok() && comm.rank() == 0 && options_.synced) status = options_.synced();
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "syncing a file"));
  if (++syncs_ > kSyncsBeforeClose && options_.stays_open) options_.stays_open(*this);
  return {};
}

// --- a file that stays open ----------------------------------------------------------------------

namespace {

constexpr const char* kMoving = "moving an open file to its name";

}  // namespace

LogFile::Collective::Collective(LogFile& file) : file_(file) {
  std::unique_lock lock(file_.calls_mutex_);
  file_.calls_changed_.wait(lock, [&] { return !file_.is_moving_; });
  ++file_.collective_calls_;
}

LogFile::Collective::~Collective() {
  const std::lock_guard lock(file_.calls_mutex_);
  --file_.collective_calls_;
}

bool LogFile::begin_move() {
  const std::lock_guard lock(calls_mutex_);
  if (collective_calls_ > 0) return false;
  is_moving_ = true;
  return true;
}

void LogFile::end_move() {
  const std::lock_guard lock(calls_mutex_);
  is_moving_ = false;
  calls_changed_.notify_all();
}

// `to` is new and has its size already: zeros are there.
Status LogFile::copy_share(File& to, std::uint64_t size) {
  const Communicator& comm = *options_.comm;
  std::vector<std::byte> buffer(kStripeSize);
  for (auto stripe = static_cast<std::uint64_t>(comm.rank()); stripe * kStripeSize < size;
       stripe += static_cast<std::uint64_t>(comm.size())) {
    const Range range{stripe * kStripeSize, std::min(kStripeSize, size - stripe * kStripeSize)};
    const std::span bytes = std::span(buffer).first(range.length);
    SCR_ASSIGN_OR_RETURN(const std::uint64_t got, reader_->read(std::span(&range, 1), bytes));
    SCR_RETURN_IF_ERROR(visit_nonzero(bytes.first(got), [&](std::size_t position, auto piece) {
      return to.write_all(piece, range.offset + position);
    }));
  }
  return to.sync();
}

Status LogFile::move(Communicator& comm, const Move& move) {
  Status so_far = publish();
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) so_far = failure_;
  }
  SCR_RETURN_IF_ERROR(agree_all(comm, so_far, kMoving));
  // All are here, and none waits for what a thread of the program does: the lock can be held.
  const std::lock_guard lock(mutex_);
  const bool first = options_.comm->rank() == 0;
  std::uint64_t size = 0;
  Status status = publish_locked();
  if (status.ok()) {
    auto found = reader_->size();
    status = found.status();
    if (found.ok()) size = *found;
  }
  Result<std::unique_ptr<File>> file = std::unique_ptr<File>();
  if (status.ok() && first) {
    file = move.open(/*first=*/true);
    status = file.ok() ? (*file)->truncate(size) : file.status();
  }
  SCR_RETURN_IF_ERROR(agree_all(comm, status, kMoving));
  if (!first) file = move.open(/*first=*/false);
  status = file.ok() ? copy_share(**file, size) : file.status();
  SCR_RETURN_IF_ERROR(agree_all(comm, status, kMoving));
  SCR_RETURN_IF_ERROR(agree_all(comm, first ? move.commit() : Status(), kMoving));
  moved_ = std::move(*file);
  plain_ = moved_.get();
  log_.reset();
  more_.reset();
  return {};
}

Status LogFile::watch_move(Communicator& comm) {
  constexpr int kAgreements = 4;  // of move()
  for (int i = 0; i < kAgreements; ++i) SCR_RETURN_IF_ERROR(agree_all(comm, Status(), kMoving));
  return {};
}

// --- closing -------------------------------------------------------------------------------------

void LogFile::tell_cost() const {
  if (!log::enabled(log::Level::kInfo)) return;
  const auto cost = homes_->cost(options_.id);
  if (!cost.ok()) return;
  log::info("'{}' has an index of {} extents, which takes {} of memory on {} nodes", options_.name,
            cost->extents, format_byte_size(cost->bytes), homes_->nodes());
}

Status LogFile::close_plain() {
  Closed closed;
  closed.plain = true;
  closed.status = agree_all(*options_.comm, moved_->close(), "closing a file");
  if (options_.comm->rank() == 0) (void)homes_->drop(options_.id);
  const Status known = options_.closed ? options_.closed(closed) : Status();
  return closed.status.ok() ? known : closed.status;
}

Status LogFile::close() {
  const Collective call(*this);
  if (plain_ != nullptr) return close_plain();
  Communicator& comm = *options_.comm;
  Closed closed;
  Status mine = publish();
  if (mine.ok()) mine = failure_;
  closed.status = agree_all(comm, mine, "closing a file");
  std::array<std::int64_t, 3> facts = {written_ ? 1 : 0, options_.gone && options_.gone() ? 1 : 0,
                                       more_ ? 1 : 0};
  comm.all_reduce(facts, ReduceOp::kMax);
  closed.written = facts[0] != 0;
  closed.gone = facts[1] != 0;
  bool outgrown = closed.status.ok() && facts[2] != 0;
  if (closed.written && closed.status.ok() && !outgrown && reader_->base() != nullptr) {
    closed.status = agree_all(comm, take_over_base(), "closing a file");
    outgrown = closed.status.ok() && comm.any_true(more_ != nullptr);
  }
  if (closed.written && closed.status.ok() && !outgrown) {
    auto size = reader_->size();
    mine = size.status();
    if (mine.ok()) {
      closed.size = *size;
      auto finished = finish_log(*size);
      mine = finished.status();
      if (mine.ok()) closed.log_crc = *finished;
    }
    closed.status = agree_all(comm, mine, "closing a file");
    if (!closed.status.ok()) outgrown = comm.any_true(mine.code() == StatusCode::kNoSpace);
  }
  if (outgrown) {
    if (options_.outgrown) options_.outgrown(*this);
    if (plain_ != nullptr) return close_plain();
    closed.status = {StatusCode::kNoSpace,
                     fmt::format("there is no room for '{}' in the cache, and it could not be "
                                 "moved to its name",
                                 options_.name)};
  }
  if (closed.written && closed.status.ok() && comm.rank() == 0) tell_cost();
  log_.reset();
  // When the call returns anywhere, everybody can find the file.
  const Status known =
      agree_all(comm, options_.closed ? options_.closed(closed) : Status(), "closing a file");
  return closed.status.ok() ? known : closed.status;
}

}  // namespace scr::shared_file
