#include "core/base/faulty_filesystem.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/base/posix.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

// What an operation shall do.
struct Verdict {
  enum class Kind { kProceed, kFail, kHalf, kEndOfFile, kTear };
  Kind kind = Kind::kProceed;
  int errno_value = 0;

  bool fails() const { return kind == Kind::kFail; }
};

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

posix::Descriptor open_log(const std::string& path) {
  if (path.empty()) return {};
  posix::Descriptor log(posix::retry_interrupted(
      [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); }));
  if (log.valid()) return log;
  std::fprintf(stderr, "SCR: cannot open the log of SCR_FAULT '%s': %s\n", path.c_str(),
               std::strerror(errno));
  std::_Exit(2);
}

}  // namespace

// The counter and the plan, shared by the file system and its files.
class FaultyFileSystem::Faults {
 public:
  explicit Faults(FaultPlan plan) : plan_(std::move(plan)), log_(open_log(plan_.log)) {}

  std::uint64_t operations() const {
    const std::lock_guard lock(mutex_);
    return operations_;
  }

  std::uint64_t hits() const {
    const std::lock_guard lock(mutex_);
    return hits_;
  }

  void reset(const FaultPlan* plan) {
    const std::lock_guard lock(mutex_);
    if (plan != nullptr) {
      plan_ = *plan;
      log_ = open_log(plan_.log);
    }
    operations_ = 0;
    hits_ = 0;
    device_full_ = false;
    cut_path_.reset();
  }

  // Counts an operation and says how it goes. Does not return if it is time to die.
  Verdict decide(Operation operation, const std::string& path, const std::string* other = nullptr) {
    const std::lock_guard lock(mutex_);
    if (const Verdict left = consequence(operation, path); left.kind != Verdict::Kind::kProceed) {
      if (matches(operation, path, other)) count(operation, path);
      return left;
    }
    if (!matches(operation, path, other)) return {};
    count(operation, path);
    const bool due = operations_ >= plan_.n && operations_ - plan_.n < plan_.repeat;
    if (!due || plan_.action == FaultPlan::Action::kCountOnly) return {};
    ++hits_;
    return act(operation, path);
  }

 private:
  bool matches_path(const std::string& path) const {
    return plan_.path == "*" || text::glob_match(plan_.path, path);
  }

  bool matches(Operation operation, const std::string& path, const std::string* other) const {
    if ((plan_.operations & FaultPlan::bit(operation)) == 0) return false;
    return matches_path(path) || (other != nullptr && matches_path(*other));
  }

  void count(Operation operation, const std::string& path) {
    ++operations_;
    if (!log_.valid()) return;
    const std::string line =
        fmt::format("{} {} {} {}\n", FaultPlan::this_rank(), operations_,
                    kOperationNames[static_cast<unsigned>(operation)], text::escape(path));
    (void)posix::retry_interrupted([&] { return ::write(log_.get(), line.data(), line.size()); });
  }

  // What an earlier "short" left behind: a full device, or a file that seems to end.
  Verdict consequence(Operation operation, const std::string& path) const {
    const bool needs_room = operation == Operation::kWrite || operation == Operation::kAllocate;
    if (device_full_ && needs_room && matches_path(path)) return {Verdict::Kind::kFail, ENOSPC};
    if (operation == Operation::kRead && cut_path_ == path) return {Verdict::Kind::kEndOfFile};
    return {};
  }

  Verdict act(Operation operation, const std::string& path) {
    switch (plan_.action) {
      case FaultPlan::Action::kCountOnly:
        return {};
      case FaultPlan::Action::kFail:
        return {Verdict::Kind::kFail, plan_.errno_value};
      case FaultPlan::Action::kKill:
        die();
      case FaultPlan::Action::kTear:
        return {operation == Operation::kWrite ? Verdict::Kind::kTear : Verdict::Kind::kProceed};
      case FaultPlan::Action::kShort:
        break;
    }
    if (operation == Operation::kWrite) {
      device_full_ = true;
    } else if (operation == Operation::kRead) {
      cut_path_ = path;
    } else {
      return {};
    }
    return {Verdict::Kind::kHalf};
  }

