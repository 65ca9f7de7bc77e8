// Pacer: holds up the thread that copies in the background, so that a Throttle's limits hold, and
// no longer than until it is cancelled.
#pragma once

#include <atomic>

#include "flush/throttle.hpp"

namespace scr::flush {

class Pacer {
 public:
  // Zero means no limit. `cancel` must outlive this.
  Pacer(double bytes_per_second, double percent, const std::atomic<bool>& cancel)
      : throttle_(bytes_per_second, percent, now()), cancel_(cancel) {}

  // Seconds of a clock that only goes forward.
  static double now();
  // After working on `bytes` since `start`: sleeps as long as the limits ask for.
  void pause(std::uint64_t bytes, double start);
  // Time that was spent on other work gives no credit.
  void skip(double seconds) { throttle_.skip(seconds); }
  bool cancelled() const { return cancel_; }

 private:
  Throttle throttle_;
  const std::atomic<bool>& cancel_;
};

}  // namespace scr::flush
