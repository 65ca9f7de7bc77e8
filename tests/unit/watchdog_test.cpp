// The watchdog: a program that completes no checkpoint for too long is found, and one that flushes
// gets the longer time.
#include "core/job/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/job_owner.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::job {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class WatchdogTest : public ::testing::Test {
 protected:
  Watchdog watch(WatchdogTimes times) const {
    return {real_file_system(), directory_.path().string(), times, start_};
  }
  std::optional<std::string> look(Watchdog& watchdog, int after) const {
    return watchdog.look(start_ + seconds(after));
  }
  // As a run does with each checkpoint.
  void give_sign() {
    const std::string path = directory_ / std::string(kOwnerFileName);
    std::ofstream(path) << "alive";
    std::filesystem::last_write_time(path, std::filesystem::file_time_type(seconds(++signs_)));
  }
  void begin_flush() { std::filesystem::create_directory(directory_ / "scr.dataset.4"); }
  void end_flush() { std::ofstream(directory_ / "scr.dataset.4/summary.scr") << "done"; }

 private:
  testing::TemporaryDirectory directory_;
  Watchdog::Clock::time_point start_ = Watchdog::Clock::now();
  int signs_ = 0;
};

TEST_F(WatchdogTest, WithoutATimeNothingIsTooLong) {
  Watchdog watchdog = watch({0, 0});
  EXPECT_FALSE(look(watchdog, 1000000));
}

TEST_F(WatchdogTest, AProgramWithoutACheckpointHangs) {
  Watchdog watchdog = watch({60, 0});
  EXPECT_FALSE(look(watchdog, 59));
  const auto why = look(watchdog, 61);
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("no checkpoint was completed for 61 seconds"));
}

TEST_F(WatchdogTest, EachCheckpointStartsTheTimeAnew) {
  Watchdog watchdog = watch({60, 0});
  for (int after = 50; after < 500; after += 50) {
    give_sign();
    EXPECT_FALSE(look(watchdog, after)) << after;
  }
  EXPECT_EQ(watchdog.signs(), 9);
  EXPECT_TRUE(look(watchdog, 511));
}

TEST_F(WatchdogTest, WhileADatasetIsFlushedTheLongerTimeHolds) {
  Watchdog watchdog = watch({60, 600});
  give_sign();
  EXPECT_FALSE(look(watchdog, 0));
  begin_flush();
  EXPECT_FALSE(look(watchdog, 61));
  EXPECT_FALSE(look(watchdog, 599));
  EXPECT_TRUE(look(watchdog, 601));  // but not for ever
  end_flush();
  EXPECT_TRUE(look(watchdog, 61));
}

TEST_F(WatchdogTest, WithoutALongerTimeAFlushMakesNoDifference) {
  Watchdog watchdog = watch({60, 0});
  begin_flush();
  EXPECT_TRUE(look(watchdog, 61));
}

TEST_F(WatchdogTest, AFlushThatHasEndedMakesNoDifference) {
  Watchdog watchdog = watch({60, 600});
  begin_flush();
  end_flush();
  EXPECT_TRUE(look(watchdog, 61));
}

}  // namespace
}  // namespace scr::job
