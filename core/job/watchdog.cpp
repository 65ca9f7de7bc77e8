#include "core/job/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/job_owner.hpp"

namespace scr::job {

Watchdog::Watchdog(FileSystem& fs, std::string prefix_scr, WatchdogTimes times,
                   Clock::time_point start)
    : fs_(&fs),
      prefix_scr_(std::move(prefix_scr)),
      times_(times),
      since_(start),
      sign_(last_sign()) {}

// Whenever the file is written its time changes; what it says has a resolution of a second.
std::int64_t Watchdog::last_sign() const {
  const auto info = fs_->info(prefix_scr_ + "/" + std::string(kOwnerFileName));
  return info.ok() ? info->mtime_ns : 0;
}

// A dataset gets its directory when its flush begins, and its summary when all else is there.
bool Watchdog::flush_is_under_way() const {
  const auto entries = fs_->list(prefix_scr_);
  if (!entries.ok()) return false;
  return std::any_of(entries->begin(), entries->end(), [this](const DirectoryEntry& entry) {
    return entry.type == FileInfo::Type::kDirectory && entry.name.starts_with("scr.dataset.") &&
           !fs_->info(fmt::format("{}/{}/summary.scr", prefix_scr_, entry.name)).ok();
  });
}

std::optional<std::string> Watchdog::look(Clock::time_point now) {
  if (const std::int64_t sign = last_sign(); sign != sign_) {
    sign_ = sign;
    since_ = now;
    ++signs_;
  }
  if (times_.checkpoint <= 0) return std::nullopt;
  const double silent = std::chrono::duration<double>(now - since_).count();
  if (silent < times_.checkpoint) return std::nullopt;
  if (times_.flush > 0 && silent < times_.flush && flush_is_under_way()) return std::nullopt;
  return fmt::format("no checkpoint was completed for {:.0f} seconds (SCR_WATCHDOG_TIMEOUT)",
                     silent);
}

}  // namespace scr::job
