// Notices a program that hangs: one that completes no checkpoint for too long.
//
// A run gives a sign of life in the prefix directory (`.scr/owner.scr`) with each checkpoint, so it
// can be watched from anywhere, whoever launched it. While a dataset is on its way to the prefix
// directory a longer time may hold. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/base/filesystem.hpp"

namespace scr::job {

struct WatchdogTimes {
  double checkpoint = 0;  // SCR_WATCHDOG_TIMEOUT, seconds; 0: no watch
  double flush = 0;       // SCR_WATCHDOG_TIMEOUT_PFS; 0: the same
};

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  Watchdog(FileSystem& fs, std::string prefix_scr, WatchdogTimes times, Clock::time_point start);

  // Looks; if the program hangs, in words what it did not do.
  std::optional<std::string> look(Clock::time_point now);
  // How many signs of life were seen. The first one of a run is its start.
  int signs() const { return signs_; }

 private:
  std::int64_t last_sign() const;
  bool flush_is_under_way() const;

  FileSystem* fs_;
  std::string prefix_scr_;
  WatchdogTimes times_;
  Clock::time_point since_;
  std::int64_t sign_;
  int signs_ = 0;
};

}  // namespace scr::job
