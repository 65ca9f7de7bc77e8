// The halt file: when a run stops, who asks, and changes by several processes at once.
#include "core/base/halt_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr std::int64_t kNow = 1'298'940'000;

bool halts(const HaltConditions& conditions, HaltQuestion question = HaltQuestion::kRun) {
  return reason_to_halt(conditions, kNow, question).has_value();
}

TEST(ReasonToHalt, ThereIsNoneWithoutConditions) { EXPECT_FALSE(halts({})); }

TEST(ReasonToHalt, NoCheckpointsLeft) {
  EXPECT_FALSE(halts({.checkpoints_left = 1}));
  EXPECT_TRUE(halts({.checkpoints_left = 0}));
}

TEST(ReasonToHalt, OnceTheTimeOfExitAfterHasPassed) {
  EXPECT_FALSE(halts({.exit_after = kNow + 1}));
  EXPECT_FALSE(halts({.exit_after = kNow}));
  EXPECT_TRUE(halts({.exit_after = kNow - 1}));
}

TEST(ReasonToHalt, HaltSecondsBeforeExitBefore) {
  EXPECT_FALSE(halts({.exit_before = kNow + 1201, .halt_seconds = 1200}));
  EXPECT_TRUE(halts({.exit_before = kNow + 1200, .halt_seconds = 1200}));
  EXPECT_FALSE(halts({.exit_before = kNow + 1}));
  EXPECT_TRUE(halts({.exit_before = kNow}));
  EXPECT_FALSE(halts({.halt_seconds = 1200}));
}

std::string reason_of_job(const HaltConditions& conditions, const JobLimits& limits) {
  return reason_to_halt(conditions, kNow, HaltQuestion::kRun, limits).value_or("");
}

TEST(ReasonToHalt, TheEndOfTheJobCountsBesideTheUsersConditions) {
  const JobLimits limits = job_limits("42", kNow + 600, 600);
  EXPECT_THAT(reason_of_job({}, limits),
              HasSubstr("less than 600 seconds (SCR_HALT_SECONDS) are left until the end of the "
                        "job"));
  EXPECT_EQ(reason_of_job({}, job_limits("42", kNow + 601, 600)), "");
  EXPECT_EQ(reason_of_job({}, job_limits("42", 0, 600)), "");
  EXPECT_EQ(reason_of_job({}, job_limits("42", kNow, 0)),
            fmt::format("the end of the job ({}) has come", kNow));
  // The user's seconds win, and the first of both ends.
  EXPECT_EQ(reason_of_job({.halt_seconds = 10}, limits), "");
  EXPECT_THAT(reason_of_job({.halt_seconds = 700}, limits), HasSubstr("700 seconds (HaltSeconds)"));
  EXPECT_THAT(reason_of_job({.exit_before = kNow + 10}, job_limits("42", kNow + 9000, 20)),
              HasSubstr("20 seconds (SCR_HALT_SECONDS) are left until ExitBefore"));
  EXPECT_THAT(reason_of_job({.exit_before = kNow + 9000}, limits), HasSubstr("end of the job"));
  EXPECT_NE(reason_of_job({}, job_limits("42", kNow + 600, 1e300)), "");
}

TEST(ReasonToHalt, TheEndThatScrHaltFoundOutIsForItsJobAlone) {
  const HaltConditions found = {.halt_seconds = 60, .job_end = kNow + 50, .job_id = "42"};
  EXPECT_NE(reason_of_job(found, job_limits("42", 0, 0)), "");
  EXPECT_NE(reason_of_job(found, job_limits("42.s0", 0, 0)), "");  // a process of it outside MPI
  EXPECT_EQ(reason_of_job(found, job_limits("43", 0, 0)), "");
  EXPECT_EQ(reason_of_job(found, job_limits("421", 0, 0)), "");
  EXPECT_EQ(reason_of_job(found, job_limits("42", kNow + 900, 0)), "");  // the job knows better
  EXPECT_EQ(*HaltConditions::from_hash(found.to_hash()), found);
}

TEST(ReasonToHalt, ExtremeTimesDoNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(halts({.exit_before = 0, .halt_seconds = kMost}));
  EXPECT_FALSE(halts({.exit_before = kMost, .halt_seconds = 0}));
  EXPECT_TRUE(halts({.exit_before = -5, .halt_seconds = kMost}));
}

TEST(ReasonToHalt, AnyExitReason) {
  EXPECT_EQ(reason_to_halt({.exit_reason = "maintenance\n"}, kNow), "maintenance\\x0a");
}

TEST(ReasonToHalt, FinalizeStopsTheRelaunchButNotANewRun) {
  const HaltConditions finalized{.exit_reason = std::string(kFinalizeCalled)};
  EXPECT_FALSE(halts(finalized, HaltQuestion::kRun));
  EXPECT_TRUE(halts(finalized, HaltQuestion::kRelaunch));
  HaltConditions both = finalized;
  both.checkpoints_left = 0;
  EXPECT_TRUE(halts(both, HaltQuestion::kRun));
}

TEST(HaltFile, ReadsTheExampleOfTheSeed) {
  Hash hash;
  hash.set_value("CheckpointsLeft", 7);
  hash.set_value("ExitAfter", 1298937600);
  hash.set_value("ExitBefore", 1298944800);
  hash.set_value("HaltSeconds", 1200);
  hash.set_value("ExitReason", "SCR_FINALIZE_CALLED");
  const auto conditions = HaltConditions::from_hash(hash);
  ASSERT_TRUE(conditions.ok());
  EXPECT_EQ(*conditions, (HaltConditions{.checkpoints_left = 7,
                                         .exit_after = 1298937600,
                                         .exit_before = 1298944800,
                                         .halt_seconds = 1200,
                                         .exit_reason = "SCR_FINALIZE_CALLED"}));
  EXPECT_EQ(conditions->to_hash(), hash);
}

