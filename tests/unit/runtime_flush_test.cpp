// When datasets reach the prefix directory, and what a program can ask of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Runs;

using Bytes = std::pair<std::uint64_t, std::uint64_t>;

TEST(FlushRhythm, GoesOnFromRunToRun) {
  Runs job;
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) job.write(name, {"SCR_FLUSH=3"});
  EXPECT_THAT(job.names_in_index(), ElementsAre("6", "3"));
}

TEST(FlushRhythm, OutputIsFlushedAtOnceAndCheckpointsAreNot) {
  Runs job;
  job.run({}, [&](Runtime& runtime) {
    job.write(runtime, "plot", kFlagOutput);
    job.write(runtime, "checkpoint");
    job.write(runtime, "both", kFlagOutput | kFlagCheckpoint);
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("both", "plot"));
}

TEST(FlushRhythm, AFlushThatFailedIsMadeUpForByTheNextCheckpoint) {
  Runs job;
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = job.prefix() + "/deep/*";
  FaultyFileSystem fs(real_file_system(), plan);
  job.fs = &fs;
  job.run({"SCR_FLUSH=2"}, [&](Runtime& runtime) {
    for (const char* name : {"1", "2", "3", "4", "5"}) job.write(runtime, name);
  });
  EXPECT_EQ(fs.hits(), 1U);
  EXPECT_THAT(job.names_in_index(), ElementsAre("4", "3"));
}

TEST(FlushOnRestart, BringsTheNewestToThePrefixDirectory) {
  Runs job;
  job.write("first");
  job.expect_restart("first");
  EXPECT_THAT(job.names_in_index(), IsEmpty());
  job.expect_restart("first", {"SCR_FLUSH_ON_RESTART=1"});
  EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
}

TEST(FlushProgress, CountsTheBytesOfTheRankAndWaitBringsThemAll) {
  for (const auto& settings : {std::vector<std::string>{},
                               {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"}}) {
    Runs job;
    job.run(settings, [&](Runtime& runtime) {
      job.write(runtime, "first");
      const auto before = runtime.flush_progress("first");
      ASSERT_TRUE(before.ok()) << before.status().to_string();
      const std::uint64_t size = std::string("first of rank 0").size();
      EXPECT_EQ(before->second, size);
      EXPECT_LE(before->first, size);
      if (settings.empty()) {
        EXPECT_EQ(before->first, 0U);
      }
      EXPECT_TRUE(runtime.flush_wait("first").ok());
      EXPECT_EQ(*runtime.flush_progress("first"), Bytes(size, size));
      EXPECT_EQ(runtime.flush_progress("other").status().code(), StatusCode::kNotFound);
      EXPECT_EQ(runtime.flush_wait("other").code(), StatusCode::kNotFound);
      EXPECT_TRUE(runtime.flush_wait("").ok());
    });
    EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
  }
}

TEST(WidthOfOne, FlushesAndFetchesEveryRankInTurn) {
  Runs job;
  job.write("first", {"SCR_FLUSH=1", "SCR_FLUSH_WIDTH=1"});
  job.expect_restart("first", {"SCR_CACHE_PURGE=1", "SCR_FETCH_WIDTH=1"});
}

}  // namespace
}  // namespace scr
