// The grammar of configuration text, for files and for SCR_Config.
//
//   line    = blanks [ word { blanks word } ] [ blanks comment ]
//   word    = name "=" value          name: letters, digits and _, not starting with a digit
//   value   = { character | quoted }  ends at a blank
//   quoted  = '"' ... '"'  variables are replaced        | "'" ... "'"  nothing is replaced
//   comment = "#" at the start of a word, up to the end of the line
//
// $NAME and ${NAME} stand for a variable of the environment, which must be set; a $ before anything
// else is itself. A backslash takes the meaning from a following " ' \ $ # or blank, and is itself
// before anything else, so that regular expressions need few of them.
//
// The parser knows no parameters: it turns text into Settings, and any text is safe to give it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/config_sources.hpp"
#include "core/base/status.hpp"

namespace scr::config {

struct Word {
  std::string name;
  bool has_value = false;  // false: there was no "="
  std::string value = {};
};

// One line: a parameter, or a descriptor with its fields.
struct Setting {
  std::string name;
  std::string value;
  std::vector<Word> fields = {};
  Origin origin = {};
};

struct ParsedText {
  std::vector<Setting> settings;
  std::vector<std::string> errors;  // each begins with "<file>:<line>: "
};

// All lines; those with errors are left out of the settings.
ParsedText parse_text(const SourceFile& file, Source source, const Environment& environment);

// The words of one line, none if it is blank or a comment.
Result<std::vector<Word>> parse_line(std::string_view line, const Environment& environment);

// The text with $NAME, ${NAME} and \$ replaced; quotes have no meaning.
Result<std::string> expand_variables(std::string_view text, const Environment& environment);

// A line that parse_text reads back, with quotes where they are needed.
std::string print_setting(const Setting& setting);
std::string quote_value(std::string_view value);

// The name (letters, digits, _) that `text` starts with; empty if there is none.
std::string_view leading_name(std::string_view text);

}  // namespace scr::config
