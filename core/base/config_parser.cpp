#include "core/base/config_parser.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.hpp"

namespace scr::config {
namespace {

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

bool is_letter(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') || letter == '_';
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// For messages: long text is cut, control characters are made visible.
std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return fmt::format("'{}'", text::escape(text));
  return fmt::format("'{}...'", text::escape(text.substr(0, kLongest)));
}

// Reads a line from left to right; `rest_` is what is left.
class LineScanner {
 public:
  LineScanner(std::string_view line, const Environment& environment)
      : rest_(line), environment_(environment) {}

  Result<std::vector<Word>> words() {
    std::vector<Word> result;
    for (skip_blanks(); !rest_.empty() && rest_.front() != '#'; skip_blanks()) {
      SCR_ASSIGN_OR_RETURN(Word word, read_word());
      result.push_back(std::move(word));
    }
    return result;
  }

  // Everything to the end as one value without quotes.
  Result<std::string> expanded() {
    std::string value;
    while (!rest_.empty()) {
      if (rest_.front() == '$')
        SCR_RETURN_IF_ERROR(read_variable(value));
      else if (rest_.starts_with("\\$"))
        read_escape("$", value);
      else
        value += take();
    }
    return value;
  }

 private:
  char take() {
    const char first = rest_.front();
    rest_.remove_prefix(1);
    return first;
  }

  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) take();
  }

  Result<Word> read_word() {
    Word word;
    word.name = leading_name(rest_);
    const std::string_view start = rest_;
    rest_.remove_prefix(word.name.size());
    const bool ends = rest_.empty() || is_blank(rest_.front());
    if (!word.name.empty() && ends) return word;
    if (word.name.empty() || rest_.front() != '=') {
      const std::string_view text = start.substr(0, std::min(start.find(' '), start.size()));
      return invalid_argument(
          fmt::format("cannot read {} as NAME=value; put no blanks around '=' and quote a value "
                      "that has blanks",
                      quote(text)));
    }
    take();
    word.has_value = true;
    while (!rest_.empty() && !is_blank(rest_.front())) {
      SCR_RETURN_IF_ERROR(read_piece(word.value));
    }
    return word;
  }

  Status read_piece(std::string& value) {
    switch (rest_.front()) {
      case '"':
        return read_double_quoted(value);
      case '\'':
        return read_single_quoted(value);
      case '$':
        return read_variable(value);
      case '\\':
        read_escape("\"'\\$# \t", value);
        return {};
      default:
        value += take();
        return {};
    }
  }

  Status read_double_quoted(std::string& value) {
    const std::string_view start = rest_;
    take();
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '$')
        SCR_RETURN_IF_ERROR(read_variable(value));
      else if (rest_.front() == '\\')
        read_escape("\"\\$", value);
      else
        value += take();
    }
    if (rest_.empty()) return unclosed(start);
    take();
    return {};
  }

  Status read_single_quoted(std::string& value) {
    const std::string_view start = rest_;
    take();
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) return unclosed(start);
    value += rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return {};
  }

  static Status unclosed(std::string_view start) {
    return invalid_argument(fmt::format(
        "the quote in {} is not closed; end it on the same line, or write \\{} for a plain quote",
        quote(start), start.front()));
  }

  void read_escape(std::string_view special, std::string& value) {
    const char backslash = take();
    const bool takes_meaning =
        !rest_.empty() && special.find(rest_.front()) != std::string_view::npos;
    value += takes_meaning ? take() : backslash;
  }

  Status read_variable(std::string& value) {
    const std::string_view start = rest_;
    take();
    const bool braces = rest_.starts_with('{');
    const std::string_view name = leading_name(braces ? rest_.substr(1) : rest_);
    if (!braces && name.empty()) {
      value += '$';
      return {};
    }
    const std::size_t length = name.size() + (braces ? 2 : 0);
    if (braces && (name.empty() || rest_.size() < length || rest_[length - 1] != '}')) {
      return invalid_argument(fmt::format(
          "cannot read the variable in {}; write ${{NAME}}, or \\$ for a plain dollar sign",
          quote(start)));
    }
    const std::optional<std::string> found = environment_.get(name);
    if (!found) {
      return invalid_argument(fmt::format(
          "the environment variable '{}' is not set; set it, or write \\$ for a plain dollar sign",
          name));
    }
    value += *found;
    rest_.remove_prefix(length);
    return {};
  }

  std::string_view rest_;
  const Environment& environment_;
};

Result<Setting> to_setting(std::vector<Word> words) {
  for (const Word& word : words) {
    if (word.has_value) continue;
    return invalid_argument(fmt::format(
        "cannot read {} as NAME=value; put no blanks around '=' and quote a value that has blanks",
        quote(word.name)));
  }
  Setting setting{.name = std::move(words[0].name), .value = std::move(words[0].value)};
  setting.fields.assign(std::make_move_iterator(words.begin() + 1),
                        std::make_move_iterator(words.end()));
  return setting;
}

Status check_characters(std::string_view line) {
  for (const char letter : line) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte >= 0x20 && byte != 0x7f) || letter == '\t') continue;
    return invalid_argument(fmt::format("the line has the control character \\x{:02x}; remove it",
                                        static_cast<unsigned>(byte)));
  }
  return {};
}

Status add_line(std::string_view line, const Environment& environment, const Origin& origin,
                ParsedText& parsed) {
  SCR_ASSIGN_OR_RETURN(std::vector<Word> words, parse_line(line, environment));
  if (words.empty()) return {};
  SCR_ASSIGN_OR_RETURN(Setting setting, to_setting(std::move(words)));
  setting.origin = origin;
  parsed.settings.push_back(std::move(setting));
  return {};
}

}  // namespace

std::string_view leading_name(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return {};
  std::size_t end = 1;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  return text.substr(0, end);
}

Result<std::vector<Word>> parse_line(std::string_view line, const Environment& environment) {
  SCR_RETURN_IF_ERROR(check_characters(line));
  return LineScanner(line, environment).words();
}

Result<std::string> expand_variables(std::string_view text, const Environment& environment) {
  return LineScanner(text, environment).expanded();
}

std::string quote_value(std::string_view value) {
  if (!value.empty() && value.find_first_of(" \t\"'\\$#") == std::string_view::npos) {
    return std::string(value);
  }
  if (value.find('\'') == std::string_view::npos) return fmt::format("'{}'", value);
  std::string quoted = "\"";
  for (const char letter : value) {
    if (letter == '"' || letter == '\\' || letter == '$') quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

std::string print_setting(const Setting& setting) {
  std::string line = fmt::format("{}={}", setting.name, quote_value(setting.value));
  for (const Word& field : setting.fields) {
    line += fmt::format(" {}={}", field.name, quote_value(field.value));
  }
  return line;
}

ParsedText parse_text(const SourceFile& file, Source source, const Environment& environment) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view text = file.text;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  ParsedText parsed;
  Origin origin{.source = source, .file = file.path, .line = 0};
  for (std::string_view line : text::split(text, '\n')) {
    ++origin.line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const Status status = add_line(line, environment, origin, parsed);
    if (!status.ok()) {
      parsed.errors.push_back(fmt::format("{}: {}", origin.to_string(), status.message()));
    }
  }
  return parsed;
}

}  // namespace scr::config
