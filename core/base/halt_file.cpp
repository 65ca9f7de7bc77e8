#include "core/base/halt_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/job_directories.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

struct NumberKey {
  std::string_view key;
  std::optional<std::int64_t> HaltConditions::*field;
};

constexpr std::array kNumbers = {
    NumberKey{"CheckpointsLeft", &HaltConditions::checkpoints_left},
    NumberKey{"ExitAfter", &HaltConditions::exit_after},
    NumberKey{"ExitBefore", &HaltConditions::exit_before},
    NumberKey{"HaltSeconds", &HaltConditions::halt_seconds},
    NumberKey{"JobEnd", &HaltConditions::job_end},
};
constexpr std::string_view kJobId = "JobId";
constexpr std::string_view kExitReason = "ExitReason";
constexpr std::string_view kImmediate = "Immediate";

Result<HaltConditions> parse(const Hash& hash, const At& at) {
  auto conditions = HaltConditions::from_hash(hash);
  if (conditions.ok()) return conditions;
  return conditions.status().with_context(
      fmt::format("'{}' is not a valid halt file", at.display()));
}

Status with_remedy(const Status& failure) {
  if (failure.code() != StatusCode::kCorrupt) return failure;
  return {failure.code(),
          std::string(failure.message()) + "; 'scr_halt --unset' takes it away, and all conditions",
          failure.errno_value()};
}

// True once the time has come to end, so that `needed` seconds later it is `end` at most.
bool too_late(std::int64_t now, std::int64_t end, std::int64_t needed) {
  std::int64_t last = 0;
  if (__builtin_sub_overflow(end, needed, &last)) return needed > 0;
  return now >= last;
}

// What the job was told at its start counts; else what scr_halt found out for this job, and not for
// one before it.
std::optional<std::int64_t> end_of_job(const HaltConditions& conditions, const JobLimits& limits) {
  if (limits.end > 0) return limits.end;
  const bool ours = !conditions.job_id.empty() && is_of_job(limits.job_id, conditions.job_id);
  return ours ? conditions.job_end : std::nullopt;
}

std::optional<std::string> reason_of_time(const HaltConditions& conditions, std::int64_t now,
                                          const JobLimits& limits) {
  const bool of_job = !conditions.halt_seconds && limits.halt_seconds > 0;
  const std::int64_t needed = conditions.halt_seconds.value_or(limits.halt_seconds);
  const std::string_view name = of_job ? "SCR_HALT_SECONDS" : "HaltSeconds";
  if (conditions.exit_before && too_late(now, *conditions.exit_before, needed)) {
    return fmt::format("less than {} seconds ({}) are left until ExitBefore ({})", needed, name,
                       *conditions.exit_before);
  }
  if (const auto end = end_of_job(conditions, limits); end && too_late(now, *end, needed)) {
    if (needed == 0) return fmt::format("the end of the job ({}) has come", *end);
    return fmt::format("less than {} seconds ({}) are left until the end of the job ({})", needed,
                       name, *end);
  }
  return std::nullopt;
}

}  // namespace

JobLimits job_limits(std::string job_id, std::int64_t end, double halt_seconds) {
  constexpr double kForEver = 1e15;  // well inside of what a number of seconds can hold
  return {std::move(job_id), end, static_cast<std::int64_t>(std::min(halt_seconds, kForEver))};
}

Hash HaltConditions::to_hash() const {
  Hash hash;
  for (const NumberKey& number : kNumbers) {
    if (const auto& value = this->*number.field) hash.set_value(number.key, *value);
  }
  if (!job_id.empty()) hash.set_value(kJobId, job_id);
  if (!exit_reason.empty()) hash.set_value(kExitReason, exit_reason);
  if (immediate) hash.set_value(kImmediate, 1);
  return hash;
}

