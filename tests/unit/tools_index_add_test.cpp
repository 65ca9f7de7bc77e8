// `scr_index --add` of what a scavenge had brought to the prefix directory when the nodes went
// away.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/faulty_filesystem.hpp"
#include "flush/clean_up.hpp"
#include "flush/flush.hpp"
#include "tests/unit/scavenge_damage.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "tools/index/dataset_files.hpp"
#include "tools/index/index_changes.hpp"

namespace scr::tools {
namespace {

using flush::testing::ScavengeJob;
using flush::testing::Stopped;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Form {
  bool containers;
  bool shared;
};

class AddScavenged : public ::testing::TestWithParam<Form> {
 protected:
  AddScavenged() : job(settings()) { job.shared = GetParam().shared; }

  // Copied by all nodes that are left, then killed; then no node is left.
  void scavenge_and_lose_all() {
    const Stopped stopped(job);
    for (int node = 0; node < ScavengeJob::kNodes; ++node) job.lose(node);
  }

  void expect_added() {
    const auto name = add_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
    ASSERT_TRUE(name.ok()) << name.status().to_string();
    EXPECT_EQ(*name, "step 1");
    flush::SavedDataset saved;
    saved.directory = "scr.dataset.1";
    job.expect_saved(saved, 1);
    std::vector<std::string> warnings;
    const auto rows = list_datasets(real_file_system(), job.prefix(), {}, warnings);
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), 1U);
    const auto files = files_of(real_file_system(), job.prefix(), rows->front());
    ASSERT_TRUE(files.ok());
    EXPECT_THAT(*files, Not(IsEmpty()));
    for (const DatasetFile& file : *files) {
      const Status right = verify_file(real_file_system(), job.prefix(), file);
      EXPECT_TRUE(right.ok()) << right.to_string();
    }
  }

  static std::vector<std::string> settings() {
    return GetParam().containers ? flush::testing::in_containers() : std::vector<std::string>{};
  }
  ScavengeJob job;
};

INSTANTIATE_TEST_SUITE_P(Layouts, AddScavenged,
                         ::testing::Values(Form{false, false}, Form{true, false}, Form{false, true},
                                           Form{true, true}),
                         [](const auto& form) {
                           return std::string(form.param.containers ? "Containers" : "Files") +
                                  (form.param.shared ? "WithShared" : "");
                         });

TEST_P(AddScavenged, WhatAllNodesHaveCopiedIsCommitted) {
  job.write({1});
  scavenge_and_lose_all();
  expect_added();
}

TEST_P(AddScavenged, WhatALostNodeHadIsRebuilt) {
  job.write({1});
  job.lose(2);
  scavenge_and_lose_all();
  expect_added();
}

TEST_P(AddScavenged, TheNextStartOfTheProgramLeavesItAndNamesTheCommand) {
  job.write({1});
  job.lose(2);
  scavenge_and_lose_all();
  ::testing::internal::CaptureStderr();
  const Status cleaned = flush::clean_up(real_file_system(), job.prefix(), {});
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(cleaned.ok()) << cleaned.to_string();
  EXPECT_THAT(said, HasSubstr("'scr_index --prefix " + job.prefix() + " --add scr.dataset.1'"));
  expect_added();
}

TEST_P(AddScavenged, WithTooMuchLostItIsRefusedAndNothingChanges) {
  job.write({1});
  job.lose(1);
  job.lose(2);
  scavenge_and_lose_all();
  const auto before = ScavengeJob::snapshot(job.prefix());
  const auto name = add_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
  EXPECT_EQ(name.status().code(), StatusCode::kUnrecoverable) << name.status().to_string();
  EXPECT_EQ(ScavengeJob::snapshot(job.prefix()), before);
  // There is nothing to be kept in that.
  ASSERT_TRUE(flush::clean_up(real_file_system(), job.prefix(), {}).ok());
  EXPECT_THAT(job.leftovers(), IsEmpty());
}

