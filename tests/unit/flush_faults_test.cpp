// The N-th file operation of one rank fails, for every N of a small flush and a small fetch:
// reported on all ranks alike, without a hang; what was flushed before stays, and the next try
// succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flush/clean_up.hpp"
#include "flush/roll_forward.hpp"
#include "tests/unit/flush_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  FlushOptions options;
  int rank;
  FaultPlan plan;
  std::string name;
};

FaultPlan short_transfers() {
  FaultPlan plan;
  plan.action = FaultPlan::Action::kShort;
  plan.operations = FaultPlan::bit(Operation::kRead) | FaultPlan::bit(Operation::kWrite);
  return plan;
}

// Rank 2 writes no files but copies for its node; rank 3 has files, and rank 0 the metadata.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (bool contained : {false, true}) {
    for (int rank : {0, 2, 3}) {
      if (!contained && rank == 2) continue;
      const auto options = contained ? containers(1) : plain_files();
      const std::string where =
          fmt::format("{}Rank{}", contained ? "Containers" : "PlainFiles", rank);
      all.push_back({options, rank, FaultPlan::fail_at(1, EIO), where + "Eio"});
      all.push_back({options, rank, FaultPlan::fail_at(1, ENOSPC), where + "Enospc"});
      all.push_back(
          {options, rank, FaultPlan::fail_at(1, EIO, FaultPlan::kForever), where + "EioForEver"});
      all.push_back({options, rank, short_transfers(), where + "Short"});
    }
  }
  return all;
}

class AnyOperation : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Faults, AnyOperation, ::testing::ValuesIn(cases()),
                         [](const auto& param) { return param.param.name; });

int failures(const std::vector<Status>& result) {
  int failed = 0;
  for (const Status& status : result) failed += status.ok() ? 0 : 1;
  return failed;
}

TEST_P(AnyOperation, OfAFlushThatFailsIsReportedOnAllRanks) {
  FaultPlan plan = GetParam().plan;
  const FlushOptions& options = GetParam().options;
  for (plan.n = 1;; ++plan.n) {
    TestRun run;
    run.write_dataset(1);
    run.write_dataset(2);
    ASSERT_NO_FATAL_FAILURE(run.flush_all(1, options));
    FaultyFileSystem faulty(real_file_system(), plan);
    const auto result = run.flush(2, options, TestRun::only(GetParam().rank, faulty));
    if (faulty.hits() == 0) {
      if (plan.action == FaultPlan::Action::kFail) {
        EXPECT_GT(plan.n, GetParam().rank == 0 ? 30U : 2U);
      }
      break;
    }
    ASSERT_LT(plan.n, 1000U);
    SCOPED_TRACE(fmt::format("operation {}", plan.n));
    ASSERT_TRUE(failures(result) == 0 || failures(result) == 4) << result[0].message();
    for (const Status& status : result) {
      EXPECT_EQ(status.ok(), failures(result) == 0);
      // Only a file that seems to end too early looks like damage.
      const bool cut = plan.action == FaultPlan::Action::kShort;
      EXPECT_TRUE(status.ok() || status.is_transient() || cut) << status.to_string();
    }
    if (failures(result) == 0) {
      EXPECT_TRUE(run.indexed().contains("scr.dataset.2"));
    }
    EXPECT_TRUE(run.indexed().contains("scr.dataset.1"));
    run.expect_index_tells_the_truth();
    // The cache still has it: the next try brings it there, once, and cleans up.
    if (failures(result) > 0) {
      ASSERT_NO_FATAL_FAILURE(run.flush_all(2, options));
    }
    ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), nullptr).ok());
    ASSERT_TRUE(clean_up(real_file_system(), run.prefix(), {}).ok());
    // A directory that could neither be used nor removed is not used again.
    const std::string name = run.index().find_name("ckpt 2")->directory;
    EXPECT_THAT(name, AnyOf("scr.dataset.2", "scr.dataset.2.1"));
    EXPECT_EQ(run.indexed(), (std::set<std::string>{"scr.dataset.1", name}));
    EXPECT_THAT(run.temporaries(), IsEmpty());
    run.expect_index_tells_the_truth();
  }
}

TEST_P(AnyOperation, OfAFetchThatFailsIsReportedAndTheNextFetchSucceeds) {
  FaultPlan plan = GetParam().plan;
  TestRun run;
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, GetParam().options));
  for (plan.n = 1;; ++plan.n) {
    FaultyFileSystem faulty(real_file_system(), plan);
    const auto result = run.fetch("scr.dataset.1", TestRun::only(GetParam().rank, faulty));
    if (faulty.hits() == 0) break;
    ASSERT_LT(plan.n, 1000U);
    ASSERT_TRUE(failures(result) == 0 || failures(result) == 4) << "operation " << plan.n;
    EXPECT_TRUE(run.fetches("scr.dataset.1"));
  }
}

TEST(Faults, AQuotaIsCalledAQuotaOnAllRanks) {
  TestRun run;
  run.write_dataset(1);
  FaultPlan plan = FaultPlan::fail_at(1, EDQUOT);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = "*/ckpt.1/*";
  FaultyFileSystem faulty(real_file_system(), plan);
  for (const Status& status : run.flush(1, plain_files(), TestRun::only(3, faulty))) {
    EXPECT_EQ(status.code(), StatusCode::kNoSpace);
    EXPECT_THAT(std::string(status.message()), HasSubstr("quota"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ckpt.1/.rank_3.h5"));
  }
}

}  // namespace
}  // namespace scr::flush::testing