  mutable std::mutex mutex_;
  FaultPlan plan_;
  posix::Descriptor log_;
  std::uint64_t operations_ = 0;
  std::uint64_t hits_ = 0;
  bool device_full_ = false;
  std::optional<std::string> cut_path_;
};

class FaultyFileSystem::FaultyFile final : public File {
 public:
  FaultyFile(std::unique_ptr<File> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    const Verdict verdict = faults_->decide(Operation::kRead, path());
    if (verdict.fails()) return failure(verdict, "read");
    if (verdict.kind == Verdict::Kind::kEndOfFile) return std::size_t{0};
    if (verdict.kind == Verdict::Kind::kHalf) buffer = buffer.first(buffer.size() / 2);
    return inner_->read_some(buffer, offset);
  }

  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
    const Verdict verdict = faults_->decide(Operation::kWrite, path());
    if (verdict.fails()) return failure(verdict, "write");
    if (verdict.kind == Verdict::Kind::kTear) {
      (void)inner_->write_all(data.first(data.size() / 2), offset);
      die();
    }
    if (verdict.kind == Verdict::Kind::kHalf) {
      if (data.size() < 2) return errno_status(ENOSPC, "write", path());
      data = data.first(data.size() / 2);
    }
    return inner_->write_some(data, offset);
  }

  Result<FileInfo> info() override {
    SCR_RETURN_IF_ERROR(strike(Operation::kInfo, "look up"));
    return inner_->info();
  }

  Status truncate(std::uint64_t size) override {
    SCR_RETURN_IF_ERROR(strike(Operation::kTruncate, "set the size of"));
    return inner_->truncate(size);
  }

  Status allocate(std::uint64_t offset, std::uint64_t length) override {
    SCR_RETURN_IF_ERROR(strike(Operation::kAllocate, "reserve space for"));
    return inner_->allocate(offset, length);
  }

  Status sync() override {
    SCR_RETURN_IF_ERROR(strike(Operation::kSync, "sync"));
    return inner_->sync();
  }

  Status set_mode(mode_t mode) override {
    SCR_RETURN_IF_ERROR(strike(Operation::kSetMode, "set the permissions of"));
    return inner_->set_mode(mode);
  }

  Result<Mapping> map(std::uint64_t offset, std::size_t length) override {
    SCR_RETURN_IF_ERROR(strike(Operation::kMap, "map"));
    return inner_->map(offset, length);
  }

  Status lock(LockMode mode, bool wait) override {
    SCR_RETURN_IF_ERROR(strike(Operation::kLock, "lock"));
    return inner_->lock(mode, wait);
  }

  Status unlock() override {
    SCR_RETURN_IF_ERROR(strike(Operation::kUnlock, "unlock"));
    return inner_->unlock();
  }

  // As with the kernel, the descriptor is gone even if close reports an error.
  Status close() override {
    const Status struck = strike(Operation::kClose, "close");
    Status closed = inner_->close();
    return struck.ok() ? closed : struck;
  }

  const std::string& path() const override { return inner_->path(); }
  int descriptor() const override { return inner_->descriptor(); }
  void start_writing(std::uint64_t offset, std::uint64_t length) override {
    if (strike(Operation::kStartWriting, "write back").ok()) inner_->start_writing(offset, length);
  }
  void set_time(std::int64_t mtime_ns) override {
    if (strike(Operation::kSetTime, "set the time of").ok()) inner_->set_time(mtime_ns);
  }

 private:
  Status failure(const Verdict& verdict, std::string_view tried) const {
    return errno_status(verdict.errno_value, tried, path());
  }

  Status strike(Operation operation, std::string_view tried) const {
    const Verdict verdict = faults_->decide(operation, path());
    return verdict.fails() ? failure(verdict, tried) : Status();
  }

  std::unique_ptr<File> inner_;
  std::shared_ptr<Faults> faults_;
};

