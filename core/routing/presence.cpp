#include "core/routing/presence.hpp"

#include <fcntl.h>

namespace scr::routing {

Result<std::unique_ptr<Presence>> Presence::enter(FileSystem& fs, const std::string& path,
                                                  Missing missing, bool locks) {
  for (;;) {
    OpenOptions options = OpenOptions::read_write();
    options.create = missing == Missing::kMake;
    auto file = fs.open(path, options);
    if (missing == Missing::kLeave && file.status().code() == StatusCode::kNotFound) {
      return std::unique_ptr<Presence>();
    }
    SCR_RETURN_IF_ERROR(file.status());
    std::unique_ptr<Presence> presence(new Presence(std::move(*file), locks));
    SCR_ASSIGN_OR_RETURN(const bool locked, presence->lock());
    if (!locked) continue;
    // Who was there may have taken the file away.
    SCR_ASSIGN_OR_RETURN(const FileInfo mine, presence->file_->info());
    auto there = fs.info(path);
    if (there.ok() && there->inode == mine.inode && there->device == mine.device) return presence;
    if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  }
}

// Not by closing alone: a child of this process may have the descriptor, too.
Presence::~Presence() {
  if (locks_) (void)file_->unlock();
}

Result<bool> Presence::lock() {
  if (!locks_) return true;
  Status status = file_->lock(LockMode::kExclusive, /*wait=*/false);
  if (locks_are_missing(status)) locks_ = false;
  if (status.ok() || !locks_) return true;
  if (status.code() != StatusCode::kUnavailable) return status;
  SCR_RETURN_IF_ERROR(file_->lock(LockMode::kShared, /*wait=*/true));
  alone_ = false;
  return has_others(*file_);
}

bool Presence::has_others(const File& file) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(file.descriptor(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool Presence::is_at(FileSystem& fs, const std::string& path) {
  auto file = fs.open(path, OpenOptions::read_write());
  return file.ok() && has_others(**file);
}

Status Presence::share() {
  alone_ = false;
  return locks_ ? file_->lock(LockMode::kShared, /*wait=*/true) : Status();
}

bool Presence::take_alone() {
  alone_ = !locks_ || file_->lock(LockMode::kExclusive, /*wait=*/false).ok();
  return alone_;
}

}  // namespace scr::routing
