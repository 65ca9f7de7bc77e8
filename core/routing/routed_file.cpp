#include "core/routing/routed_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <mutex>

#include "core/routing/session.hpp"

namespace scr::routing {

RoutedFile::RoutedFile(Session& session, std::string absolute, std::unique_ptr<File> file,
                       Role role)
    : session_(session), absolute_(std::move(absolute)), file_(std::move(file)), role_(role) {}

RoutedFile::~RoutedFile() { (void)RoutedFile::close(); }

Status RoutedFile::before_change() {
  if (cut_off_) {
    return failed_precondition(fmt::format(
        "'{}' cannot be changed: h5scr has ended, and could not move it to its name", absolute_));
  }
  return role_ == Role::kUpdater ? session_.begin_update(*this) : Status();
}

Status RoutedFile::after_change(const Status& status) {
  const Role role = role_;
  if (role == Role::kLive) changed_ = true;
  if (!status.ok() && (role == Role::kWriter || role == Role::kLive)) {
    session_.failed(*this, status);
  }
  return status;
}

void RoutedFile::replace(std::unique_ptr<File> file, Role role) {
  std::unique_lock lock(mutex_);
  file_ = std::move(file);
  role_ = role;
}

Status RoutedFile::flush_hint() { return session_.flushed(*this); }

Result<std::size_t> RoutedFile::read_some(std::span<std::byte> buffer, std::uint64_t offset) {
  std::shared_lock lock(mutex_);
  return file_->read_some(buffer, offset);
}

Result<std::size_t> RoutedFile::write_some(std::span<const std::byte> data, std::uint64_t offset) {
  SCR_RETURN_IF_ERROR(before_change());
  const auto write = [&] {
    std::shared_lock lock(mutex_);
    return file_->write_some(data, offset);
  };
  Result<std::size_t> count = write();
  if (!count.ok() && session_.gave_way(*this, count.status())) count = write();
  if (!count.ok() || role_ == Role::kLive) (void)after_change(count.status());
  return count;
}

Result<FileInfo> RoutedFile::info() {
  std::shared_lock lock(mutex_);
  return file_->info();
}

Status RoutedFile::truncate(std::uint64_t size) {
  SCR_RETURN_IF_ERROR(before_change());
  return after_change([&] {
    std::shared_lock lock(mutex_);
    return file_->truncate(size);
  }());
}

Status RoutedFile::allocate(std::uint64_t offset, std::uint64_t length) {
  SCR_RETURN_IF_ERROR(before_change());
  const auto allocate = [&] {
    std::shared_lock lock(mutex_);
    return file_->allocate(offset, length);
  };
  Status status = allocate();
  if (!status.ok() && session_.gave_way(*this, status)) status = allocate();
  return after_change(status);
}

Status RoutedFile::sync() {
  std::shared_lock lock(mutex_);
  return file_->sync();
}

Status RoutedFile::set_mode(mode_t mode) {
  SCR_RETURN_IF_ERROR(before_change());
  std::shared_lock lock(mutex_);
  return file_->set_mode(mode);
}

Result<Mapping> RoutedFile::map(std::uint64_t offset, std::size_t length) {
  std::shared_lock lock(mutex_);
  return file_->map(offset, length);
}

Status RoutedFile::lock(LockMode mode, bool wait) {
  std::shared_lock lock(mutex_);
  return file_->lock(mode, wait);
}

Status RoutedFile::unlock() {
  std::shared_lock lock(mutex_);
  return file_->unlock();
}

int RoutedFile::descriptor() const {
  std::shared_lock lock(mutex_);
  return file_->descriptor();
}

Status RoutedFile::close() {
  if (!open_) return {};
  Status kept = role_ == Role::kLive ? session_.closing(*this) : Status();
  Status status;
  {
    // Another thread may be about to move it to its name; not so in the child of a fork, where the
    // lock may be held by a thread that the child does not have.
    std::unique_lock lock(mutex_, std::defer_lock);
    if (getpid() == session_.pid_) lock.lock();
    if (!open_.exchange(false)) return {};
    status = file_->close();
  }
  Status noted = session_.closed(*this, status);
  if (!kept.ok()) return kept;
  return status.ok() ? noted : status;
}

}  // namespace scr::routing