TEST(HaltFile, RefusesNumbersThatAreNone) {
  for (const char* key : {"CheckpointsLeft", "ExitAfter", "ExitBefore", "HaltSeconds"}) {
    for (const char* bad : {"", "x", "-1", "1.5", "9223372036854775808"}) {
      Hash hash;
      hash.set_value(key, bad);
      const auto conditions = HaltConditions::from_hash(hash);
      ASSERT_FALSE(conditions.ok()) << key << "=" << bad;
      EXPECT_THAT(std::string(conditions.status().message()), HasSubstr(key));
    }
  }
  Hash two;
  two.at("ExitReason").at("a");
  two.at("ExitReason").at("b");
  EXPECT_FALSE(HaltConditions::from_hash(two).ok());
}

class HaltFileOnDisk : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  FileSystem& fs_ = real_file_system();
  At at_ = directory_ / std::string(kHaltFileName);
};

TEST_F(HaltFileOnDisk, NoFileMeansNoConditionsAndNoneIsMade) {
  EXPECT_EQ(*read_halt_file(fs_, at_), HaltConditions());
  EXPECT_EQ(*count_checkpoint(fs_, at_), HaltConditions());
  EXPECT_EQ(*clear_finalize_called(fs_, at_), HaltConditions());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(HaltFileOnDisk, CountsCheckpointsDownToZero) {
  ASSERT_TRUE(update_halt_file(fs_, at_, [](auto& halt) { halt.checkpoints_left = 2; }).ok());
  EXPECT_EQ(count_checkpoint(fs_, at_)->checkpoints_left, 1);
  EXPECT_EQ(count_checkpoint(fs_, at_)->checkpoints_left, 0);
  EXPECT_EQ(count_checkpoint(fs_, at_)->checkpoints_left, 0);
  EXPECT_EQ(read_halt_file(fs_, at_)->checkpoints_left, 0);
}

TEST_F(HaltFileOnDisk, KeepsKeysOfOthersAndRemovesConditions) {
  Hash hash;
  hash.set_value("ExitAfter", 5);
  hash.set_value("Theirs", "stays");
  ASSERT_TRUE(write_hash_file(fs_, at_, hash, Durability::kVolatile).ok());
  ASSERT_TRUE(update_halt_file(fs_, at_, [](auto& halt) {
                halt.exit_after.reset();
                halt.halt_seconds = 3;
              }).ok());
  const auto read = read_hash_file(fs_, at_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->value("Theirs"), "stays");
  EXPECT_EQ(read->value("HaltSeconds"), "3");
  EXPECT_FALSE(read->contains("ExitAfter"));
}

TEST_F(HaltFileOnDisk, OnlyTheReasonOfFinalizeIsCleared) {
  const auto set = [&](std::string_view reason) {
    return update_halt_file(fs_, at_, [&](auto& halt) { halt.exit_reason = reason; }).ok();
  };
  ASSERT_TRUE(set("maintenance"));
  EXPECT_EQ(clear_finalize_called(fs_, at_)->exit_reason, "maintenance");
  ASSERT_TRUE(set(kFinalizeCalled));
  EXPECT_EQ(clear_finalize_called(fs_, at_)->exit_reason, "");
  EXPECT_EQ(read_halt_file(fs_, at_)->exit_reason, "");
}

TEST_F(HaltFileOnDisk, ADamagedFileIsAnErrorThatNamesIt) {
  Hash hash;
  hash.set_value("ExitAfter", "soon");
  ASSERT_TRUE(write_hash_file(fs_, at_, hash, Durability::kVolatile).ok());
  const auto read = read_halt_file(fs_, at_);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr(at_.path + "' is not a valid halt file: key 'ExitAfter'"));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("'scr_halt --unset' takes it away"));
  EXPECT_FALSE(update_halt_file(fs_, at_, [](auto&) {}).ok());
}

TEST_F(HaltFileOnDisk, ADamagedFileIsReplacedIfAskedFor) {
  const std::string_view garbage = "garbage";
  Hash no_number;
  no_number.set_value("ExitAfter", "soon");
  for (const bool is_hash : {false, true}) {
    ASSERT_TRUE((is_hash ? write_hash_file(fs_, at_, no_number, Durability::kVolatile)
                         : fs_.write_file_atomically(at_, std::as_bytes(std::span(garbage)), false))
                    .ok());
    Status damage;
    ASSERT_TRUE(update_halt_file(
                    fs_, at_, [](auto&) {}, &damage)
                    .ok());
    EXPECT_THAT(std::string(damage.message()), HasSubstr(at_.path));
    const auto read = read_halt_file(fs_, at_);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, HaltConditions());
  }
}

TEST_F(HaltFileOnDisk, NoChangeOfSeveralProcessesIsLost) {
  constexpr int kProcesses = 4;
  constexpr int kEach = 10;
  ASSERT_TRUE(update_halt_file(fs_, at_, [](auto& halt) {
                halt.checkpoints_left = kProcesses * kEach + 1;
              }).ok());
  for (int i = 0; i < kProcesses; ++i) {
    if (::fork() != 0) continue;
    int failed = 0;
    for (int n = 0; n < kEach; ++n) failed += count_checkpoint(fs_, at_).ok() ? 0 : 1;
    ::_exit(failed);
  }
  for (int i = 0; i < kProcesses; ++i) {
    int status = 0;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_halt_file(fs_, at_)->checkpoints_left, 1);
}

}  // namespace
}  // namespace scr
