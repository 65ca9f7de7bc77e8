#include "tools/index/find_expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scr::tools {
namespace {

using testing::HasSubstr;
using vfd::Hdf5Value;

Hdf5Value number(const std::string& text) { return {Hdf5Value::Kind::kNumber, text, true}; }
Hdf5Value words(const std::string& text) { return {Hdf5Value::Kind::kText, text, true}; }

bool fulfils(const std::string& expression, const std::optional<Hdf5Value>& value) {
  const auto conditions = parse_conditions(expression);
  EXPECT_TRUE(conditions.ok()) << conditions.status().message();
  return conditions.ok() && holds(conditions->at(0), value);
}

TEST(FindExpression, ConditionsAreJoinedByAnd) {
  const auto conditions = parse_conditions(" time >0.5&& units == \"a && b\" && /grid@level != 3 ");
  ASSERT_TRUE(conditions.ok()) << conditions.status().message();
  const std::vector<Condition> expected = {{"time", Comparison::kGreater, "0.5", false},
                                           {"units", Comparison::kEqual, "a && b", true},
                                           {"/grid@level", Comparison::kNotEqual, "3", false}};
  EXPECT_EQ(*conditions, expected);
}

TEST(FindExpression, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the name of an attribute is missing at character 1"},
      {">3", "the name of an attribute is missing at character 1"},
      {"time", "one of < <= > >= == != is missing"},
      {"time ! 3", "one of < <= > >= == != is missing at character 6"},
      {"time >", "a value is missing at character 7"},
      {"time > 3 &&", "the name of an attribute is missing at character 12"},
      {"units == \"K", "a quote does not end at character 10"},
      {"units == \"K\" time > 3", "&& is missing at character 14"},
      {"a > && b > 1", "a value is missing"}};
  for (const auto& [expression, message] : cases) {
    const auto conditions = parse_conditions(expression);
    ASSERT_FALSE(conditions.ok()) << expression;
    EXPECT_EQ(conditions.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(conditions.status().message()), HasSubstr(message)) << expression;
  }
}

TEST(FindExpression, NumbersAreComparedAsNumbers) {
  EXPECT_TRUE(fulfils("t > 9", number("10")));
  EXPECT_TRUE(fulfils("t == 1e1", number("10")));
  EXPECT_TRUE(fulfils("t = 10.0", number("10")));
  EXPECT_FALSE(fulfils("t != 10", number("10")));
  EXPECT_TRUE(fulfils("t >= 0.5", number("0.5")));
  EXPECT_TRUE(fulfils("t <= 0.5", number("0.5")));
  EXPECT_FALSE(fulfils("t < 0.5", number("0.5")));
  EXPECT_FALSE(fulfils("t > 0.5", number("0.5")));
  EXPECT_TRUE(fulfils("t < 0", number("-3")));
}

TEST(FindExpression, WholeNumbersKeepAllTheirDigits) {
  EXPECT_FALSE(fulfils("id == 9007199254740993", number("9007199254740992")));
  EXPECT_TRUE(fulfils("id < 9007199254740993", number("9007199254740992")));
}

TEST(FindExpression, TextIsComparedAsText) {
  EXPECT_TRUE(fulfils("units == K", words("K")));
  EXPECT_TRUE(fulfils("version < 9", words("10")));
  EXPECT_TRUE(fulfils("units != m", words("K")));
}

TEST(FindExpression, ANumberIsNotEqualToWhatIsNone) {
  EXPECT_FALSE(fulfils("t == abc", number("1")));
  EXPECT_TRUE(fulfils("t != abc", number("1")));
  EXPECT_FALSE(fulfils("t < abc", number("1")));
  EXPECT_FALSE(fulfils("t > 0", number("nan")));
}

TEST(FindExpression, AMissingAttributeFulfilsNothing) {
  for (const char* expression : {"t == 1", "t != 1", "t < 1", "t >= 1"}) {
    EXPECT_FALSE(fulfils(expression, std::nullopt));
  }
}

}  // namespace
}  // namespace scr::tools
