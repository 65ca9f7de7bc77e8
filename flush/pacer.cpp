#include "flush/pacer.hpp"

#include <chrono>
#include <thread>

namespace scr::flush {

namespace {

class SteadyPaceClock final : public PaceClock {
 public:
  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void sleep(double seconds) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
};

}  // namespace

PaceClock& steady_pace_clock() {
  static SteadyPaceClock clock;
  return clock;
}

Pacer::Pacer(double bytes_per_second, double percent, const std::atomic<bool>& cancel,
             PaceClock* clock)
    : clock_(clock != nullptr ? *clock : steady_pace_clock()),
      since_(clock_.now()),
      throttle_(bytes_per_second, percent, since_),
      cancel_(cancel) {}

// In short naps, so that a cancel is not kept waiting.
void Pacer::pause(std::uint64_t bytes) {
  const double end = clock_.now();
  double left = throttle_.pause_after(bytes, end - since_, end);
  while (left > 0 && !cancel_) {
    const double nap = std::min(left, 0.1);
    clock_.sleep(nap);
    left -= nap;
  }
  since_ = clock_.now();
}

}  // namespace scr::flush
