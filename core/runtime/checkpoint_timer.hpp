// CheckpointTimer: decides when a checkpoint is due (SCR_CHECKPOINT_INTERVAL, _SECONDS, _OVERHEAD),
// and keeps the times of compute and checkpoint phases. Times are seconds of any clock that only
// goes forward.
#pragma once

#include <cstdint>

namespace scr {

struct CheckpointPolicy {
  std::uint64_t interval = 0;  // every so many calls; 0: not used
  double seconds = 0;          // so long after the last; 0: not used
  double overhead = 0;  // keep checkpoints below this percentage of the compute time; 0: not used
};

class CheckpointTimer {
 public:
  CheckpointTimer() = default;
  CheckpointTimer(CheckpointPolicy policy, double now)
      : policy_(policy), phase_start_(now), last_end_(now) {}

  void start_checkpoint(double now) {
    compute_seconds_ += now - phase_start_;
    phase_start_ = now;
  }
  // Ends a checkpoint; one that failed counts for the time it took, but the next is as due as
  // before.
  void end_checkpoint(double now, bool ok) {
    checkpoint_seconds_ += now - phase_start_;
    phase_start_ = now;
    if (ok) {
      last_end_ = now;
      calls_ = 0;
      ++checkpoints_;
    }
  }

  // One call of SCR_Need_checkpoint. Without any policy the answer is always yes.
  bool due(double now) {
    ++calls_;
    if (policy_.interval > 0 && calls_ >= policy_.interval) return true;
    if (policy_.seconds > 0 && now - last_end_ >= policy_.seconds) return true;
    if (policy_.overhead > 0 && overhead_allows(now)) return true;
    return policy_.interval == 0 && policy_.seconds <= 0 && policy_.overhead <= 0;
  }

 private:
  // Would one more checkpoint of average cost keep the share of checkpoints below the limit? The
  // first is always allowed: there is no cost to judge by.
  bool overhead_allows(double now) const {
    if (checkpoints_ == 0) return true;
    const double compute = compute_seconds_ + (now - phase_start_);
    const double cost = checkpoint_seconds_ / static_cast<double>(checkpoints_);
    return compute > 0 && 100 * (checkpoint_seconds_ + cost) / compute < policy_.overhead;
  }

  CheckpointPolicy policy_;
  double phase_start_ = 0;
  double last_end_ = 0;
  double compute_seconds_ = 0;
  double checkpoint_seconds_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t checkpoints_ = 0;
};

}  // namespace scr
