// Sizes with units: what is read, what is refused with which words, and what is printed.
#include "core/base/byte_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace scr {
namespace {

constexpr std::uint64_t kKilo = 1024;
constexpr std::uint64_t kMega = kKilo * kKilo;
constexpr std::uint64_t kGiga = kMega * kKilo;

std::uint64_t parsed(std::string_view text) {
  const Result<std::uint64_t> result = parse_byte_size(text);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : 0;
}

TEST(ByteSize, IsBytesWithoutAUnit) {
  EXPECT_EQ(parsed("0"), 0u);
  EXPECT_EQ(parsed("4096"), 4096u);
  EXPECT_EQ(parsed("7B"), 7u);
}

TEST(ByteSize, HasUnitsThatArePowersOf1024InEverySpelling) {
  for (const char* text : {"4k", "4K", "4kb", "4KB", "4KiB", "4kib", "4 KB"}) {
    EXPECT_EQ(parsed(text), 4 * kKilo) << text;
  }
  EXPECT_EQ(parsed("10MB"), 10 * kMega);
  EXPECT_EQ(parsed("1GiB"), kGiga);
  EXPECT_EQ(parsed("100GB"), 100 * kGiga);
  EXPECT_EQ(parsed("2T"), 2 * kGiga * kKilo);
  EXPECT_EQ(parsed("3PB"), 3 * kGiga * kMega);
  EXPECT_EQ(parsed("15E"), 15 * kGiga * kGiga);
}

TEST(ByteSize, ReadsFractionsExactly) {
  EXPECT_EQ(parsed("1.5GB"), 3 * kGiga / 2);
  EXPECT_EQ(parsed("0.5k"), 512u);
  EXPECT_EQ(parsed("1.3KB"), 1331u);
  EXPECT_EQ(parsed("15.999999999E"), 18446744072556630111ull);
}

TEST(ByteSize, HasTheLargest64BitNumberAsItsLimit) {
  EXPECT_EQ(parsed("18446744073709551615"), ~std::uint64_t{0});
  for (const char* text : {"18446744073709551616", "16E", "16384PB", "99999999999999999999999k"}) {
    const auto result = parse_byte_size(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr("it is 2^64 or more"));
  }
}

TEST(ByteSize, RefusesOtherTextAndSaysWhy) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "it is empty"},
      {"-1", "it is negative"},
      {"-5MB", "it is negative"},
      {"+1", "does not start with a digit"},
      {"MB", "does not start with a digit"},
      {" 1", "does not start with a digit"},
      {"1.GB", "no digit follows the point"},
      {"1.5", "a byte has no fractions"},
      {"1.5B", "a byte has no fractions"},
      {"1.1234567891GB", "more than nine digits"},
      {"1Q", "the unit is none of"},
      {"1KBB", "the unit is none of"},
      {"1 ", "the unit is none of"},
      {"1  KB", "the unit is none of"},
      {"1e6", "the unit is none of"},
      {"0x10", "the unit is none of"},
      {std::string("1\0", 2), "the unit is none of"},
  };
  for (const auto& [text, why] : cases) {
    const auto result = parse_byte_size(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr(why)) << text;
    EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr("such as 512KB"));
  }
}

TEST(ByteSize, PrintsTheLargestUnitThatIsExact) {
  EXPECT_EQ(format_byte_size(0), "0");
  EXPECT_EQ(format_byte_size(1000), "1000");
  EXPECT_EQ(format_byte_size(1024), "1KB");
  EXPECT_EQ(format_byte_size(1536), "1536");
  EXPECT_EQ(format_byte_size(100 * kGiga), "100GB");
  EXPECT_EQ(format_byte_size(kGiga * kGiga), "1EB");
  EXPECT_EQ(format_byte_size(~std::uint64_t{0}), "18446744073709551615");
}

TEST(ByteSize, ReadsBackWhatItPrints) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t odd : {1ull, 3ull, 1001ull}) {
      const std::uint64_t bytes = odd << shift;
      EXPECT_EQ(parsed(format_byte_size(bytes)), bytes);
    }
  }
}

}  // namespace
}  // namespace scr
