// Runs of one job in different prefix directories: none restarts from the data of another, and none
// deletes what another has not saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Runs;

TEST(AnotherPrefix, StartsEmptyWhereTheFirstRunHasSavedItsCheckpoint) {
  Runs job;
  job.write("first", {"SCR_FLUSH=1"});
  job.move_to("other");
  job.expect_restart("");
  job.write("mine");
  EXPECT_THAT(job.names_in_index(), IsEmpty());
  job.expect_restart("mine");
}

TEST(AnotherPrefix, IsRefusedAsLongAsACheckpointIsOnlyInTheCache) {
  Runs job;
  job.write("first");
  job.move_to("other");
  job.start({}, [](Result<std::unique_ptr<Runtime>> runtime) {
    ASSERT_FALSE(runtime.ok());
    EXPECT_THAT(runtime.status().message(), HasSubstr("('first') of a run in another prefix"));
    EXPECT_THAT(runtime.status().message(), HasSubstr("SCR_JOB_ID"));
  });
  job.move_to("prefix");
  job.expect_restart("first");
  job.move_to("other");
  job.expect_restart("", {"SCR_CACHE_PURGE=1"});
}

TEST(AnotherPrefix, IsNoOtherIfALinkLeadsToTheSame) {
  Runs job;
  job.write("first");
  const std::string real = job.prefix();
  std::filesystem::create_directory_symlink(real, real + "-link");
  job.move_to("prefix-link");
  job.run({}, [](Runtime& runtime) {
    const auto name = runtime.have_restart();
    ASSERT_TRUE(name.ok());
    EXPECT_EQ(name->value_or("nothing"), "first");
  });
}

TEST(AnotherPrefix, DoesNotTouchARunThatIsAtWork) {
  Runs job;
  Runs* const jobs = &job;
  job.run({"SCR_FLUSH=1"}, [jobs](Runtime& runtime) {
    jobs->write(runtime, "first");
    runtime.context().world().barrier();
    if (runtime.context().rank() == 0) {
      jobs->move_to("other");
      jobs->start({}, [](Result<std::unique_ptr<Runtime>> second) {
        ASSERT_FALSE(second.ok());
        EXPECT_THAT(second.status().message(), HasSubstr("is at work in this job on this node"));
      });
      jobs->move_to("prefix");
    }
    runtime.context().world().barrier();
    jobs->write(runtime, "second");
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("second", "first"));
  job.expect_restart("second");
}

}  // namespace
}  // namespace scr
