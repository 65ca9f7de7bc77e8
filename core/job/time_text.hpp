// Times as users write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace scr::job {

// Seconds since the epoch of "@SECONDS"; "+90", "+10m", "+2h", "+1d" from now; "15:30", "3:30pm"
// (the next time that the clock shows it); "2026-03-01", "2026-03-01 15:30[:00]", also with "T".
// Times are local.
Result<std::int64_t> parse_time(std::string_view text, std::int64_t now);

// "2026-03-01T15:30:00", local.
std::string format_time(std::int64_t time);

}  // namespace scr::job
