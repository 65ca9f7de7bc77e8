// Times as users write them for scr_halt.
#include "core/job/time_text.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <ctime>

namespace scr::job {
namespace {

class TimeText : public ::testing::Test {
 protected:
  TimeText() {
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
  }
  // 2026-03-01 12:00:00 UTC
  static constexpr std::int64_t kNoon = 1772366400;
  static std::int64_t parsed(const char* text) {
    const auto time = parse_time(text, kNoon);
    EXPECT_TRUE(time.ok()) << time.status().message();
    return time.ok() ? *time : 0;
  }
};

TEST_F(TimeText, SecondsSinceTheEpochAndFromNow) {
  EXPECT_EQ(parsed("@1772366401"), kNoon + 1);
  EXPECT_EQ(parsed("+90"), kNoon + 90);
  EXPECT_EQ(parsed("+10m"), kNoon + 600);
  EXPECT_EQ(parsed("+2h"), kNoon + 7200);
  EXPECT_EQ(parsed("+1d"), kNoon + 86400);
}

TEST_F(TimeText, TheNextTimeTheClockShowsIt) {
  EXPECT_EQ(parsed("15:30"), kNoon + 3 * 3600 + 1800);
  EXPECT_EQ(parsed("15:30:10"), kNoon + 3 * 3600 + 1810);
  EXPECT_EQ(parsed("3pm"), kNoon + 3 * 3600);
  EXPECT_EQ(parsed("3:30 PM"), kNoon + 3 * 3600 + 1800);
  EXPECT_EQ(parsed("11:00"), kNoon + 23 * 3600);  // tomorrow
  EXPECT_EQ(parsed("12am"), kNoon + 12 * 3600);
}

TEST_F(TimeText, DateAndTime) {
  EXPECT_EQ(parsed("2026-03-01T12:00:00"), kNoon);
  EXPECT_EQ(parsed("2026-03-02 12:00"), kNoon + 86400);
  EXPECT_EQ(parsed("2026-03-02"), kNoon + 43200);
  EXPECT_EQ(format_time(kNoon), "2026-03-01T12:00:00");
}

TEST_F(TimeText, OnlyDaysThatTheMonthHas) {
  for (const char* text : {"2026-02-29", "2026-02-30 12:00", "2026-04-31", "2100-02-29"}) {
    EXPECT_FALSE(parse_time(text, kNoon).ok()) << text;
  }
  for (const char* text : {"2028-02-29", "2000-02-29", "2026-12-31", "2026-04-30"}) {
    EXPECT_TRUE(parse_time(text, kNoon).ok()) << text;
  }
}

TEST_F(TimeText, RefusesWhatIsNoTime) {
  for (const char* text : {"", "x", "25:00", "12:60", "13pm", "0pm", "5", "@", "@-1", "+", "+x",
                           "+99999999999999999", "2026-13-01", "2026-03-01 x", "1:2:3:4"}) {
    EXPECT_FALSE(parse_time(text, kNoon).ok()) << text;
  }
}

}  // namespace
}  // namespace scr::job
