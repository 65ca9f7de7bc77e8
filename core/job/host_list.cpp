#include "core/job/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/base/text.hpp"

namespace scr::job {
namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostDigits = 18;  // fits 64 bits

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_separator(char c) { return c == ',' || std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

// Text for a message: short and harmless.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  return text::escape(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

Status bad_list(std::string_view item, std::string_view why) {
  return invalid_argument(fmt::format("'{}' is not a list of hosts: {}", shown(item), why));
}

// "5-7" or "003".
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;  // digits, with leading zeros

  std::uint64_t count() const { return last - first + 1; }
  std::size_t most_digits() const { return std::max(width, std::to_string(last).size()); }
};

Result<Range> parse_range(std::string_view text, std::string_view item) {
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  for (std::string_view number : {first, last}) {
    if (number.empty() || !std::all_of(number.begin(), number.end(), is_digit)) {
      return bad_list(item, fmt::format("'{}' in the brackets is no number or range", shown(text)));
    }
    if (number.size() > kMostDigits) return bad_list(item, "a number is too long");
  }
  const bool padded = first.size() > 1 && first.front() == '0';
  if (last.size() > 1 && last.front() == '0' && first.size() != last.size()) {
    return bad_list(
        item, fmt::format("the ends of the range '{}' have different leading zeros", shown(text)));
  }
  Range range{*text::parse_uint(first), *text::parse_uint(last), padded ? first.size() : 0};
  if (range.last < range.first) {
    return bad_list(item, fmt::format("the range '{}' goes backwards", shown(text)));
  }
  return range;
}

// A name with its brackets: text before each bracket, and the text after the last.
struct Pattern {
  std::vector<std::pair<std::string, std::vector<Range>>> groups;
  std::string tail;
};

Result<Pattern> parse_item(std::string_view item) {
  Pattern pattern;
  std::string_view rest = item;
  for (;;) {
    const std::size_t open = rest.find('[');
    const std::string_view name = rest.substr(0, open);
    if (!std::all_of(name.begin(), name.end(), is_name_character)) {
      return bad_list(item, "only letters, digits, '.', '_' and '-' can be in a name");
    }
    if (open == std::string_view::npos) {
      pattern.tail = name;
      break;
    }
    const std::size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return bad_list(item, "a bracket is not closed");
    std::vector<Range> ranges;
    for (std::string_view piece : text::split(rest.substr(open + 1, close - open - 1), ',')) {
      SCR_ASSIGN_OR_RETURN(const Range range, parse_range(text::trim(piece), item));
      ranges.push_back(range);
    }
    pattern.groups.emplace_back(name, std::move(ranges));
    rest.remove_prefix(close + 1);
  }
  const std::string_view start = pattern.groups.empty() ? item : pattern.groups.front().first;
  if (start.starts_with('-')) return bad_list(item, "a name cannot start with '-'");
  return pattern;
}

Status too_many(std::string_view item) {
  return invalid_argument(
      fmt::format("'{}' names more than {} hosts, which no machine has", shown(item), kMostHosts));
}

// How many names a pattern gives, or nothing if that is more than `most`.
std::optional<std::size_t> count_names(const Pattern& pattern, std::size_t most) {
  std::uint64_t product = 1;
  for (const auto& [name, ranges] : pattern.groups) {
    std::uint64_t sum = 0;
    for (const Range& range : ranges) {
      if (range.count() > most) return std::nullopt;
      sum += range.count();
      if (sum > most) return std::nullopt;
    }
    product *= sum;  // both are kMostHosts at most
    if (product > most) return std::nullopt;
  }
  return product > most ? std::nullopt : std::optional<std::size_t>(product);
}

// Of the longest name that a pattern gives. Each bracket adds a digit or more, so that this also
// says how deep add_names() goes.
std::size_t longest_name(const Pattern& pattern) {
  std::size_t length = pattern.tail.size();
  for (const auto& [name, ranges] : pattern.groups) {
    std::size_t digits = 0;
    for (const Range& range : ranges) digits = std::max(digits, range.most_digits());
    length += name.size() + digits;
  }
  return length;
}

void add_names(const Pattern& pattern, std::size_t group, const std::string& start, Hosts& hosts) {
  if (group == pattern.groups.size()) {
    hosts.push_back(start + pattern.tail);
    return;
  }
  const auto& [name, ranges] = pattern.groups[group];
  for (const Range& range : ranges) {
    for (std::uint64_t n = range.first; n <= range.last; ++n) {
      add_names(pattern, group + 1, start + name + fmt::format("{:0{}}", n, range.width), hosts);
    }
  }
}

// Items between commas and blanks that are outside brackets.
Result<std::vector<std::string_view>> split_items(std::string_view list) {
  std::vector<std::string_view> items;
  std::size_t start = 0;
  bool in_brackets = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const bool at_end = i == list.size();
    if (!at_end && list[i] == '[') {
      if (in_brackets) return bad_list(list, "a bracket is inside another");
      in_brackets = true;
    } else if (!at_end && list[i] == ']') {
      if (!in_brackets) return bad_list(list, "a bracket is closed that was not opened");
      in_brackets = false;
    } else if (at_end || (!in_brackets && is_separator(list[i]))) {
      if (i > start) items.push_back(list.substr(start, i - start));
      start = i + 1;
    }
  }
  if (in_brackets) return bad_list(list, "a bracket is not closed");
  return items;
}

