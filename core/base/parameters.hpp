// The one table of all parameters.
//
// Reading, defaults, printing, documentation (docs/parameters.md) and the check of names in files
// and in the environment all come from this table; nothing else in h5scr lists parameters. The
// table is constant; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config_value.hpp"

namespace scr::config {

enum class SetBy {
  kAnyone,           // environment, user file, SCR_Config, system file
  kSystemFirst,      // once the system file sets it, users cannot override it
  kEnvironmentOnly,  // read before any file is
};

struct Parameter {
  std::string_view name;
  ValueSpec spec;
  // In the form of a file. Empty if the default is computed (see default_note) or "not set".
  std::string_view default_text;
  // One sentence.
  std::string_view description;
  // Where the default is not a fixed value: what it is, in words.
  std::string_view default_note = {};
  // Default of programs that do not call SCR_*, where it differs.
  std::string_view transparent_default = {};
  SetBy set_by = SetBy::kAnyone;
};

// All parameters, by subject, in the order of the documentation.
std::span<const Parameter> parameters();

// nullptr if there is no such parameter.
const Parameter* find_parameter(std::string_view name);

// Variables that begin with SCR_ and are no parameters, yet no mistake either.
bool is_other_known_variable(std::string_view name);

// "; did you mean SCR_FLUSH?" with the names nearest to `word`, or "" if none is near.
std::string suggest_names(std::string_view word, std::span<const std::string_view> candidates);

// Names of all parameters, in the order of the table.
std::span<const std::string_view> parameter_names();

}  // namespace scr::config
