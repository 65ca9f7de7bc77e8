#include "core/runtime/checkpoint_timer.hpp"

#include <gtest/gtest.h>

namespace scr {
namespace {

void checkpoint(CheckpointTimer& timer, double start, double end, bool ok = true) {
  timer.start_checkpoint(start);
  timer.end_checkpoint(end, ok);
}

TEST(CheckpointTimer, WithoutAPolicyEveryMomentIsRight) {
  CheckpointTimer timer({}, 0);
  EXPECT_TRUE(timer.due(0));
  EXPECT_TRUE(timer.due(1));
}

TEST(CheckpointTimer, IntervalCountsQuestions) {
  CheckpointTimer timer({.interval = 3}, 0);
  EXPECT_FALSE(timer.due(1));
  EXPECT_FALSE(timer.due(2));
  EXPECT_TRUE(timer.due(3));
  EXPECT_TRUE(timer.due(4));  // until one is written
  checkpoint(timer, 4, 5);
  EXPECT_FALSE(timer.due(6));
}

TEST(CheckpointTimer, SecondsCountFromTheEndOfTheLast) {
  CheckpointTimer timer({.seconds = 10}, 100);
  EXPECT_FALSE(timer.due(109));
  EXPECT_TRUE(timer.due(110));
  checkpoint(timer, 110, 115);
  EXPECT_FALSE(timer.due(124));
  EXPECT_TRUE(timer.due(125));
}

TEST(CheckpointTimer, OverheadIsAShareOfTheComputeTime) {
  CheckpointTimer timer({.overhead = 10}, 0);
  EXPECT_TRUE(timer.due(1));  // there is no cost yet to judge by
  checkpoint(timer, 1, 2);    // costs 1 s
  EXPECT_FALSE(timer.due(12));
  EXPECT_FALSE(timer.due(21));  // 2 s of 20 s are not below 10 percent
  EXPECT_TRUE(timer.due(22));
}

TEST(CheckpointTimer, OneThatFailedIsAsDueAsBefore) {
  CheckpointTimer timer({.interval = 2}, 0);
  EXPECT_FALSE(timer.due(1));
  EXPECT_TRUE(timer.due(2));
  checkpoint(timer, 2, 3, /*ok=*/false);
  EXPECT_TRUE(timer.due(4));
}

TEST(CheckpointTimer, AnyPolicyIsEnough) {
  CheckpointTimer timer({.interval = 100, .seconds = 5}, 0);
  EXPECT_FALSE(timer.due(4));
  EXPECT_TRUE(timer.due(5));
}

}  // namespace
}  // namespace scr
