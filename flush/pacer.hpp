// Pacer: holds up the thread that copies in the background, so that a Throttle's limits hold, and
// no longer than until it is cancelled.
#pragma once

#include <atomic>

#include "flush/throttle.hpp"

namespace scr::flush {

// Time as a Pacer sees it; tests turn one of their own.
class PaceClock {
 public:
  virtual ~PaceClock() = default;
  // Seconds; only goes forward.
  virtual double now() = 0;
  virtual void sleep(double seconds) = 0;
};

PaceClock& steady_pace_clock();

class Pacer {
 public:
  // Zero means no limit. `cancel` and the clock must outlive this.
  Pacer(double bytes_per_second, double percent, const std::atomic<bool>& cancel,
        PaceClock* clock = nullptr);

  double now() { return clock_.now(); }
  // After working on `bytes`: sleeps as long as the limits ask for. All time since the last pause
  // was work, also that of opening and syncing files.
  void pause(std::uint64_t bytes);
  // Time that was spent on other work is no work, and gives no credit.
  void skip(double seconds) {
    throttle_.skip(seconds);
    since_ += seconds;
  }
  bool cancelled() const { return cancel_; }

 private:
  PaceClock& clock_;
  double since_;  // the end of the last pause
  Throttle throttle_;
  const std::atomic<bool>& cancel_;
};

}  // namespace scr::flush
