// Throttle: keeps background copies below a bandwidth and a share of the time (SCR_FLUSH_ASYNC_BW,
// SCR_FLUSH_ASYNC_PERCENT). Arithmetic only: the caller tells what it did and when, and sleeps as
// told.
#pragma once

#include <algorithm>
#include <cstdint>

namespace scr::flush {

class Throttle {
 public:
  // Zero means no limit. `percent` is the share of the time spent working, up to 100.
  Throttle(double bytes_per_second, double percent, double now)
      : bytes_per_second_(bytes_per_second), percent_(percent), start_(now) {}

  // After working `seconds` on `bytes`: how long to pause, so that both limits hold from the start
  // on.
  double pause_after(std::uint64_t bytes, double seconds, double now) {
    bytes_ += static_cast<double>(bytes);
    busy_ += seconds;
    const double elapsed = now - start_;
    double due = 0;
    if (bytes_per_second_ > 0) due = std::max(due, bytes_ / bytes_per_second_);
    if (percent_ > 0 && percent_ < 100) due = std::max(due, busy_ * 100 / percent_);
    return std::max(0.0, due - elapsed);
  }

  // Time that was spent on other work does not count.
  void skip(double seconds) { start_ += seconds; }

 private:
  double bytes_per_second_;
  double percent_;
  double start_;
  double bytes_ = 0;
  double busy_ = 0;
};

}  // namespace scr::flush
