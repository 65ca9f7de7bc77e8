// Names of files that a program must not, or may well, give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/node_storage.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::HasSubstr;
using testing::NodeStorage;
using testing::Runs;

struct NamesOnTwoNodes : ::testing::Test {
  NamesOnTwoNodes() { job.nodes = {&node0, &node1}; }

  // Writes a dataset in which each rank has files of these names, which are what is in them, too.
  Status write(Runtime& runtime, const std::vector<std::string>& names) {
    EXPECT_TRUE(runtime.start_dataset("second", kFlagCheckpoint).ok());
    for (const std::string& name : names) {
      const auto path = runtime.route_file(job.prefix() + "/" + name);
      EXPECT_TRUE(path.ok()) << path.status().to_string();
      if (path.ok()) std::ofstream(*path) << name;
    }
    return runtime.complete_dataset(true);
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  Runs job;
  NodeStorage node0{job.root(), 0};
  NodeStorage node1{job.root(), 1};
};

// Both would be flushed to that name.
TEST_F(NamesOnTwoNodes, AFileThatTwoRanksWroteFailsTheDatasetAndTheOneBeforeStays) {
  for (const char* bypass : {"SCR_CACHE_BYPASS=0", "SCR_CACHE_BYPASS=1"}) {
    job.run({"SCR_FLUSH=1", bypass}, [&](Runtime& runtime) {
      job.write(runtime, "first");
      const std::string own = "own." + std::to_string(runtime.context().rank());
      const Status status = write(runtime, {own, "deep/same"});
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 0 and 1"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("same"));
      EXPECT_TRUE(runtime.finalize().ok());
    });
    job.expect_restart("first");
    job.expect_restart("first", {"SCR_CACHE_PURGE=1"});
  }
}

// The redundancy file of the rank would take its place in the cache.
TEST_F(NamesOnTwoNodes, ANameOfRedundancyDataIsRefused) {
  job.run({"SCR_COPY_TYPE=PARTNER"}, [&](Runtime& runtime) {
    ASSERT_TRUE(runtime.start_dataset("first", kFlagCheckpoint).ok());
    const int place = runtime.context().rank() + 1;
    const auto path =
        runtime.route_file(fmt::format("{}/{}_of_2_in_0.partner", job.prefix(), place));
    EXPECT_EQ(path.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(path.status().message()), HasSubstr("redundancy data"));
    // In another directory it is a name like any other.
    const auto below =
        runtime.route_file(fmt::format("{}/a/{}_of_2_in_0.partner", job.prefix(), place));
    EXPECT_TRUE(below.ok());
    if (below.ok()) std::ofstream(*below) << "data";
    EXPECT_TRUE(runtime.complete_dataset(true).ok());
  });
}

// As if SCR_PREFIX were another one than the program thinks.
TEST_F(NamesOnTwoNodes, ARankWithoutAnyNameThatCouldBeUsedFailsTheDataset) {
  for (const char* bypass : {"SCR_CACHE_BYPASS=0", "SCR_CACHE_BYPASS=1"}) {
    job.run({"SCR_FLUSH=1", bypass}, [&](Runtime& runtime) {
      job.write(runtime, "first");
      ASSERT_TRUE(runtime.start_dataset("second", kFlagCheckpoint).ok());
      if (runtime.context().rank() == 0) {
        const auto path = runtime.route_file(job.prefix() + "/own");
        ASSERT_TRUE(path.ok());
        std::ofstream(*path) << "data";
      } else {
        EXPECT_FALSE(runtime.route_file("/elsewhere/own").ok());
      }
      const Status status = runtime.complete_dataset(true);
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), HasSubstr("SCR_Route_file failed for rank 1"));
    });
    job.expect_restart("first");
    job.expect_restart("first", {"SCR_CACHE_PURGE=1"});
  }
}

TEST_F(NamesOnTwoNodes, AFileThatIsCalledLikeATemporaryOneIsNoLeftover) {
  const auto names = [](const Runtime& runtime) {
    const std::string own = std::to_string(runtime.context().rank());
    return std::vector<std::string>{"data." + own, ".moving.data." + own};
  };
  job.run({}, [&](Runtime& runtime) { EXPECT_TRUE(write(runtime, names(runtime)).ok()); });
  job.run({}, [&](Runtime& runtime) {
    EXPECT_EQ(runtime.have_restart()->value_or(""), "second");
    for (const std::string& name : names(runtime)) {
      const auto path = runtime.route_file(job.prefix() + "/" + name);
      ASSERT_TRUE(path.ok()) << path.status().to_string();
      EXPECT_EQ(read(*path), name);
    }
  });
}

// The ranks have changed their nodes: their files are moved, under temporary names at first.
TEST_F(NamesOnTwoNodes, AFileWithTheLongestNameIsMovedToWhereItsRankNowRuns) {
  const auto name = [](const Runtime& runtime) {
    return std::string(254, 'x') + std::to_string(runtime.context().rank());
  };
  job.run({}, [&](Runtime& runtime) { EXPECT_TRUE(write(runtime, {name(runtime)}).ok()); });
  job.nodes = {&node1, &node0};
  job.first_node = 1;
  job.run({}, [&](Runtime& runtime) {
    EXPECT_EQ(runtime.have_restart()->value_or(""), "second");
    const auto path = runtime.route_file(job.prefix() + "/" + name(runtime));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    EXPECT_EQ(read(*path), name(runtime));
  });
}

}  // namespace
}  // namespace scr
