// The halt file: when a run should stop (SCR manual §9.5).
//
// It lies in the prefix (`.scr/halt.scr`), since commands on other nodes change it (scr_halt) while
// a run looks at it after each checkpoint. Readers take no lock, for the file is replaced as a
// whole; whoever changes it does so under the lock of LockedHashFile. Times are seconds since the
// epoch. Format: docs/formats/halt.md. All functions may be called from any thread and process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/hash_file.hpp"

namespace scr {

inline constexpr std::string_view kHaltFileName = "halt.scr";

// The exit reason that SCR_Finalize leaves. The job did what it wanted: scr_run does not start it
// again, but whoever starts a new run by hand means it.
inline constexpr std::string_view kFinalizeCalled = "SCR_FINALIZE_CALLED";

struct HaltConditions {
  std::optional<std::int64_t> checkpoints_left = {};  // checkpoints to complete before the end
  std::optional<std::int64_t> exit_after = {};        // stop when the time is later than this
  std::optional<std::int64_t> exit_before = {};       // the run must be over at this time ...
  std::optional<std::int64_t> halt_seconds = {};      // ... and needs so long to end
  std::optional<std::int64_t> job_end = {};           // as exit_before, but for this job alone:
  std::string job_id = {};
  std::string exit_reason = {};  // if not empty: stop, for this reason
  bool immediate = false;        // with a reason: scr_run does not wait for the next checkpoint

  Hash to_hash() const;
  // Numbers that are none, or negative, are kCorrupt.
  static Result<HaltConditions> from_hash(const Hash& hash);
  bool operator==(const HaltConditions&) const = default;
};

// What a job itself says of its end, besides the conditions that users set. It is never written to
// the halt file, which outlives the job: the next job in the same prefix directory would take it
// for a user's.
struct JobLimits {
  std::string job_id = {};
  std::int64_t end = 0;           // SCR_END_TIME, or what the batch system says; 0: not known
  std::int64_t halt_seconds = 0;  // SCR_HALT_SECONDS
};
JobLimits job_limits(std::string job_id, std::int64_t end, double halt_seconds);

// Who asks: a run that goes on or starts (SCR_Init, SCR_Complete_checkpoint, SCR_Should_exit), or a
// launcher that would start the next one (scr_run).
enum class HaltQuestion { kRun, kRelaunch };

// Why to stop, in words for a log line, or nothing. kFinalizeCalled counts for kRelaunch only. A
// user's halt_seconds count for more than the job's; of several ends the first one counts.
std::optional<std::string> reason_to_halt(const HaltConditions& conditions, std::int64_t now,
                                          HaltQuestion question = HaltQuestion::kRun,
                                          const JobLimits& limits = {});

// No file: no conditions. The directory must exist for changes, not for reading.
Result<HaltConditions> read_halt_file(FileSystem& fs, const At& at);

// Changes the file under its lock, durably, and returns what it then holds. It is written only if
// `change` changed something. Keys that are not ours stay. With `damage`, a damaged file is
// replaced as if it held no conditions, and `damage` says what was wrong with it.
Result<HaltConditions> update_halt_file(FileSystem& fs, const At& at,
                                        const std::function<void(HaltConditions&)>& change,
                                        Status* damage = nullptr);

// One checkpoint is complete: takes one from CheckpointsLeft, if that is set and above 0.
Result<HaltConditions> count_checkpoint(FileSystem& fs, const At& at);

// Takes kFinalizeCalled away, which the run before left; other reasons stay. For SCR_Init.
Result<HaltConditions> clear_finalize_called(FileSystem& fs, const At& at);

}  // namespace scr
