#include "core/routing/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/byte_size.hpp"
#include "core/base/log.hpp"

namespace scr::routing {

void RunReport::warn_once(std::string_view what, std::string_view why) {
  if (std::find(warned_.begin(), warned_.end(), what) != warned_.end()) return;
  warned_.emplace_back(what);
  log::warning("{}: {}", what, why);
}

void RunReport::count_passed(Route::Reason reason, const std::string& absolute) {
  if (absolute == last_passed_) return;
  last_passed_ = absolute;
  count_passed(reason);
}

void RunReport::print(Communicator& world, std::string_view prefix) {
  const Counts counts = std::exchange(counts_, {});
  std::array<std::uint64_t, 4> sums = {counts.routed, counts.bytes, counts.moved, counts.past};
  world.all_reduce(sums, ReduceOp::kSum);
  std::array<std::uint64_t, 7> passed = {};
  for (const auto& [reason, count] : counts.passed)
    passed[static_cast<std::size_t>(reason)] = count;
  world.all_reduce(passed, ReduceOp::kSum);
  if (world.rank() != 0) return;
  std::string others;
  const auto add = [&](std::uint64_t count, std::string_view why) {
    if (count > 0) others += fmt::format("{}{} {}", others.empty() ? "" : ", ", count, why);
  };
  for (std::size_t i = 0; i < passed.size(); ++i)
    add(passed[i], reason_text(static_cast<Route::Reason>(i)));
  add(sums[2], "moved while open");
  add(sums[3], "by another driver of HDF5");
  if (sums[0] == 0 && others.empty()) return;
  log::notice("{} files routed ({}), {} datasets protected, {} flushed to '{}'{}{}", sums[0],
              format_byte_size(sums[1]), counts.datasets, counts.flushed, prefix,
              others.empty() ? "" : "; not routed: ", others);
}

}  // namespace scr::routing
