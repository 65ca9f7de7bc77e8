#include "core/base/job_owner.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

constexpr std::chrono::milliseconds kPause{10};
constexpr std::chrono::seconds kSignOfLife{600};

Status unavailable(const Directory& directory, std::string_view why) {
  return {StatusCode::kUnavailable,
          fmt::format("cannot take directory '{}' for this job: {}", directory.path(), why)};
}

At lock_at(const Directory& directory) { return {directory, std::string(kOwnerLockName)}; }
At file_at(const Directory& directory) { return {directory, std::string(kOwnerFileName)}; }

Result<std::unique_ptr<File>> open_lock(FileSystem& fs, const Directory& directory) {
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  options.mode = 0600;
  auto lock = fs.open(lock_at(directory), options);
  if (!lock.ok() && lock.status().errno_value() == ENOENT) {
    return unavailable(directory, "it was removed by scr_clean; try again");
  }
  return lock;
}

// False if scr_clean removed the file between our open and our lock: then nobody else can see it.
Result<bool> is_still_there(FileSystem& fs, const Directory& directory, File& lock) {
  SCR_ASSIGN_OR_RETURN(const FileInfo ours, lock.info());
  const auto named = fs.info(lock_at(directory));
  if (!named.ok() && named.status().code() == StatusCode::kNotFound) return false;
  if (!named.ok()) return named.status();
  return named->inode == ours.inode && named->device == ours.device;
}

}  // namespace

Hash JobOwnerInfo::to_hash() const {
  Hash hash;
  hash.set_value("USER", user);
  hash.set_value("JOBID", job_id);
  hash.set_value("HOST", host);
  hash.set_value("BOOT", boot_id);
  hash.set_value("HEARTBEAT", heartbeat);
  hash.set_value("PREFIX", prefix);
  return hash;
}

Result<JobOwnerInfo> JobOwnerInfo::from_hash(const Hash& hash) {
  JobOwnerInfo info;
  SCR_ASSIGN_OR_RETURN(info.user, hash.require_value("USER"));
  SCR_ASSIGN_OR_RETURN(info.job_id, hash.require_value("JOBID"));
  SCR_ASSIGN_OR_RETURN(info.host, hash.require_value("HOST"));
  SCR_ASSIGN_OR_RETURN(info.boot_id, hash.require_value("BOOT"));
  SCR_ASSIGN_OR_RETURN(info.heartbeat, hash.require_int("HEARTBEAT"));
  if (info.heartbeat < 0) return corrupt("key 'HEARTBEAT' has a negative value");
  SCR_ASSIGN_OR_RETURN(info.prefix, hash.require_value("PREFIX"));
  return info;
}

std::string current_boot_id(FileSystem& fs) {
  const auto bytes = fs.read_file("/proc/sys/kernel/random/boot_id");
  if (!bytes.ok()) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return std::string(text::trim(text));
}

Result<JobOwnerInfo> read_owner_file(FileSystem& fs, const Directory& directory) {
  const At at = file_at(directory);
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  auto info = JobOwnerInfo::from_hash(hash);
  if (info.ok()) return info;
  return info.status().with_context(fmt::format("'{}' is not a valid owner file", at.display()));
}

Status write_owner_file(FileSystem& fs, const Directory& directory, const JobOwnerInfo& info) {
  return write_hash_file(fs, file_at(directory), info.to_hash(), Durability::kVolatile, 0600);
}

Status check_no_other_job(FileSystem& fs, const Directory& directory, const JobOwnerInfo& mine) {
  const auto owner = read_owner_file(fs, directory);
  if (!owner.ok()) return {};  // none, or none that says anything
  if (owner->job_id == mine.job_id && owner->user == mine.user) return {};
  const std::int64_t age = mine.heartbeat - owner->heartbeat;
  if (age >= kSignOfLife.count()) return {};
  return failed_precondition(fmt::format(
      "'{}' is in use by job {} of {} on {}, which gave a sign of life {} s ago; if it is gone, "
      "remove '{}'",
      directory.path(), owner->job_id, owner->user, owner->host, age,
      file_at(directory).display()));
}

Result<JobOwner> JobOwner::hold(FileSystem& fs, const Directory& directory, JobOwnerInfo info,
                                std::chrono::milliseconds patience) {
  if (info.host.empty()) info.host = log::host_name();
  if (info.boot_id.empty()) info.boot_id = current_boot_id(fs);
  if (info.heartbeat == 0) info.heartbeat = std::time(nullptr);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> lock, open_lock(fs, directory));
    const Status locked = lock->lock(LockMode::kShared, /*wait=*/false);
    if (locked.ok()) {
      SCR_ASSIGN_OR_RETURN(const bool there, is_still_there(fs, directory, *lock));
      if (there) {
        SCR_RETURN_IF_ERROR(write_owner_file(fs, directory, info));
        return JobOwner(std::move(lock), std::move(info));
      }
    } else if (locked.code() != StatusCode::kUnavailable) {
      return locked;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return unavailable(directory,
                         "another process, scr_clean most likely, does not let go of it");
    }
    std::this_thread::sleep_for(kPause);
  }
}

Status JobOwner::beat(FileSystem& fs, const Directory& directory) {
  info_.heartbeat = std::time(nullptr);
  return write_owner_file(fs, directory, info_);
}

Result<JobOwner> JobOwner::take_over(FileSystem& fs, const Directory& directory) {
  SCR_ASSIGN_OR_RETURN(const FileInfo found, fs.info(lock_at(directory)));
  if (found.type != FileInfo::Type::kRegular) {
    return corrupt(fmt::format("'{}' is not a regular file", lock_at(directory).display()));
  }
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> lock,
                       fs.open(lock_at(directory), OpenOptions::read_write()));
  SCR_RETURN_IF_ERROR(lock->lock(LockMode::kExclusive, /*wait=*/false));
  return JobOwner(std::move(lock), {});
}

}  // namespace scr
