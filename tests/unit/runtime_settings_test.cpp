// Settings that a run obeys: each of them makes a difference that can be seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/node_storage.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NodeStorage;
using testing::Runs;

// A node each for the ranks of a job, which list the directories of its first dataset that they
// make.
class MakersOfDirectories {
 public:
  explicit MakersOfDirectories(Runs& job) : root_(job.root()) {
    for (int node = 0; node < Runs::kRanks; ++node) {
      FaultPlan plan;
      plan.operations = FaultPlan::bit(Operation::kMakeDirectory);
      plan.path = "*/dataset.1";
      plan.log = log_of(node);
      storage_.push_back(std::make_unique<NodeStorage>(root_, node));
      listing_.push_back(std::make_unique<FaultyFileSystem>(*storage_.back(), plan));
      job.nodes.push_back(listing_.back().get());
    }
  }
  // How many nodes have made one.
  int count() const {
    int makers = 0;
    for (int node = 0; node < Runs::kRanks; ++node) {
      makers += std::ifstream(log_of(node)).peek() != EOF ? 1 : 0;
    }
    return makers;
  }

 private:
  std::string log_of(int node) const { return fmt::format("{}/made.{}", root_, node); }

  std::string root_;
  std::vector<std::unique_ptr<NodeStorage>> storage_;
  std::vector<std::unique_ptr<FaultyFileSystem>> listing_;
};

TEST(StoreThatNodesShare, HasOneMakerOfItsDatasetDirectories) {
  Runs job;
  const MakersOfDirectories makers(job);
  const std::string store = job.root() + "/shared";
  job.write("first", {fmt::format("STORE={} GROUP=WORLD", store),
                      fmt::format("CKPT=0 STORE={} TYPE=SINGLE", store)});
  EXPECT_EQ(makers.count(), 1);
  EXPECT_NE(job.cached_file("first", 1), "");
}

TEST(StoreOfEachNode, HasAMakerOfItsDatasetDirectoriesOnEachNode) {
  Runs job;
  const MakersOfDirectories makers(job);
  job.write("first");
  EXPECT_EQ(makers.count(), Runs::kRanks);
}

TEST(PurgedPrefix, LosesItsCheckpointsAndKeepsItsOutput) {
  Runs job;
  job.run({"SCR_FLUSH=1"}, [&](Runtime& runtime) {
    job.write(runtime, "one");
    job.write(runtime, "plot", kFlagOutput);
    job.write(runtime, "two");
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("two", "plot", "one"));
  job.expect_restart("", {"SCR_PREFIX_PURGE=1", "SCR_CACHE_PURGE=1"});
  EXPECT_THAT(job.names_in_index(), ElementsAre("plot"));
  EXPECT_EQ(job.flushed_text("two", 0), "");
  EXPECT_EQ(job.flushed_text("plot", 1), "plot of rank 1");
}

// What SCR_Need_checkpoint says at once, and once more after a checkpoint.
std::pair<bool, bool> need_checkpoint(const std::vector<std::string>& settings) {
  Runs job;
  std::pair<bool, bool> said;
  job.run(settings, [&](Runtime& runtime) {
    const auto before = runtime.need_checkpoint();
    job.write(runtime, "one");
    const auto after = runtime.need_checkpoint();
    ASSERT_TRUE(before.ok() && after.ok());
    if (runtime.context().rank() == 0) said = {*before, *after};
  });
  return said;
}

TEST(NeedCheckpoint, GoesByItsThreeSettings) {
  EXPECT_EQ(need_checkpoint({}), std::pair(true, true));
  EXPECT_EQ(need_checkpoint({"SCR_CHECKPOINT_INTERVAL=1"}), std::pair(true, true));
  EXPECT_EQ(need_checkpoint({"SCR_CHECKPOINT_INTERVAL=2"}), std::pair(false, false));
  EXPECT_EQ(need_checkpoint({"SCR_CHECKPOINT_SECONDS=3600"}), std::pair(false, false));
  // The first has no cost to judge by; then the program has computed for no time worth a name.
  EXPECT_EQ(need_checkpoint({"SCR_CHECKPOINT_OVERHEAD=0.01"}), std::pair(true, false));
}

TEST(Checksums, ThatAreTurnedOffAreVerifiedAllTheSameWithAWarning) {
  Runs job;
  const std::vector<std::string> off = {"SCR_CRC_ON_COPY=0", "SCR_CRC_ON_FLUSH=0", "SCR_FLUSH=1"};
  ::testing::internal::CaptureStderr();
  job.write("one", off);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("SCR_CRC_ON_COPY=0 has no effect"));
  EXPECT_THAT(said, HasSubstr("SCR_CRC_ON_FLUSH=0 has no effect"));
  std::fstream(job.prefix() + "/deep/one/data.1", std::ios::in | std::ios::out) << "X";
  job.expect_restart("", {"SCR_CACHE_PURGE=1", "SCR_CRC_ON_FLUSH=0"});
}

TEST(NamesOfJobAndCluster, AreRecordedWithEachDataset) {
  Runs job;
  job.write("one", {"SCR_FLUSH=1", "SCR_JOB_NAME=ocean", "SCR_CLUSTER_NAME=atlas"});
  const auto index = flush::read_index(real_file_system(), job.prefix());
  ASSERT_EQ(index->entries().size(), 1U);
  EXPECT_EQ(index->entries().front().dataset.job_name, "ocean");
  EXPECT_EQ(index->entries().front().dataset.cluster, "atlas");
}

TEST(EventLogOfARun, GoesWhereItsSettingsSay) {
  const std::vector<std::string> on = {"SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0"};
  for (const bool text : {true, false}) {
    Runs job;
    std::vector<std::string> settings = on;
    settings.push_back(text ? "SCR_LOG_JSON_ENABLE=0" : "SCR_LOG_TXT_ENABLE=0");
    job.write("one", settings);
    EXPECT_EQ(std::filesystem::exists(job.prefix() + "/.scr/log"), text);
    EXPECT_EQ(std::filesystem::exists(job.prefix() + "/.scr/log.jsonl"), !text);
  }
}

// The ranks of the set of rank 0, with four ranks on nodes of their own.
std::vector<int> set_of_the_first(const std::string& setting) {
  testing::TemporaryDirectory root;
  for (const char* name : {"prefix", "control", "cache"})
    std::filesystem::create_directory(root / name);
  const RunOptions options{.calls = {"SCR_PREFIX=" + (root / "prefix"),
                                     "SCR_CNTL_BASE=" + (root / "control"),
                                     "SCR_CACHE_BASE=" + (root / "cache"), "SCR_JOB_ID=7",
                                     "SCR_COPY_TYPE=XOR", "SCR_SET_SIZE=2", setting}};
  std::vector<int> ranks;
  InProcessWorld::run(4, [&](Communicator& comm) {
    NodeStorage storage(root.path().string(), comm.rank());
    auto runtime =
        Runtime::start(storage, comm.duplicate(), fmt::format("node{}", comm.rank()), options);
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    if (comm.rank() != 0) return;
    const auto& sets = (*runtime)->context().redundancy_for(1, /*output=*/false).sets;
    for (const auto& member : sets.front().members) ranks.push_back(member.rank);
  });
  return ranks;
}

TEST(HopDistance, SaysWhoProtectsWhom) {
  EXPECT_THAT(set_of_the_first("SCR_HOP_DISTANCE=1"), ElementsAre(0, 1));
  EXPECT_THAT(set_of_the_first("SCR_HOP_DISTANCE=2"), ElementsAre(0, 2));
}

}  // namespace
}  // namespace scr
