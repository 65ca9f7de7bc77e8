// Fuzzes the event log as scr_report reads it: every line is an event or counted as unreadable, and
// times are numbers in order.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "tools/report/run_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const scr::tools::RunLog log =
      scr::tools::parse_run_log({reinterpret_cast<const char*>(data), size});
  if (log.unreadable > log.lines || log.events.size() > log.lines) std::abort();
  for (const auto& event : log.events) {
    if (!std::isfinite(event.start) || !std::isfinite(event.end)) std::abort();
    if (event.end < event.start) std::abort();
    if (event.bandwidth() && !(*event.bandwidth() >= 0)) std::abort();
  }
  for (const auto& run : log.runs) {
    if (!std::isfinite(run.start) || !std::isfinite(run.end)) std::abort();
  }
  if (log.failures() > log.lines) std::abort();
  const auto one = log.only_job(log.last_job());
  if (one.events.size() > log.events.size()) std::abort();
  (void)log.nodes();
  return 0;
}
