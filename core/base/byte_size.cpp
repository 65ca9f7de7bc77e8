#include "core/base/byte_size.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>

#include "core/base/text.hpp"

namespace scr {
namespace {

constexpr std::string_view kUnitLetters = "KMGTPE";
constexpr std::size_t kMaxFractionDigits = 9;

char to_upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// The bytes of one unit: "" and "B" are 1, "k", "KB", "KiB" 1024; nothing for other text.
std::optional<std::uint64_t> unit_size(std::string_view unit) {
  if (unit.empty()) return 1;
  if (unit.size() == 1 && to_upper(unit[0]) == 'B') return 1;
  const std::size_t position = kUnitLetters.find(to_upper(unit[0]));
  if (position == std::string_view::npos) return std::nullopt;
  std::string rest;
  for (const char letter : unit.substr(1)) rest += to_upper(letter);
  if (!rest.empty() && rest != "B" && rest != "IB") return std::nullopt;
  return std::uint64_t{1} << (10 * (position + 1));
}

// floor(fraction / 10^digits * unit) without rounding on the way. The fraction is below 10^9, so no
// product here exceeds 64 bits.
std::uint64_t scale_fraction(std::string_view digits, std::uint64_t unit) {
  std::uint64_t fraction = 0;
  std::uint64_t power = 1;
  for (const char digit : digits) {
    fraction = fraction * 10 + static_cast<std::uint64_t>(digit - '0');
    power *= 10;
  }
  return fraction * (unit / power) + fraction * (unit % power) / power;
}

Status bad_size(std::string_view text, std::string_view why) {
  return invalid_argument(fmt::format(
      "'{}' is not a size in bytes: {}; write a number and a unit, such as 512KB or 10GB",
      text::escape(text), why));
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  if (text.empty()) return bad_size(text, "it is empty");
  if (text.front() == '-') return bad_size(text, "it is negative");
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view whole_digits = text.substr(0, end);
  if (whole_digits.empty()) return bad_size(text, "it does not start with a digit");
  std::string_view fraction_digits;
  if (end < text.size() && text[end] == '.') {
    const std::size_t start = ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
    fraction_digits = text.substr(start, end - start);
    if (fraction_digits.empty()) return bad_size(text, "no digit follows the point");
    if (fraction_digits.size() > kMaxFractionDigits) {
      return bad_size(text, "more than nine digits follow the point");
    }
  }
  if (end + 1 < text.size() && text[end] == ' ') ++end;
  const std::optional<std::uint64_t> unit = unit_size(text.substr(end));
  if (!unit) return bad_size(text, "the unit is none of B, K, M, G, T, P, E");
  if (*unit == 1 && !fraction_digits.empty()) return bad_size(text, "a byte has no fractions");
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::optional<std::uint64_t> whole = text::parse_uint(whole_digits);
  if (!whole || *whole > kMost / *unit) return bad_size(text, "it is 2^64 or more");
  // The largest whole product leaves at least unit - 1 bytes below 2^64, so the sum cannot wrap.
  return *whole * *unit + scale_fraction(fraction_digits, *unit);
}

std::string format_byte_size(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  std::size_t power = 0;
  while (power < kUnitLetters.size() && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  if (power == 0) return fmt::format("{}", bytes);
  return fmt::format("{}{}B", bytes, kUnitLetters[power - 1]);
}

std::string approximate_byte_size(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  for (bytes /= 1000; bytes >= 999.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace scr
