#include "core/base/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Shown {
  double now = 100;
  std::vector<std::string> lines;
  std::vector<bool> last;
  ProgressMeter meter{"flush of dataset 3", [this] { return now; },
                      [this](const std::string& line, bool end) {
                        lines.push_back(line);
                        last.push_back(end);
                      }};
  void at(double time, std::uint64_t done, std::uint64_t total = 500'000'000) {
    now = 100 + time;
    meter.update(done, total);
  }
};

TEST(ProgressText, SaysBytesRateAndTimeLeft) {
  EXPECT_EQ(progress_text("fetch of dataset 7", 120'000'000, 500'000'000, 2),
            "fetch of dataset 7: 120.0 MB of 500.0 MB (24%), 60.0 MB/s, 7 s left");
  EXPECT_EQ(progress_text("x", 999, 2'000'000'000'000, 1),
            "x: 999 B of 2.0 TB (0%), 999 B/s, 2002002002 s left");
  EXPECT_EQ(progress_text("x", 500, 500, 4), "x: 500 B of 500 B (100%), 125 B/s, 4 s in all");
}

TEST(ProgressText, HasNoRateBeforeAnythingIsDone) {
  EXPECT_EQ(progress_text("x", 0, 100, 5), "x: 0 B of 100 B (0%), 0 B/s");
  EXPECT_EQ(progress_text("x", 0, 0, 0), "x: 0 B of 0 B (100%), 0 B/s, 0 s in all");
}

TEST(ProgressMeter, ShowsAtMostOneLineASecond) {
  Shown shown;
  for (int i = 0; i <= 25; ++i) shown.at(i * 0.1, static_cast<std::uint64_t>(i) * 10'000'000);
  EXPECT_THAT(shown.lines,
              ElementsAre("flush of dataset 3: 100.0 MB of 500.0 MB (20%), 100.0 MB/s, 4 s left",
                          "flush of dataset 3: 200.0 MB of 500.0 MB (40%), 100.0 MB/s, 3 s left"));
}

TEST(ProgressMeter, EndsWithALineThatSaysSoIfItHadOne) {
  Shown shown;
  shown.at(1.0, 250'000'000);
  shown.at(1.5, 500'000'000);
  ASSERT_EQ(shown.lines.size(), 2U);
  EXPECT_EQ(shown.lines[1],
            "flush of dataset 3: 500.0 MB of 500.0 MB (100%), 333.3 MB/s, 2 s in all");
  EXPECT_THAT(shown.last, ElementsAre(false, true));
}

TEST(ProgressMeter, IsSilentOnWhatIsOverInASecond) {
  Shown shown;
  shown.at(0.3, 250'000'000);
  shown.at(0.6, 500'000'000);
  EXPECT_THAT(shown.lines, IsEmpty());
}

TEST(WatchProgress, IsForRankZeroAloneAndForItsLogIfThatTellsOfProgress) {
  log::set_verbosity(1);
  EXPECT_TRUE(watch_progress(0, "x", 10, /*background=*/true));
  EXPECT_TRUE(watch_growing_progress(0, "x", /*background=*/true));
  EXPECT_FALSE(watch_progress(1, "x", 10));
  EXPECT_FALSE(watch_growing_progress(3, "x"));
  log::set_verbosity(0);
  EXPECT_FALSE(watch_progress(0, "x", 10, /*background=*/true));
}

TEST(WatchProgress, IsForTheTerminalOfScrRunThatStandardErrorIsPassedOnTo) {
  ::setenv("SCR_RUN_TERMINAL", "1", 1);
  EXPECT_TRUE(watch_progress(0, "x", 10));
  EXPECT_FALSE(watch_progress(0, "x", 10, /*background=*/true));
  EXPECT_FALSE(watch_progress(1, "x", 10));
  ::unsetenv("SCR_RUN_TERMINAL");
}

}  // namespace
}  // namespace scr