TEST_P(AddScavenged, ACheckpointGoesOnceThereIsANewerOne) {
  job.write({1});
  scavenge_and_lose_all();
  for (int node = 0; node < ScavengeJob::kNodes; ++node)
    std::filesystem::create_directories(job.local(node));
  job.write({2}, {"SCR_FLUSH=1"});
  ASSERT_EQ(job.index().entries().size(), 1U);
  ASSERT_THAT(job.leftovers(), Not(IsEmpty()));  // nothing newer was there when it began
  ASSERT_TRUE(flush::clean_up(real_file_system(), job.prefix(), {}).ok());
  EXPECT_THAT(job.leftovers(), IsEmpty());
}

// The summary is there, names are not given yet: no file may be left under its temporary name.
TEST_P(AddScavenged, AFlushThatWasCommittedIsEnded) {
  job.write({1});
  scavenge_and_lose_all();
  for (std::uint64_t n = 1;; ++n) {
    ASSERT_LT(n, 10'000U);
    FaultyFileSystem dead(real_file_system(), FaultPlan::fail_at(n, EIO, FaultPlan::kForever));
    (void)add_dataset(dead, job.prefix(), "scr.dataset.1");
    const bool committed =
        std::filesystem::exists(job.dataset_path("scr.dataset.1") + "/summary.scr");
    if (committed && job.index().entries().empty()) break;
    ASSERT_GT(dead.hits(), 0U) << "it was never committed and not indexed";
  }
  expect_added();
}

TEST(CurrentDataset, IsACheckpoint) {
  ScavengeJob job({"SCR_CACHE_SIZE=3"});
  job.write({1, -2}, {"SCR_FLUSH=1"});
  const Status refused = set_current(real_file_system(), job.prefix(), "2");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is no checkpoint"));
  EXPECT_EQ(job.index().current(), "scr.dataset.1");
  EXPECT_TRUE(set_current(real_file_system(), job.prefix(), "1").ok());
  EXPECT_GT(job.index().chosen(), 0);
}

TEST(AddToIndex, WhatIsNoDatasetDirectoryIsRefused) {
  ScavengeJob job;
  std::filesystem::create_directories(job.dataset_path("scr.dataset.9"));
  for (const char* name : {"scr.dataset.9", "scr.dataset.8", "../run"})
    EXPECT_FALSE(add_dataset(real_file_system(), job.prefix(), name).ok()) << name;
}

// Two checkpoints, of which the newer one could not be fetched.
class ClearFailed : public ::testing::Test {
 protected:
  void make_index(const std::string& current, bool complete = true) {
    std::filesystem::create_directories(root_ / ".scr");
    const Status made = flush::update_index(fs_, root_.path(), [&](flush::Index& index) {
      for (int id : {1, 2}) {
        flush::IndexEntry entry;
        entry.directory = fmt::format("scr.dataset.{}", id);
        entry.dataset.id = entry.dataset.checkpoint = id;
        entry.dataset.name = fmt::format("step {}", id);
        entry.dataset.ranks = 1;
        entry.complete = id == 1 || complete;
        if (id == 2) entry.failed = {"2026-01-02T03:04:05"};
        index.put(entry);
      }
      index.set_current(current);
      return Status();
    });
    ASSERT_TRUE(made.ok()) << made.message();
  }
  RestartAfterClear clear() {
    const auto after = clear_failed(fs_, root_.path(), "2");
    EXPECT_TRUE(after.ok()) << after.status().message();
    return after.ok() ? *after : RestartAfterClear();
  }

  FileSystem& fs_ = real_file_system();
  testing::TemporaryDirectory root_;
};

TEST_F(ClearFailed, ARestartTakesItIfItIsCurrent) {
  make_index("scr.dataset.2");
  const RestartAfterClear after = clear();
  EXPECT_EQ(after.cleared, "step 2");
  EXPECT_EQ(after.restart, "step 2");
  EXPECT_FALSE(after.passes_over);
}

TEST_F(ClearFailed, ARestartPassesItOverIfARunFellBackToAnOlderOne) {
  make_index("scr.dataset.1");
  const RestartAfterClear after = clear();
  EXPECT_EQ(after.restart, "step 1");
  EXPECT_TRUE(after.passes_over);
}

TEST_F(ClearFailed, OneThatIsNotCompleteIsNeverTaken) {
  make_index("scr.dataset.1", /*complete=*/false);
  EXPECT_FALSE(clear().passes_over);
}

}  // namespace
}  // namespace scr::tools
