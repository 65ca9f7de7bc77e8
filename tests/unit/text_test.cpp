#include "core/base/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace scr::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Escape, KeepsPlainText) { EXPECT_EQ(escape("ckpt.1/rank_0.h5 ok"), "ckpt.1/rank_0.h5 ok"); }

TEST(Escape, KeepsTextBeyondAscii) {
  EXPECT_EQ(escape("Pr\xC3\xBC"
                   "fsumme \xE2\x82\xAC \xF0\x9F\x99\x82"),
            "Pr\xC3\xBC"
            "fsumme \xE2\x82\xAC \xF0\x9F\x99\x82");
}

TEST(Escape, WritesControlCharactersAsHexadecimal) {
  EXPECT_EQ(escape(std::string_view("a\0b\n\x1b[31m\x7f", 10)), "a\\x00b\\x0a\\x1b[31m\\x7f");
}

TEST(Escape, WritesBytesThatAreNotUtf8AsHexadecimal) {
  EXPECT_EQ(escape("\x9b"), "\\x9b");                             // C1 control of 8-bit terminals
  EXPECT_EQ(escape("\xC0\xAF"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(escape("\xE0\x80\x80"), "\\xe0\\x80\\x80");           // overlong
  EXPECT_EQ(escape("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(escape("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(escape("\xE2\x82"), "\\xe2\\x82");                    // cut
  EXPECT_EQ(escape("\xC3("), "\\xc3(");
}

TEST(Escape, WritesUnicodeControlsAsHexadecimal) {
  EXPECT_EQ(escape("\xC2\x9B"), "\\xc2\\x9b");  // C1 control
  EXPECT_EQ(escape("\xE2\x80\xAE"
                   "cod.h5"),
            "\\xe2\\x80\\xaecod.h5");  // right-to-left override
}

TEST(Split, GivesOnePieceMoreThanSeparators) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Trim, RemovesBlanksAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim("   "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ParseInt, TakesTheWholeRange) {
  EXPECT_EQ(parse_int("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_int("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("007"), 7);
}

TEST(ParseInt, RefusesAllElse) {
  for (const char* bad : {"", " 1", "1 ", "+1", "0x1", "1.0", "1e3", "--1", "-",
                          "9223372036854775808", "-9223372036854775809", "1\n"}) {
    EXPECT_FALSE(parse_int(bad)) << bad;
  }
}

TEST(ParseUint, TakesTheWholeRangeAndNoSign) {
  EXPECT_EQ(parse_uint("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "-1", "-0", "+1", "18446744073709551616", "1k"}) {
    EXPECT_FALSE(parse_uint(bad)) << bad;
  }
}

TEST(ParseDouble, TakesFiniteFractionsOnly) {
  EXPECT_EQ(parse_double("0.5"), 0.5);
  EXPECT_EQ(parse_double("-1e-3"), -1e-3);
  for (const char* bad : {"", "nan", "inf", "1e999", "1,5", "0.5x", " 1", "0x1p3"}) {
    EXPECT_FALSE(parse_double(bad)) << bad;
  }
}

TEST(GlobMatch, MatchesTheWholeTextAlsoAcrossSlashes) {
  EXPECT_TRUE(glob_match("*.xor", "/cache/scr.1/3.xor"));
  EXPECT_FALSE(glob_match("*.xor", "/cache/scr.1/3.xor.tmp"));
  EXPECT_TRUE(glob_match("rank_?.[hx]5", "rank_7.h5"));
  EXPECT_TRUE(glob_match("\\*", "*"));
}

constexpr std::array<std::string_view, 5> kNames = {"SCR_FLUSH", "SCR_FLUSH_ASYNC", "SCR_FETCH",
                                                    "SCR_CACHE_SIZE", "SCR_DEBUG"};

TEST(NearestNames, FindsASlipOfTyping) {
  EXPECT_THAT(nearest_names("SCR_FLSUH_ASYNC", kNames, 1), ElementsAre("SCR_FLUSH_ASYNC"));
  EXPECT_THAT(nearest_names("SCR_CACHESIZE", kNames, 1), ElementsAre("SCR_CACHE_SIZE"));
}

TEST(NearestNames, PutsTheNearestFirst) {
  const auto names = nearest_names("SCR_FLUSCH", kNames, 3);
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.front(), "SCR_FLUSH");
}

TEST(NearestNames, ForgivesLetterCase) {
  EXPECT_THAT(nearest_names("scr_debug", kNames, 1), ElementsAre("SCR_DEBUG"));
}

TEST(NearestNames, StaysSilentWhenNothingIsNear) {
  EXPECT_THAT(nearest_names("H5FD_CORE_BACKING", kNames, 3), IsEmpty());
  EXPECT_THAT(nearest_names("", kNames, 3), IsEmpty());
  EXPECT_THAT(nearest_names("x", std::array<std::string_view, 1>{"y"}, 3), IsEmpty());
}

TEST(Join, PutsTheSeparatorBetweenPieces) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(std::vector<std::string_view>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

}  // namespace
}  // namespace scr::text
