// The expressions of `scr_index --find`: conditions on attributes, joined by &&.
//
//   time>0.5 && units == "K" && /grid@level != 3
//
// Operators: < <= > >= == != (and = for ==). A value is a number or text; in quotes it may hold
// anything but its quote. Numbers are compared as numbers, all else as text. A dataset without the
// attribute does not fulfil a condition, whatever its operator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::tools {

enum class Comparison { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };

struct Condition {
  std::string attribute;
  Comparison comparison = Comparison::kEqual;
  std::string value;
  bool quoted = false;  // text, even if it looks like a number
  bool operator==(const Condition&) const = default;
};

// kInvalidArgument says what is wrong and where.
Result<std::vector<Condition>> parse_conditions(std::string_view text);

bool holds(const Condition& condition, const std::optional<vfd::Hdf5Value>& value);

}  // namespace scr::tools
