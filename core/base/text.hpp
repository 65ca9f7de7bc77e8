// Small text helpers: escaping for terminals, splitting, strict number parsing, name suggestions.
//
// Pure functions without state; safe from any thread. Views returned point into the argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scr::text {

// The text with every byte that could drive a terminal written as \xNN: control characters (also
// the C1 ones of Unicode and the marks that reorder text), and bytes that are not valid UTF-8.
// Other text, also beyond ASCII, stays as it is.
std::string escape(std::string_view text);

// The pieces between separators: always one more than there are separators, so "" gives one empty
// piece.
std::vector<std::string_view> split(std::string_view text, char separator);

// Without the spaces, tabs and line ends around it.
std::string_view trim(std::string_view text);

// A decimal number that fills the whole text and fits the type; nothing else passes: no blanks, no
// "+", no "0x", no digits after the number. "-0" is an int; a uint has no sign.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<std::uint64_t> parse_uint(std::string_view text);
// The same for a finite decimal fraction ("0.5", "1e-3"), whatever the locale.
std::optional<double> parse_double(std::string_view text);

// Shell pattern with * ? [...] and \ over the whole text; * matches slashes too.
bool glob_match(const std::string& pattern, const std::string& text);

// For "did you mean": the candidates a few slips of typing away from `word`, nearest first, at
// most `most` of them. Letter case costs little; candidates that share too little are left out.
std::vector<std::string> nearest_names(std::string_view word,
                                       std::span<const std::string_view> candidates,
                                       std::size_t most);

// The pieces with `separator` between them.
std::string join(std::span<const std::string> pieces, std::string_view separator);
std::string join(std::span<const std::string_view> pieces, std::string_view separator);

}  // namespace scr::text
