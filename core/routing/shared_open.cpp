// Provisional, until there is an engine for shared files: names below SCR_PREFIX are served by the
// plain file of that name. With SCR_TEST_DELAY_WRITES=1 others see writes no earlier than they are
// published.
#include "core/routing/shared_open.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/shared_file/file_backed.hpp"

namespace scr::routing {
namespace {

using shared_file::Range;
using shared_file::SharedFile;

class Delayed final : public SharedFile {
 public:
  explicit Delayed(std::unique_ptr<SharedFile> file) : file_(std::move(file)) {}

  Status write(std::span<const Range> ranges, std::span<const std::byte> data) override {
    const std::lock_guard lock(mutex_);
    for (const Range& range : ranges) {
      const auto piece = data.first(range.length);
      pending_.push_back({range, {piece.begin(), piece.end()}});
      data = data.subspan(range.length);
    }
    return {};
  }
  Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> data) override {
    const std::lock_guard lock(mutex_);
    SCR_ASSIGN_OR_RETURN(const std::uint64_t end, size_now());
    std::uint64_t done = 0;
    for (const Range& range : ranges) {
      const Range there = {range.offset,
                           range.offset < end ? std::min(range.length, end - range.offset) : 0};
      auto to = data.subspan(done, there.length);
      std::fill(to.begin(), to.end(), std::byte{0});
      SCR_RETURN_IF_ERROR(file_->read({&there, 1}, to).status());
      for (const Pending& pending : pending_) lay_over(pending, there, to);
      done += there.length;
      if (there.length < range.length) break;
    }
    return done;
  }
  Status publish() override {
    const std::lock_guard lock(mutex_);
    for (const Pending& pending : pending_)
      SCR_RETURN_IF_ERROR(file_->write({&pending.range, 1}, pending.bytes));
    pending_.clear();
    return {};
  }
  bool has_unpublished() const override {
    const std::lock_guard lock(mutex_);
    return !pending_.empty();
  }
  Result<std::uint64_t> size() override {
    const std::lock_guard lock(mutex_);
    return size_now();
  }
  Status set_size(std::uint64_t size) override {
    SCR_RETURN_IF_ERROR(publish());
    return file_->set_size(size);
  }
  Status reserve(std::uint64_t size) override {
    SCR_RETURN_IF_ERROR(publish());
    return file_->reserve(size);
  }
  Status sync() override {
    SCR_RETURN_IF_ERROR(publish());
    return file_->sync();
  }
  Result<std::uint64_t> advance_pointer(std::uint64_t by) override {
    return file_->advance_pointer(by);
  }
  Status set_pointer(std::uint64_t to) override { return file_->set_pointer(to); }
  Status lock() override { return file_->lock(); }
  Status unlock() override { return file_->unlock(); }
  Status close() override {
    SCR_RETURN_IF_ERROR(publish());
    return file_->close();
  }

 private:
  struct Pending {
    Range range;
    std::vector<std::byte> bytes;
  };
  Result<std::uint64_t> size_now() {
    SCR_ASSIGN_OR_RETURN(std::uint64_t size, file_->size());
    for (const Pending& pending : pending_) size = std::max(size, pending.range.end());
    return size;
  }
  static void lay_over(const Pending& pending, const Range& range, std::span<std::byte> to) {
    const std::uint64_t first = std::max(pending.range.offset, range.offset);
    const std::uint64_t end = std::min(pending.range.end(), range.end());
    if (first >= end) return;
    std::memcpy(to.data() + (first - range.offset),
                pending.bytes.data() + (first - pending.range.offset), end - first);
  }

  std::unique_ptr<SharedFile> file_;
  mutable std::mutex mutex_;
  std::vector<Pending> pending_;
};

bool is_routed(const SharedOpen& how) {
  const char* prefix = std::getenv("SCR_PREFIX");
  if (prefix == nullptr) return false;
  const auto route = how.hints.find("scr_route");
  if (route != how.hints.end() && route->second == "0") return false;
  const auto absolute = std::filesystem::absolute(how.name).lexically_normal().string();
  return absolute.starts_with(std::filesystem::path(prefix).lexically_normal().string() + "/");
}

// Rank 0 creates it, the others open what it made.
Result<std::unique_ptr<File>> open_mine(Communicator& comm, const SharedOpen& how) {
  using Access = OpenOptions::Access;
  OpenOptions options = {.access = how.write ? Access::kReadWrite : Access::kRead,
                         .create = how.create,
                         .exclusive = how.exclusive,
                         .no_follow = false};
  Result<std::unique_ptr<File>> first = internal_error("not opened");
  if (comm.rank() == 0) first = file_system().open(how.name, options);
  const bool created =
      comm.broadcast_string(comm.rank() == 0 && first.ok() ? "yes" : "no", 0) == "yes";
  if (comm.rank() == 0) return first;
  options.create = options.exclusive = false;
  if (created) return file_system().open(how.name, options);
  return internal_error("not opened");
}

}  // namespace

Result<std::unique_ptr<SharedFile>> open_shared(std::shared_ptr<Communicator> comm,
                                                const SharedOpen& how) {
  if (!is_routed(how)) return std::unique_ptr<SharedFile>();
  auto mine = open_mine(*comm, how);
  Status failure = mine.status();
  if (comm->rank() != 0 && failure.code() == StatusCode::kInternal) failure = Status();
  SCR_RETURN_IF_ERROR(agree_all(*comm, failure, "opening '" + how.name + "'"));
  const bool first = comm->rank() == 0;
  SCR_ASSIGN_OR_RETURN(auto file, shared_file::open_file_backed(comm, std::move(mine)));
  if (how.delete_on_close && first) (void)file_system().remove_if_exists(how.name);
  if (const char* delay = std::getenv("SCR_TEST_DELAY_WRITES"); delay != nullptr && *delay == '1')
    return std::unique_ptr<SharedFile>(std::make_unique<Delayed>(std::move(file)));
  return file;
}

}  // namespace scr::routing
