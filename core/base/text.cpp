#include "core/base/text.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace scr::text {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0U) == 0x80U; }

// Length of a UTF-8 sequence from its first byte; 0 if no sequence starts with it.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // 0: the text does not start with a valid character
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = sequence_length(byte(0));
  if (length == 0 || length > text.size()) return {};
  if (length == 1) return {byte(0), 1};
  char32_t code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

bool is_safe_on_a_terminal(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  const bool reorders_text = code == 0x061C || code == 0x200E || code == 0x200F ||
                             (code >= 0x2028 && code <= 0x202E) ||
                             (code >= 0x2066 && code <= 0x2069);
  return !reorders_text;
}

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Costs are in eighths of a slip, so that another letter case weighs far less than another letter.
constexpr std::size_t kSlip = 8;

std::size_t substitution_cost(char a, char b) {
  if (a == b) return 0;
  return lower(a) == lower(b) ? 1 : kSlip;
}

// Edit distance with swaps of neighbours: three rows of the usual table.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j * kSlip;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i * kSlip;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + kSlip, row[j - 1] + kSlip,
                         above[j - 1] + substitution_cost(a[i - 1], b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + kSlip);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

template <typename Piece>
std::string join_pieces(std::span<const Piece> pieces, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) joined += separator;
    joined += pieces[i];
  }
  return joined;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    if (character.length > 0 && is_safe_on_a_terminal(character.code)) {
      escaped += text.substr(0, length);
    } else {
      for (const char c : text.substr(0, length)) {
        escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(length);
  }
  return escaped;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_uint(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  const auto value = parse_whole<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

bool glob_match(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

std::vector<std::string> nearest_names(std::string_view word,
                                       std::span<const std::string_view> candidates,
                                       std::size_t most) {
  // A third of the word may be wrong, but at least one slip is forgiven.
  const std::size_t limit = std::max<std::size_t>(kSlip, word.size() * kSlip / 3);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const bool shares_a_letter = distance < std::max(word.size(), candidate.size()) * kSlip;
    if (distance <= limit && shares_a_letter) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), most));
  std::vector<std::string> names;
  names.reserve(near.size());
  for (const auto& [distance, name] : near) names.emplace_back(name);
  return names;
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  return join_pieces(pieces, separator);
}

std::string join(std::span<const std::string_view> pieces, std::string_view separator) {
  return join_pieces(pieces, separator);
}

}  // namespace scr::text
