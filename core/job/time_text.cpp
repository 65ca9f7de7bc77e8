#include "core/job/time_text.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <limits>
#include <optional>

#include "core/base/text.hpp"

namespace scr::job {
namespace {

constexpr std::int64_t kLatest = std::int64_t{1} << 40U;  // far beyond any clock's use
constexpr int kHoursOfDay = 24;

std::optional<std::int64_t> parse_distance(std::string_view text) {
  constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits = {
      {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
  std::int64_t unit = 1;
  for (const auto& [letter, seconds] : kUnits) {
    if (!text.ends_with(letter)) continue;
    unit = seconds;
    text.remove_suffix(1);
    break;
  }
  const auto number = text::parse_uint(text);
  if (!number || *number > static_cast<std::uint64_t>(kLatest / unit)) return std::nullopt;
  return static_cast<std::int64_t>(*number) * unit;
}

// "15:30", "15:30:10", "3pm", "3:30 PM" as hour, minute, second.
bool parse_clock(std::string_view text, std::tm& time) {
  int add = 0;
  bool twelve = false;
  std::string lower(text::trim(text));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower.ends_with("am") || lower.ends_with("pm")) {
    twelve = true;
    add = lower.ends_with("pm") ? kHoursOfDay / 2 : 0;
    lower.resize(lower.size() - 2);
  }
  const auto pieces = text::split(text::trim(lower), ':');
  if (pieces.size() > 3 || (pieces.size() < 2 && !twelve)) return false;
  std::array<std::uint64_t, 3> values{};
  constexpr std::array<std::uint64_t, 3> kLimits = {kHoursOfDay, 60, 60};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto value = pieces[i].size() <= 2 ? text::parse_uint(pieces[i]) : std::nullopt;
    if (!value || *value >= kLimits.at(i)) return false;
    values.at(i) = *value;
  }
  if (twelve && (values[0] < 1 || values[0] > kHoursOfDay / 2)) return false;
  if (twelve) values[0] = values[0] % (kHoursOfDay / 2) + static_cast<std::uint64_t>(add);
  time.tm_hour = static_cast<int>(values[0]);
  time.tm_min = static_cast<int>(values[1]);
  time.tm_sec = static_cast<int>(values[2]);
  return true;
}

int days_of(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : kDays.at(static_cast<std::size_t>(month) - 1);
}

// mktime() would take a day that the month does not have for one of the next month.
bool parse_date(std::string_view text, std::tm& time) {
  const auto pieces = text::split(text, '-');
  if (pieces.size() != 3) return false;
  const auto year = text::parse_uint(pieces[0]);
  const auto month = text::parse_uint(pieces[1]);
  const auto day = text::parse_uint(pieces[2]);
  if (!year || *year < 1970 || *year > 9999 || !month || *month < 1 || *month > 12) return false;
  const int days = days_of(static_cast<int>(*year), static_cast<int>(*month));
  if (!day || *day < 1 || *day > static_cast<std::uint64_t>(days)) return false;
  time.tm_year = static_cast<int>(*year) - 1900;
  time.tm_mon = static_cast<int>(*month) - 1;
  time.tm_mday = static_cast<int>(*day);
  return true;
}

std::optional<std::int64_t> parse_any(std::string_view text, std::int64_t now) {
  if (text.starts_with('@')) {
    const auto seconds = text::parse_uint(text.substr(1));
    if (!seconds || *seconds > static_cast<std::uint64_t>(kLatest)) return std::nullopt;
    return static_cast<std::int64_t>(*seconds);
  }
  if (text.starts_with('+')) {
    const auto distance = parse_distance(text.substr(1));
    return distance ? std::optional(now + *distance) : std::nullopt;
  }
  std::tm time{};
  const std::time_t start = now;
  ::localtime_r(&start, &time);
  time.tm_hour = time.tm_min = time.tm_sec = 0;
  time.tm_isdst = -1;
  if (const std::size_t end = text.find_first_of("T "); parse_date(text.substr(0, end), time)) {
    if (end != std::string_view::npos && !parse_clock(text.substr(end + 1), time)) {
      return std::nullopt;
    }
    return std::mktime(&time);
  }
  if (!parse_clock(text, time)) return std::nullopt;
  std::tm tomorrow = time;
  const std::int64_t today = std::mktime(&time);
  if (today > now) return today;
  ++tomorrow.tm_mday;
  return std::mktime(&tomorrow);
}

}  // namespace

Result<std::int64_t> parse_time(std::string_view text, std::int64_t now) {
  if (const auto time = parse_any(text::trim(text), now)) return *time;
  return invalid_argument(fmt::format(
      "'{}' is not a time; write for example 15:30, '2026-03-01 15:30', +90m or @SECONDS",
      text::escape(text)));
}

std::string format_time(std::int64_t time) {
  std::tm parts{};
  const std::time_t seconds = time;
  if (::localtime_r(&seconds, &parts) == nullptr) return fmt::format("@{}", time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace scr::job