Result<HaltConditions> HaltConditions::from_hash(const Hash& hash) {
  HaltConditions conditions;
  for (const NumberKey& number : kNumbers) {
    if (!hash.contains(number.key)) continue;
    SCR_ASSIGN_OR_RETURN(const std::int64_t value, hash.require_int(number.key));
    if (value < 0) {
      return corrupt(fmt::format("key '{}' has the negative value {}", number.key, value));
    }
    conditions.*number.field = value;
  }
  if (hash.contains(kJobId)) {
    SCR_ASSIGN_OR_RETURN(conditions.job_id, hash.require_value(kJobId));
  }
  if (hash.contains(kExitReason)) {
    SCR_ASSIGN_OR_RETURN(conditions.exit_reason, hash.require_value(kExitReason));
  }
  if (hash.contains(kImmediate)) {
    SCR_ASSIGN_OR_RETURN(const std::int64_t immediate, hash.require_int(kImmediate));
    conditions.immediate = immediate != 0;
  }
  return conditions;
}

std::optional<std::string> reason_to_halt(const HaltConditions& conditions, std::int64_t now,
                                          HaltQuestion question, const JobLimits& limits) {
  const std::string& reason = conditions.exit_reason;
  if (!reason.empty() && (reason != kFinalizeCalled || question == HaltQuestion::kRelaunch)) {
    return text::escape(reason);
  }
  if (conditions.checkpoints_left && *conditions.checkpoints_left <= 0) {
    return "the number of checkpoints to write is reached (CheckpointsLeft is 0)";
  }
  if (conditions.exit_after && now > *conditions.exit_after) {
    return fmt::format("the time of ExitAfter ({}) has passed", *conditions.exit_after);
  }
  return reason_of_time(conditions, now, limits);
}

Result<HaltConditions> read_halt_file(FileSystem& fs, const At& at) {
  const auto hash = read_hash_file(fs, at);
  if (!hash.ok() && hash.status().code() == StatusCode::kNotFound) return HaltConditions();
  if (!hash.ok()) return with_remedy(hash.status());
  auto conditions = parse(*hash, at);
  return conditions.ok() ? conditions : with_remedy(conditions.status());
}

Result<HaltConditions> update_halt_file(FileSystem& fs, const At& at,
                                        const std::function<void(HaltConditions&)>& change,
                                        Status* damage) {
  Status found;
  SCR_ASSIGN_OR_RETURN(LockedHashFile file,
                       LockedHashFile::open(fs, at, LockMode::kExclusive, &found));
  const auto read = parse(file.hash(), at);
  if (found.ok()) found = read.status();
  if (!found.ok() && damage == nullptr) return with_remedy(found);
  const HaltConditions before = read.ok() ? *read : HaltConditions();
  HaltConditions after = before;
  change(after);
  if (after == before && found.ok()) return after;
  for (const NumberKey& number : kNumbers) file.hash().unset(number.key);
  file.hash().unset(kJobId);
  file.hash().unset(kExitReason);
  file.hash().unset(kImmediate);
  file.hash().merge(after.to_hash());
  SCR_RETURN_IF_ERROR(file.write(Durability::kDurable));
  if (damage != nullptr) *damage = found;
  return after;
}

// Both below look without the lock first: on most calls there is nothing to change, and a lock and
// a new file in the prefix for nothing would cost every checkpoint of every job.
Result<HaltConditions> count_checkpoint(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(HaltConditions seen, read_halt_file(fs, at));
  if (seen.checkpoints_left.value_or(0) <= 0) return seen;
  return update_halt_file(fs, at, [](HaltConditions& conditions) {
    if (conditions.checkpoints_left.value_or(0) > 0) --*conditions.checkpoints_left;
  });
}

Result<HaltConditions> clear_finalize_called(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(HaltConditions seen, read_halt_file(fs, at));
  if (seen.exit_reason != kFinalizeCalled) return seen;
  return update_halt_file(fs, at, [](HaltConditions& conditions) {
    if (conditions.exit_reason == kFinalizeCalled) conditions.exit_reason.clear();
  });
}

}  // namespace scr
