#include "core/routing/route_rules.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <regex>
#include <vector>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/rank_filemap.hpp"

namespace scr::routing {
namespace {

using Type = config::RouteRule::Type;

// Components without empty and "." ones, as in normalised paths.
std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  for (const std::string_view part : text::split(path, '/')) {
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

// Component by component, so that no * reaches over a slash. reached[i]: the pattern so far can
// match the first i components. Takes the product of both lengths at most, whatever the pattern.
bool match_components(const std::vector<std::string>& pattern,
                      const std::vector<std::string>& path) {
  std::vector<char> reached(path.size() + 1, 0);
  reached[0] = 1;
  for (const std::string& part : pattern) {
    if (part == "**") {
      for (std::size_t i = 1; i <= path.size(); ++i) {
        if (reached[i - 1] != 0) reached[i] = 1;
      }
      continue;
    }
    for (std::size_t i = path.size(); i > 0; --i) {
      reached[i] = reached[i - 1] != 0 && text::glob_match(part, path[i - 1]) ? 1 : 0;
    }
    reached[0] = 0;
  }
  return reached.back() != 0;
}

// False if the text before the first special character of the pattern already tells that it does
// not match: most patterns are for other places than the file, and this is asked at every open.
bool begins_alike(std::string_view pattern, std::string_view path) {
  std::string_view literal = pattern.substr(0, pattern.find_first_of("*?[\\"));
  const auto is_odd = [](std::string_view text) {
    return text.find("//") != std::string_view::npos || text.find("/.") != std::string_view::npos ||
           text.starts_with('.');
  };
  if (is_odd(literal) || is_odd(path)) return true;  // may be written in another way
  while (literal.ends_with('/')) literal.remove_suffix(1);
  return path.starts_with(literal);
}

std::string_view last_component(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// ckpt_0007.3.h5: first ".h5", which is no number, then ".3", which is one. A name keeps at least
// one character before the dot.
std::string name_without_rank(std::string_view relative) {
  const std::size_t start = relative.size() - last_component(relative).size();
  const auto last_dot = [&] {
    const std::size_t dot = relative.rfind('.');
    return dot == std::string_view::npos || dot <= start ? relative.size() : dot;
  };
  const auto after_dot = [&] { return relative.substr(std::min(last_dot() + 1, relative.size())); };
  if (!all_digits(after_dot())) relative = relative.substr(0, last_dot());
  if (all_digits(after_dot())) relative = relative.substr(0, last_dot());
  return std::string(relative);
}

// std::regex needs stack for each character and reports trouble only by throwing.
std::optional<std::string> name_by_regex(const std::string& expression, const std::string& text) {
  constexpr std::size_t kLongestText = 1024;
  if (text.size() > kLongestText) return std::nullopt;
  try {
    std::smatch match;
    if (!std::regex_search(text, match, std::regex(expression, std::regex::ECMAScript))) {
      return std::nullopt;
    }
    std::string name = match[match.size() > 1 ? 1 : 0].str();
    return name.empty() ? std::nullopt : std::optional(std::move(name));
  } catch (const std::exception&) {
    // The configuration refuses what does not compile; a match can still be too complex.
    return std::nullopt;
  }
}

// Or has a name that a file of h5scr beside it in the cache would have.
bool is_own_file(std::string_view relative) {
  return relative == ".scr" || relative.starts_with(".scr/") || relative == "scr.current" ||
         flush::is_redundancy_file_name(relative);
}

Route bypass(Route::Reason reason, std::string relative = {}) {
  Route route;
  route.reason = reason;
  route.relative = std::move(relative);
  return route;
}

}  // namespace

std::string_view reason_text(Route::Reason reason) {
  switch (reason) {
    case Route::Reason::kDefault:
      return "it is below SCR_PREFIX, and there are no ROUTE rules";
    case Route::Reason::kRule:
      return "a ROUTE rule says so";
    case Route::Reason::kNoRule:
      return "no ROUTE rule matches it";
    case Route::Reason::kOutsidePrefix:
      return "it is not below SCR_PREFIX";
    case Route::Reason::kOwnFile:
      return "it is a file of h5scr itself";
    case Route::Reason::kUnsafeName:
      return "its name has control characters or is too long";
    case Route::Reason::kHint:
      return "a hint of MPI-IO says so";
  }
  return "";
}

bool matches(std::string_view pattern, std::string_view prefix, std::string_view path) {
  if (pattern.starts_with('/')) {
    return begins_alike(pattern, path) && match_components(components(pattern), components(path));
  }
  if (pattern.find('/') == std::string_view::npos) {
    return pattern == "**" ||
           text::glob_match(std::string(pattern), std::string(last_component(path)));
  }
  const std::optional<std::string> relative = relative_to(path, prefix);
  return relative && begins_alike(pattern, *relative) &&
         match_components(components(pattern), components(*relative));
}

Route decide(std::span<const config::RouteRule> rules, std::string_view prefix,
             std::string_view path) {
  std::optional<std::string> relative = relative_to(path, prefix);
  if (!relative || *relative == ".") return bypass(Route::Reason::kOutsidePrefix);
  if (is_own_file(*relative)) return bypass(Route::Reason::kOwnFile, *relative);
  if (!safe_relative_path(*relative).ok()) return bypass(Route::Reason::kUnsafeName, *relative);
  Route route;
  route.relative = *std::move(relative);
  if (rules.empty()) {
    route.type = Type::kCheckpoint;
    route.keep_all = true;
    route.reason = Route::Reason::kDefault;
    return route;
  }
  for (const config::RouteRule& rule : rules) {
    if (!matches(rule.pattern, prefix, path)) continue;
    route.type = rule.type;
    route.keep_all = rule.type == Type::kOutput;
    route.reason = Route::Reason::kRule;
    route.rule = &rule;
    return route;
  }
  return bypass(Route::Reason::kNoRule, std::move(route.relative));
}

std::string dataset_name(const config::RouteRule* rule, std::string_view relative) {
  if (rule != nullptr && rule->dataset) {
    if (auto name = name_by_regex(*rule->dataset, std::string(relative))) return *std::move(name);
  }
  return name_without_rank(relative);
}

}  // namespace scr::routing
