// Values of parameters and descriptor fields: their types, how they are read and how printed.
//
// A ValueSpec says what a value may be; parse_value turns text into a typed Value or an error that
// tells what was expected; print_value gives the text back in its one canonical spelling, which
// parse_value reads again. Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/status.hpp"

namespace scr::config {

enum class ValueType {
  kBool,     // 0 or 1; also no/yes, off/on, false/true
  kInt,      // whole number, may be negative
  kUint,     // whole number from 0
  kBytes,    // size with a unit, see byte_size.hpp
  kSeconds,  // number of seconds from 0, may have a fraction
  kPercent,  // number from 0 to 100, may have a fraction and a % sign
  kWord,     // one of ValueSpec::words, in any letter case
  kString,   // any text on one line
  kName,     // text that can be one component of a path: no '/', not "." or ".."
  kPath,     // path of a file or directory
  kRegex,    // ECMAScript regular expression
  kGlob,     // shell pattern
};

struct ValueSpec {
  ValueType type = ValueType::kString;
  // Range of kInt, kUint and kBytes, both ends allowed.
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  // Words of kWord.
  std::vector<std::string_view> words = {};
  bool absolute = false;       // kPath: must start with '/'
  bool empty_allowed = false;  // empty text is a value ("not set"); never an error
};

// bool for kBool, int64 for kInt, uint64 for kUint and kBytes, double for kSeconds and kPercent,
// string for all others.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

// The message starts with the text in quotes and says what was expected: "'x' is not a whole number
// from 0 to 9". Paths lose repeated and trailing slashes.
Result<Value> parse_value(const ValueSpec& spec, std::string_view text);
std::string print_value(const ValueSpec& spec, const Value& value);

// What may be written, for messages and documentation: "0 or 1", "one of SYNC, PTHREAD, DAEMON".
std::string describe(const ValueSpec& spec);

// An absolute or relative path without repeated slashes, "." components and a slash at the end.
std::string normalize_path(std::string_view path);

}  // namespace scr::config
