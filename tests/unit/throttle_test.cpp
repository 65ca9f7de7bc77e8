// The limits of background copies, with a clock that the test turns.
#include "flush/throttle.hpp"

#include <gtest/gtest.h>

namespace scr::flush {
namespace {

// Works on `bytes` in pieces that take `seconds` each, and sleeps as told; gives the time in all.
double run(Throttle& throttle, double start, std::uint64_t bytes, std::uint64_t piece,
           double seconds) {
  double now = start;
  for (std::uint64_t done = 0; done < bytes; done += piece) {
    now += seconds;
    now += throttle.pause_after(piece, seconds, now);
  }
  return now - start;
}

TEST(Throttle, WithoutLimitsNeverPauses) {
  Throttle throttle(0, 0, 100.0);
  EXPECT_NEAR(run(throttle, 100.0, 1000, 10, 0.001), 0.1, 1e-6);
}

TEST(Throttle, KeepsTheBandwidth) {
  Throttle throttle(20e6, 0, 5.0);
  EXPECT_NEAR(run(throttle, 5.0, 200'000'000, 1'000'000, 0.001), 10.0, 1e-6);
}

TEST(Throttle, ADiskSlowerThanTheLimitIsNotSlowedDownFurther) {
  Throttle throttle(20e6, 0, 0.0);
  EXPECT_NEAR(run(throttle, 0.0, 200'000'000, 1'000'000, 0.1), 20.0, 1e-6);
}

TEST(Throttle, KeepsTheShareOfTheTime) {
  Throttle throttle(0, 25, 0.0);
  EXPECT_NEAR(run(throttle, 0.0, 100, 1, 0.01), 4.0, 1e-6);
}

TEST(Throttle, AHundredPercentIsNoLimit) {
  Throttle throttle(0, 100, 0.0);
  EXPECT_NEAR(run(throttle, 0.0, 100, 1, 0.01), 1.0, 1e-6);
}

TEST(Throttle, TheStricterOfBothLimitsHolds) {
  Throttle by_bandwidth(1000, 50, 0.0);  // 1 s by bandwidth, 0.2 s by percent
  EXPECT_NEAR(run(by_bandwidth, 0.0, 1000, 10, 0.001), 1.0, 1e-6);
  Throttle by_percent(1e6, 10, 0.0);  // 1 ms by bandwidth, 1 s by percent
  EXPECT_NEAR(run(by_percent, 0.0, 1000, 10, 0.001), 1.0, 1e-6);
}

TEST(Throttle, TimeSpentElsewhereCounts) {
  Throttle throttle(100, 0, 0.0);
  EXPECT_DOUBLE_EQ(throttle.pause_after(100, 0.1, 0.1), 0.9);
  // The thread was away for ten seconds: there is nothing left to wait for.
  EXPECT_DOUBLE_EQ(throttle.pause_after(100, 0.1, 11.0), 0.0);
}

TEST(Throttle, TimeSpentOnOtherWorkGivesNoCredit) {
  Throttle throttle(100, 0, 0);
  EXPECT_DOUBLE_EQ(throttle.pause_after(100, 0, 0.25), 0.75);
  throttle.skip(5);  // from 1 to 6
  EXPECT_DOUBLE_EQ(throttle.pause_after(100, 0, 6.0), 1.0);
}

}  // namespace
}  // namespace scr::flush
