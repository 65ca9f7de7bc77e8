#include "flush/pacer.hpp"

#include <chrono>
#include <thread>

namespace scr::flush {

double Pacer::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// In short naps, so that a cancel is not kept waiting.
void Pacer::pause(std::uint64_t bytes, double start) {
  const double end = now();
  double left = throttle_.pause_after(bytes, end - start, end);
  while (left > 0 && !cancel_) {
    const double nap = std::min(left, 0.1);
    std::this_thread::sleep_for(std::chrono::duration<double>(nap));
    left -= nap;
  }
}

}  // namespace scr::flush
