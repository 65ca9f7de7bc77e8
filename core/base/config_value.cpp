#include "core/base/config_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>

#include "core/base/byte_size.hpp"
#include "core/base/text.hpp"

namespace scr::config {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
// Long patterns can exhaust the stack of std::regex, nobody writes them by hand.
constexpr std::size_t kMaxRegexLength = 256;
constexpr double kMaxSeconds = 1e10;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

Status not_a(const ValueSpec& spec, std::string_view text) {
  return invalid_argument(fmt::format("'{}' is not {}", text::escape(text), describe(spec)));
}

Result<Value> parse_bool(const ValueSpec& spec, std::string_view text) {
  const std::string word = lower(text);
  for (const std::string_view yes : {"1", "yes", "on", "true"}) {
    if (word == yes) return Value(true);
  }
  for (const std::string_view no : {"0", "no", "off", "false"}) {
    if (word == no) return Value(false);
  }
  return not_a(spec, text);
}

Result<Value> parse_int(const ValueSpec& spec, std::string_view text) {
  const std::optional<std::int64_t> number = text::parse_int(text);
  if (!number || *number < spec.min || *number > spec.max) return not_a(spec, text);
  return Value(*number);
}

bool in_range(const ValueSpec& spec, std::uint64_t number) {
  return number >= static_cast<std::uint64_t>(spec.min) &&
         number <= static_cast<std::uint64_t>(spec.max);
}

Result<Value> parse_uint(const ValueSpec& spec, std::string_view text) {
  const std::optional<std::uint64_t> number = text::parse_uint(text);
  if (!number || !in_range(spec, *number)) return not_a(spec, text);
  return Value(*number);
}

Result<Value> parse_bytes(const ValueSpec& spec, std::string_view text) {
  SCR_ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_byte_size(text));
  if (!in_range(spec, bytes)) return not_a(spec, text);
  return Value(bytes);
}

Result<Value> parse_real(const ValueSpec& spec, std::string_view text, double max) {
  std::string_view digits = text;
  if (spec.type == ValueType::kPercent && digits.ends_with('%')) digits.remove_suffix(1);
  const std::optional<double> number = text::parse_double(digits);
  if (!number || !(*number >= 0) || *number > max) return not_a(spec, text);
  return Value(*number + 0.0);  // "-0" becomes 0
}

Result<Value> parse_word(const ValueSpec& spec, std::string_view text) {
  for (const std::string_view word : spec.words) {
    if (lower(word) == lower(text)) return Value(std::string(word));
  }
  return not_a(spec, text);
}

Result<Value> parse_name(const ValueSpec& spec, std::string_view text) {
  const bool one_component =
      text.find('/') == std::string_view::npos && text != "." && text != "..";
  if (text.empty() || text.size() > 255 || !one_component) return not_a(spec, text);
  return Value(std::string(text));
}

Result<Value> parse_path(const ValueSpec& spec, std::string_view text) {
  if (text.empty() || (spec.absolute && text.front() != '/')) return not_a(spec, text);
  return Value(normalize_path(text));
}

Result<Value> parse_regex(std::string_view text) {
  if (text.empty() || text.size() > kMaxRegexLength) {
    return invalid_argument(fmt::format("'{}' is not a regular expression of 1 to {} characters",
                                        text::escape(text.substr(0, 40)), kMaxRegexLength));
  }
  try {
    const std::regex compiled(text.begin(), text.end(), std::regex::ECMAScript);
    return Value(std::string(text));
  } catch (const std::exception& error) {  // std::regex reports errors in no other way
    return invalid_argument(
        fmt::format("'{}' is not a regular expression: {}", text::escape(text), error.what()));
  }
}

Result<Value> parse_glob(const ValueSpec& spec, std::string_view text) {
  bool bracket_open = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '[')
      bracket_open = true;
    else if (text[i] == ']')
      bracket_open = false;
  }
  if (text.empty() || bracket_open) return not_a(spec, text);
  return Value(std::string(text));
}

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte < 0x20 || byte == 0x7f;
  });
}

std::string range_words(const ValueSpec& spec, bool bytes) {
  const auto word = [&](std::int64_t limit) {
    return bytes ? format_byte_size(static_cast<std::uint64_t>(limit)) : std::to_string(limit);
  };
  if (spec.max == kNoLimit) return fmt::format("from {}", word(spec.min));
  return fmt::format("from {} to {}", word(spec.min), word(spec.max));
}

}  // namespace

std::string normalize_path(std::string_view path) {
  std::string normal = std::filesystem::path(path).lexically_normal().native();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

Result<Value> parse_value(const ValueSpec& spec, std::string_view text) {
  if (text.empty() && spec.empty_allowed) return Value(std::string());
  if (!is_one_line(text)) {
    return invalid_argument(
        fmt::format("'{}' has control characters; remove them", text::escape(text)));
  }
  switch (spec.type) {
    case ValueType::kBool:
      return parse_bool(spec, text);
    case ValueType::kInt:
      return parse_int(spec, text);
    case ValueType::kUint:
      return parse_uint(spec, text);
    case ValueType::kBytes:
      return parse_bytes(spec, text);
    case ValueType::kSeconds:
      return parse_real(spec, text, kMaxSeconds);
    case ValueType::kPercent:
      return parse_real(spec, text, 100);
    case ValueType::kWord:
      return parse_word(spec, text);
    case ValueType::kName:
      return parse_name(spec, text);
    case ValueType::kPath:
      return parse_path(spec, text);
    case ValueType::kRegex:
      return parse_regex(text);
    case ValueType::kGlob:
      return parse_glob(spec, text);
    case ValueType::kString:
      return Value(std::string(text));
  }
  return internal_error("parse_value: unknown type");
}

std::string print_value(const ValueSpec& spec, const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const std::uint64_t number = std::get<std::uint64_t>(value);
  return spec.type == ValueType::kBytes ? format_byte_size(number) : std::to_string(number);
}

std::string describe(const ValueSpec& spec) {
  switch (spec.type) {
    case ValueType::kBool:
      return "0 or 1";
    case ValueType::kInt:
    case ValueType::kUint:
      return "a whole number " + range_words(spec, false);
    case ValueType::kBytes:
      return "a size in bytes " + range_words(spec, true);
    case ValueType::kSeconds:
      return "a number of seconds from 0";
    case ValueType::kPercent:
      return "a percentage from 0 to 100";
    case ValueType::kWord:
      return "one of " + text::join(std::span<const std::string_view>(spec.words), ", ");
    case ValueType::kString:
      return "text";
    case ValueType::kName:
      return "a name without '/'";
    case ValueType::kPath:
      return spec.absolute ? "an absolute path" : "a path";
    case ValueType::kRegex:
      return "a regular expression";
    case ValueType::kGlob:
      return "a file name pattern with balanced brackets";
  }
  return "";
}

}  // namespace scr::config