FaultyFileSystem::FaultyFileSystem(FileSystem& inner, FaultPlan plan)
    : inner_(inner), faults_(std::make_shared<Faults>(std::move(plan))) {}

FaultyFileSystem::~FaultyFileSystem() = default;

std::uint64_t FaultyFileSystem::operations() const { return faults_->operations(); }
std::uint64_t FaultyFileSystem::hits() const { return faults_->hits(); }
void FaultyFileSystem::reset() { faults_->reset(nullptr); }
void FaultyFileSystem::reset(const FaultPlan& plan) { faults_->reset(&plan); }

Status FaultyFileSystem::strike(Operation operation, std::string_view tried, const At& at) {
  const std::string path = at.display();
  const Verdict verdict = faults_->decide(operation, path);
  return verdict.fails() ? errno_status(verdict.errno_value, tried, path) : Status();
}

Result<std::unique_ptr<File>> FaultyFileSystem::open(const At& at, const OpenOptions& options) {
  SCR_RETURN_IF_ERROR(strike(Operation::kOpen, options.create ? "create" : "open", at));
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, inner_.open(at, options));
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file), faults_));
}

Result<std::unique_ptr<Directory>> FaultyFileSystem::open_directory(const At& at, bool no_follow) {
  SCR_RETURN_IF_ERROR(strike(Operation::kOpenDirectory, "open directory", at));
  return inner_.open_directory(at, no_follow);
}

Result<FileInfo> FaultyFileSystem::info(const At& at, bool follow) {
  SCR_RETURN_IF_ERROR(strike(Operation::kInfo, "look up", at));
  return inner_.info(at, follow);
}

Status FaultyFileSystem::make_directory(const At& at, mode_t mode) {
  SCR_RETURN_IF_ERROR(strike(Operation::kMakeDirectory, "create directory", at));
  return inner_.make_directory(at, mode);
}

Status FaultyFileSystem::remove_directory(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kRemoveDirectory, "remove directory", at));
  return inner_.remove_directory(at);
}

Status FaultyFileSystem::remove(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kRemove, "remove", at));
  return inner_.remove(at);
}

Status FaultyFileSystem::rename(const At& from, const At& to, bool exclusive) {
  const std::string source = from.display();
  const std::string target = to.display();
  const Verdict verdict = faults_->decide(Operation::kRename, source, &target);
  if (verdict.fails())
    return errno_status(verdict.errno_value, "rename", source + "' to '" + target);
  return inner_.rename(from, to, exclusive);
}

Status FaultyFileSystem::exchange(const At& one, const At& other) {
  const std::string first = one.display();
  const std::string second = other.display();
  const Verdict verdict = faults_->decide(Operation::kRename, first, &second);
  if (verdict.fails())
    return errno_status(verdict.errno_value, "exchange", first + "' and '" + second);
  return inner_.exchange(one, other);
}

Status FaultyFileSystem::make_symlink(const std::string& target, const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kMakeSymlink, "create symbolic link", at));
  return inner_.make_symlink(target, at);
}

Result<std::string> FaultyFileSystem::read_symlink(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kReadSymlink, "read symbolic link", at));
  return inner_.read_symlink(at);
}

Result<std::vector<DirectoryEntry>> FaultyFileSystem::list(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kList, "list directory", at));
  return inner_.list(at);
}

Status FaultyFileSystem::sync_directory(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kSyncDirectory, "sync directory", at));
  return inner_.sync_directory(at);
}

Result<SpaceInfo> FaultyFileSystem::space(const At& at) {
  SCR_RETURN_IF_ERROR(strike(Operation::kSpace, "find the free space of", at));
  return inner_.space(at);
}

}  // namespace scr
