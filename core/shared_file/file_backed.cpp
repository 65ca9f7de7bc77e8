#include "core/shared_file/file_backed.hpp"

#include <algorithm>
#include <mutex>

#include "core/shared_file/log_reader.hpp"

namespace scr::shared_file {
namespace {

// Counter and lock of the processes of one node, in two files without names. A process by itself
// has none.
class NodeState {
 public:
  // Collective.
  static Result<std::unique_ptr<NodeState>> make(Communicator& comm) {
    auto state = std::make_unique<NodeState>();
    if (comm.size() == 1) return state;
    for (auto* file : {&state->counter_file_, &state->lock_file_}) {
      const std::string name =
          comm.broadcast_string(temporary_beside("/dev/shm/h5scr-shared").path, 0);
      auto opened = file_system().open(
          name, {.access = OpenOptions::Access::kReadWrite, .create = true, .mode = 0600});
      const Status status = agree_all(comm, opened.status(), "opening a file for the processes");
      (void)file_system().remove_if_exists(name);
      SCR_RETURN_IF_ERROR(status);
      *file = *std::move(opened);
    }
    return state;
  }

  Result<std::uint64_t> add(std::uint64_t by) {
    return update([by](std::uint64_t value) { return value + by; });
  }
  Status set(std::uint64_t to) {
    return update([to](std::uint64_t) { return to; }).status();
  }
  // Locks of files do not keep threads of one process apart.
  Status lock() {
    threads_.lock();
    const Status status = lock_file_ ? lock_file_->lock(LockMode::kExclusive, true) : Status();
    if (!status.ok()) threads_.unlock();
    return status;
  }
  Status unlock() {
    const Status status = lock_file_ ? lock_file_->unlock() : Status();
    threads_.unlock();
    return status;
  }

 private:
  template <typename Change>
  Result<std::uint64_t> update(Change change) {
    const std::lock_guard guard(counter_mutex_);
    if (!counter_file_) {
      const std::uint64_t before = counter_;
      counter_ = change(counter_);
      return before;
    }
    SCR_RETURN_IF_ERROR(counter_file_->lock(LockMode::kExclusive, true));
    auto before = update_file(change);
    SCR_RETURN_IF_ERROR(counter_file_->unlock());
    return before;
  }
  template <typename Change>
  Result<std::uint64_t> update_file(Change change) {
    std::uint64_t value = 0;  // of an empty file
    SCR_RETURN_IF_ERROR(
        counter_file_->read(std::as_writable_bytes(std::span(&value, 1)), 0).status());
    const std::uint64_t after = change(value);
    SCR_RETURN_IF_ERROR(counter_file_->write_all(std::as_bytes(std::span(&after, 1)), 0));
    return value;
  }

  std::mutex counter_mutex_;
  std::mutex threads_;
  std::uint64_t counter_ = 0;
  std::unique_ptr<File> counter_file_;
  std::unique_ptr<File> lock_file_;
};

class FileBacked final : public SharedFile {
 public:
  FileBacked(std::shared_ptr<Communicator> comm, std::unique_ptr<File> file,
             std::unique_ptr<NodeState> node, FileBackedEvents events)
      : comm_(std::move(comm)),
        file_(std::move(file)),
        node_(std::move(node)),
        events_(std::move(events)) {}

  Status write(std::span<const Range> ranges, std::span<const std::byte> data) override {
    for (const Range& range : ranges) {
      SCR_RETURN_IF_ERROR(file_->write_all(data.first(range.length), range.offset));
      data = data.subspan(range.length);
    }
    return {};
  }

  Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> data) override {
    return read_ranges(*file_, ranges, data);
  }

  Status publish() override { return {}; }
  bool has_unpublished() const override { return false; }

  Result<std::uint64_t> size() override {
    SCR_ASSIGN_OR_RETURN(const FileInfo info, file_->info());
    return info.size;
  }
  Status set_size(std::uint64_t size) override {
    return by_one("setting the size of a file", [&] { return file_->truncate(size); });
  }
  Status reserve(std::uint64_t size) override {
    return by_one("reserving room for a file", [&]() -> Status {
      SCR_RETURN_IF_ERROR(file_->allocate(0, size));
      // Where the file system cannot reserve room, the file is to have that length all the same.
      SCR_ASSIGN_OR_RETURN(const FileInfo info, file_->info());
      return info.size < size ? file_->truncate(size) : Status();
    });
  }
  Status sync() override {
    Status status = file_->sync();
    if (status.ok() && events_.synced) status = events_.synced();
    return agree_all(*comm_, status, "syncing a file");
  }

  Result<std::uint64_t> advance_pointer(std::uint64_t by) override { return node_->add(by); }
  Status set_pointer(std::uint64_t to) override { return node_->set(to); }
  Status lock() override { return node_->lock(); }
  Status unlock() override { return node_->unlock(); }

  Status close() override {
    const Status status = file_->close();
    if (events_.closed) events_.closed();
    return agree_all(*comm_, status, "closing a file");
  }

 private:
  // Rank 0 does it when all have come, and nobody goes on before it is done.
  template <typename Change>
  Status by_one(const char* what, Change change) {
    comm_->barrier();
    return agree_all(*comm_, comm_->rank() == 0 ? change() : Status(), what);
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<File> file_;
  std::unique_ptr<NodeState> node_;
  FileBackedEvents events_;
};

}  // namespace

Result<std::unique_ptr<SharedFile>> open_file_backed(std::shared_ptr<Communicator> comm,
                                                     Result<std::unique_ptr<File>> mine,
                                                     FileBackedEvents events) {
  SCR_RETURN_IF_ERROR(agree_all(*comm, mine.status(), "opening a file"));
  SCR_ASSIGN_OR_RETURN(auto node, NodeState::make(*comm));
  return std::unique_ptr<SharedFile>(std::make_unique<FileBacked>(
      std::move(comm), *std::move(mine), std::move(node), std::move(events)));
}

}  // namespace scr::shared_file
