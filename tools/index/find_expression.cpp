#include "tools/index/find_expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <utility>

#include "core/base/text.hpp"

namespace scr::tools {
namespace {

// Longer ones first: "<=" is not "<" and a value that begins with "=".
constexpr std::array<std::pair<std::string_view, Comparison>, 7> kOperators = {
    std::pair{std::string_view("<="), Comparison::kLessEqual},
    {">=", Comparison::kGreaterEqual},
    {"==", Comparison::kEqual},
    {"!=", Comparison::kNotEqual},
    {"<", Comparison::kLess},
    {">", Comparison::kGreater},
    {"=", Comparison::kEqual}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Condition>> parse() {
    std::vector<Condition> conditions;
    do {
      SCR_ASSIGN_OR_RETURN(Condition condition, parse_condition());
      conditions.push_back(std::move(condition));
    } while (take("&&"));
    skip_blanks();
    if (at_ < text_.size()) return error("&& is missing");
    return conditions;
  }

 private:
  Result<Condition> parse_condition() {
    Condition condition;
    const std::size_t end = text_.find_first_of("<>=!&", at_);
    condition.attribute = text::trim(text_.substr(at_, end - at_));
    if (condition.attribute.empty()) return error("the name of an attribute is missing");
    at_ = std::min(end, text_.size());
    const auto* found = std::ranges::find_if(
        kOperators, [&](const auto& each) { return text_.substr(at_).starts_with(each.first); });
    if (found == kOperators.end()) return error("one of < <= > >= == != is missing");
    at_ += found->first.size();
    condition.comparison = found->second;
    SCR_RETURN_IF_ERROR(parse_value(condition));
    return condition;
  }

  Status parse_value(Condition& condition) {
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const std::size_t end = text_.find(text_[at_], at_ + 1);
      if (end == std::string_view::npos) return error("a quote does not end");
      condition.value = text_.substr(at_ + 1, end - at_ - 1);
      condition.quoted = true;
      at_ = end + 1;
      return {};
    }
    const std::size_t end = std::min(text_.find("&&", at_), text_.size());
    condition.value = text::trim(text_.substr(at_, end - at_));
    if (condition.value.empty()) return error("a value is missing");
    at_ = end;
    return {};
  }

  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  Status error(std::string_view what) const {
    return invalid_argument(fmt::format("cannot understand '{}': {} at character {}",
                                        text::escape(text_), what, at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool decide(Comparison comparison, std::partial_ordering order) {
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    case Comparison::kGreaterEqual:
      return order >= 0;
    case Comparison::kEqual:
      return order == 0;
    case Comparison::kNotEqual:
      return order != 0;
  }
  return false;
}

}  // namespace

Result<std::vector<Condition>> parse_conditions(std::string_view text) {
  return Parser(text).parse();
}

bool holds(const Condition& condition, const std::optional<vfd::Hdf5Value>& value) {
  if (!value) return false;
  if (!condition.quoted && value->scalar && value->kind == vfd::Hdf5Value::Kind::kNumber) {
    // Whole numbers may have more digits than a double.
    const auto left = text::parse_int(value->text);
    const auto right = text::parse_int(condition.value);
    if (left && right) return decide(condition.comparison, *left <=> *right);
    const auto one = text::parse_double(value->text);
    const auto other = text::parse_double(condition.value);
    if (one && other) return decide(condition.comparison, *one <=> *other);
    return condition.comparison == Comparison::kNotEqual;  // a number and no number
  }
  return decide(condition.comparison, value->text <=> condition.value);
}

}  // namespace scr::tools
