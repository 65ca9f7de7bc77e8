#include "flush/rank_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/text.hpp"

namespace scr::flush {

namespace {

std::optional<int> parse_rank(std::string_view text) {
  const auto number = text::parse_uint(text);
  if (!number || *number >= std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

void RankRanges::add(int first, int last) {
  // Every range that touches the new one becomes part of it.
  auto next = ranges_.upper_bound(first);
  if (next != ranges_.begin() && std::prev(next)->second >= first - 1) --next;
  while (next != ranges_.end() && next->first <= last + 1) {
    first = std::min(first, next->first);
    last = std::max(last, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(first, last);
}

bool RankRanges::contains(int rank) const {
  const auto next = ranges_.upper_bound(rank);
  return next != ranges_.begin() && std::prev(next)->second >= rank;
}

std::uint64_t RankRanges::count() const {
  std::uint64_t count = 0;
  for (const auto& [first, last] : ranges_) count += static_cast<std::uint64_t>(last - first) + 1;
  return count;
}

std::string RankRanges::to_text() const {
  std::string text;
  for (const auto& [first, last] : ranges_) {
    if (!text.empty()) text += ',';
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

Result<RankRanges> RankRanges::from_text(std::string_view text) {
  RankRanges ranges;
  if (text.empty()) return ranges;
  for (const std::string_view part : text::split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_rank(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_rank(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return invalid_argument(
          fmt::format("'{}' is no list of ranks like 0-3,7", text::escape(text)));
    }
    ranges.add(*first, *last);
  }
  return ranges;
}

}  // namespace scr::flush