// A host name cut at its number: the last digits before the domain.
struct Numbered {
  std::string before;
  std::string digits;  // empty: it has no number, or one that is too long
  std::string after;
};

Numbered cut_at_number(const std::string& host) {
  const std::size_t domain = std::min(host.find('.'), host.size());
  const auto begin = host.begin();
  auto end = begin + static_cast<std::ptrdiff_t>(domain);
  while (end != begin && !is_digit(end[-1])) --end;
  auto first = end;
  while (first != begin && is_digit(first[-1])) --first;
  if (first == end || static_cast<std::size_t>(end - first) > kMostDigits) return {host, "", ""};
  return {{begin, first}, {first, end}, {end, host.end()}};
}

std::string compress_numbers(std::vector<std::uint64_t> numbers, std::size_t width) {
  std::stable_sort(numbers.begin(), numbers.end());
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < numbers.size(); ++count) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += fmt::format("{}{:0{}}", text.empty() ? "" : ",", numbers[i], width);
    if (j > i) text += fmt::format("-{:0{}}", numbers[j], width);
    i = j + 1;
  }
  return numbers.size() > 1 ? "[" + text + "]" : text;
}

}  // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

Result<Hosts> expand_hosts(std::string_view list) {
  SCR_ASSIGN_OR_RETURN(const auto items, split_items(list));
  Hosts hosts;
  for (std::string_view item : items) {
    SCR_ASSIGN_OR_RETURN(const Pattern pattern, parse_item(item));
    const auto count = count_names(pattern, kMostHosts - hosts.size());
    if (!count) return too_many(item);
    if (longest_name(pattern) > kLongestName) return bad_list(item, "a name is too long");
    hosts.reserve(hosts.size() + *count);
    add_names(pattern, 0, "", hosts);
  }
  return hosts;
}

std::string compress_hosts(std::span<const std::string> hosts) {
  using Ends = std::pair<std::string, std::string>;
  std::vector<Numbered> cut;
  std::map<Ends, std::set<std::size_t>> widths;  // of numbers with leading zeros
  for (const std::string& host : hosts) {
    const Numbered& name = cut.emplace_back(cut_at_number(host));
    if (name.digits.size() > 1 && name.digits.front() == '0') {
      widths[{name.before, name.after}].insert(name.digits.size());
    }
  }
  struct Group {
    Ends ends;
    std::size_t width;
    std::vector<std::uint64_t> numbers;
    std::size_t plain;  // hosts without a number
  };
  std::vector<Group> groups;
  std::map<std::pair<Ends, std::size_t>, std::size_t> known;
  for (const Numbered& name : cut) {
    const Ends ends{name.before, name.after};
    const bool padded = widths.contains(ends) && widths[ends].contains(name.digits.size());
    const std::size_t width = padded ? name.digits.size() : 0;
    const auto [found, added] = known.try_emplace({ends, width}, groups.size());
    if (added) groups.push_back({ends, width, {}, 0});
    Group& group = groups[found->second];
    if (name.digits.empty()) {
      ++group.plain;
    } else {
      group.numbers.push_back(*text::parse_uint(name.digits));
    }
  }
  Hosts pieces;
  for (const Group& group : groups) {
    pieces.insert(pieces.end(), group.plain, group.ends.first);
    if (group.numbers.empty()) continue;
    pieces.push_back(group.ends.first + compress_numbers(group.numbers, group.width) +
                     group.ends.second);
  }
  return text::join(std::span<const std::string>(pieces), ",");
}

namespace {

Hosts filtered(std::span<const std::string> hosts, std::span<const std::string> others,
               bool in_both) {
  const std::unordered_set<std::string_view> set(others.begin(), others.end());
  Hosts result;
  for (const std::string& host : hosts) {
    if (set.contains(host) == in_both) result.push_back(host);
  }
  return result;
}

// The dots of an address part no domain from a name.
bool is_address(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string_view without_domain(std::string_view host) {
  return is_address(host) ? host : host.substr(0, host.find('.'));
}

bool is_loopback(std::string_view host) {
  return without_domain(host) == "localhost" || (is_address(host) && host.starts_with("127."));
}

}  // namespace

Hosts hosts_minus(std::span<const std::string> hosts, std::span<const std::string> others) {
  return filtered(hosts, others, false);
}

Hosts hosts_in_both(std::span<const std::string> hosts, std::span<const std::string> others) {
  return filtered(hosts, others, true);
}

Hosts unique_hosts(std::span<const std::string> hosts) {
  std::unordered_set<std::string_view> seen;
  Hosts result;
  for (const std::string& host : hosts) {
    if (seen.insert(host).second) result.push_back(host);
  }
  return result;
}

bool contains_host(std::span<const std::string> hosts, std::string_view host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

std::string name_in_list(std::span<const std::string> hosts, std::string_view host) {
  if (contains_host(hosts, host)) return std::string(host);
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const std::string& other) {
    // Two full names with different domains are two hosts.
    const bool both_full = other.find('.') != std::string::npos && host.find('.') != host.npos;
    return !both_full && without_domain(other) == without_domain(host);
  });
  return found == hosts.end() ? "" : *found;
}

std::string own_name_in_list(std::span<const std::string> hosts, std::string_view own) {
  if (std::string name = name_in_list(hosts, own); !name.empty()) return name;
  const auto found = std::find_if(hosts.begin(), hosts.end(), is_loopback);
  return found == hosts.end() ? "" : *found;
}

}  // namespace scr::job
