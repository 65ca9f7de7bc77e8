// Deletion from the prefix directory: cut anywhere, a dataset is whole or, after the next start,
// gone without a trace; files of others stay, and nobody reads what need not be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flush/clean_up.hpp"
#include "flush/intent.hpp"
#include "flush/roll_forward.hpp"
#include "tests/unit/flush_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kDirectory = "scr.dataset.2";

// All files but the index, which counts its changes.
std::map<std::string, std::string> files_of(const TestRun& run) {
  auto files = run.snapshot();
  files.erase(".scr/index.scr");
  return files;
}

class Delete : public ::testing::TestWithParam<FlushOptions> {
 protected:
  // Two datasets, of which the second will be deleted.
  void prepare(TestRun& run) {
    run.write_dataset(1);
    run.write_dataset(2);
    run.flush_all(1, GetParam());
    others_ = files_of(run);
    run.flush_all(2, GetParam());
  }
  // What is not in the index and has a summary is whole: `scr_index --build` would add it.
  void expect_whole_or_marked(TestRun& run) {
    run.expect_index_tells_the_truth();
    const bool summary = run.snapshot().contains(".scr/scr.dataset.2/summary.scr");
    if (summary) {
      EXPECT_TRUE(run.fetches(kDirectory)) << "a part is gone";
    }
  }
  void expect_kept_or_gone_after_the_next_start(TestRun& run) {
    Status status = roll_forward(real_file_system(), run.prefix(), nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    status = clean_up(real_file_system(), run.prefix(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    run.expect_index_tells_the_truth();
    EXPECT_TRUE(run.indexed().contains("scr.dataset.1"));
    EXPECT_THAT(run.index().deletions(), IsEmpty());
    if (run.indexed().contains(kDirectory)) return;
    EXPECT_EQ(files_of(run), others_);
    EXPECT_FALSE(std::filesystem::exists(run.prefix() + "/.scr/" + kDirectory));
    EXPECT_EQ(run.index().current(), "scr.dataset.1");
  }
  std::map<std::string, std::string> others_;
};

INSTANTIATE_TEST_SUITE_P(Flush, Delete, ::testing::Values(plain_files(), containers(1)),
                         [](const auto& param) {
                           return param.param.containers ? "Containers" : "PlainFiles";
                         });

TEST_P(Delete, KilledAnywhereIsGoneAfterTheNextStartOrHasNotBegun) {
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    ASSERT_NO_FATAL_FAILURE(prepare(run));
    const pid_t child = fork();
    if (child == 0) {
      FaultyFileSystem faulty(real_file_system(), FaultPlan::kill_at(n));
      (void)delete_dataset(faulty, run.prefix(), kDirectory);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) break;
    ASSERT_LT(n, 1000U);
    SCOPED_TRACE(fmt::format("killed at operation {}", n));
    expect_whole_or_marked(run);
    ASSERT_NO_FATAL_FAILURE(expect_kept_or_gone_after_the_next_start(run));
  }
}

TEST_P(Delete, ThatFailsAnywhereIsEndedByTheNextStart) {
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    ASSERT_NO_FATAL_FAILURE(prepare(run));
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    const Status status = delete_dataset(faulty, run.prefix(), kDirectory);
    if (faulty.hits() == 0) break;
    ASSERT_LT(n, 1000U);
    SCOPED_TRACE(fmt::format("operation {} failed: {}", n, status.to_string()));
    if (status.ok()) {
      EXPECT_EQ(files_of(run), others_);
    }
    expect_whole_or_marked(run);
    ASSERT_NO_FATAL_FAILURE(expect_kept_or_gone_after_the_next_start(run));
  }
}

TEST_P(Delete, ThatFailsAnywhereAndIsTriedAgainIsDone) {
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    ASSERT_NO_FATAL_FAILURE(prepare(run));
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    (void)delete_dataset(faulty, run.prefix(), kDirectory);
    if (faulty.hits() == 0) break;
    const Status status = delete_dataset(real_file_system(), run.prefix(), kDirectory);
    ASSERT_TRUE(status.ok()) << "operation " << n << ": " << status.message();
    EXPECT_EQ(files_of(run), others_);
    EXPECT_THAT(run.index().deletions(), IsEmpty());
  }
}

struct DeletePlain : ::testing::Test {
  DeletePlain() {
    run.write_dataset(2);
    run.flush_all(2, plain_files());
  }
  std::string path(const std::string& file) const { return run.prefix() + "/ckpt.2/" + file; }
  void touch(const std::string& file) const {
    std::filesystem::last_write_time(
        path(file), std::filesystem::last_write_time(path(file)) + std::chrono::seconds(5));
  }
  TestRun run;
};

TEST_F(DeletePlain, ReadsNoFileThatNobodyHasTouched) {
  touch("last");
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kOpen);
  plan.path = "*/ckpt.2/*";
  FaultyFileSystem counting(real_file_system(), plan);
  ASSERT_TRUE(delete_dataset(counting, run.prefix(), kDirectory).ok());
  EXPECT_EQ(counting.operations(), 1U) << "only the one whose time is another";
  EXPECT_FALSE(std::filesystem::exists(path("last"))) << "its bytes are the dataset's own";
  EXPECT_FALSE(std::filesystem::exists(path("rank_0.h5")));
}

TEST_F(DeletePlain, KeepsAFileThatIsAnothersNow) {
  const std::string theirs(241, 'x');
  write_bytes(path("last"), theirs);
  touch("last");
  write_bytes(path("rank_3.h5"), "of another size");
  ASSERT_TRUE(delete_dataset(real_file_system(), run.prefix(), kDirectory).ok());
  EXPECT_EQ(read_bytes(path("last")), theirs);
  EXPECT_EQ(read_bytes(path("rank_3.h5")), "of another size");
  EXPECT_FALSE(std::filesystem::exists(path("rank_0.h5")));
}

TEST_F(DeletePlain, AFileThatCannotBeReadIsNotForgottenNorAreThoseAfterIt) {
  touch("rank_0.h5");
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRead);
  plan.path = "*/ckpt.2/rank_0.h5";
  FaultyFileSystem faulty(real_file_system(), plan);
  EXPECT_EQ(delete_dataset(faulty, run.prefix(), kDirectory).code(), StatusCode::kIoError);
  EXPECT_TRUE(std::filesystem::exists(path("rank_0.h5")));
  EXPECT_FALSE(std::filesystem::exists(path("last")));
  // It still cannot be read: no reason not to start.
  EXPECT_TRUE(roll_forward(faulty, run.prefix(), nullptr).ok());
  ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), nullptr).ok());
  EXPECT_THAT(files_of(run), IsEmpty());
}

TEST_F(DeletePlain, ADirectoryThatIsFlushedToAnewIsNotDeleted) {
  ASSERT_TRUE(update_index(real_file_system(), run.prefix(), [](Index& index) -> Status {
                index.remove(kDirectory);
                index.begin_deletion("scr.dataset.3");  // as if its end could not be noted
                return {};
              }).ok());
  run.write_dataset(3);
  run.flush(3, plain_files(), TestRun::no_faults, TestRun::Until::kCopied);
  const auto before = files_of(run);
  ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), nullptr).ok());
  EXPECT_EQ(files_of(run), before);
  EXPECT_THAT(run.index().deletions(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(run.flush_all(3, plain_files()));
  EXPECT_TRUE(run.indexed().contains("scr.dataset.3"));
}

// Directories below the prefix, but our own.
std::set<std::string> directories_of(const TestRun& run) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.prefix())) {
    const std::string name = entry.path().lexically_relative(run.prefix()).string();
    if (!entry.is_symlink() && entry.is_directory() && !name.starts_with(".scr"))
      names.insert(name);
  }
  return names;
}

class MadeDirectories : public ::testing::Test {
 protected:
  void flush_and_delete(int id) {
    run.write_dataset(id);
    ASSERT_NO_FATAL_FAILURE(run.flush_all(id, plain_files()));
    remove(id);
  }
  void remove(int id) {
    const Status status =
        delete_dataset(real_file_system(), run.prefix(), fmt::format("scr.dataset.{}", id));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  TestRun run;
};

TEST_F(MadeDirectories, GoWithTheirLastDataset) {
  run.use_same_names();  // both in ckpt.0
  for (int id : {1, 2}) run.write_dataset(id);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));  // takes the places of 1
  EXPECT_THAT(directories_of(run), ElementsAre("ckpt.0", "ckpt.0/deep", "ckpt.0/deep/er"));
  ASSERT_NO_FATAL_FAILURE(remove(2));
  EXPECT_THAT(directories_of(run), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(run.prefix() + "/.scr/made.scr"));
}

TEST_F(MadeDirectories, OfTheUserStay) {
  std::filesystem::create_directories(run.prefix() + "/ckpt.1/deep");
  ASSERT_NO_FATAL_FAILURE(flush_and_delete(1));
  EXPECT_THAT(directories_of(run), ElementsAre("ckpt.1", "ckpt.1/deep"));
}

TEST_F(MadeDirectories, WithFilesOfTheUserStay) {
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  write_bytes(run.prefix() + "/ckpt.1/deep/mine", "mine");
  ASSERT_NO_FATAL_FAILURE(remove(1));
  EXPECT_THAT(directories_of(run), ElementsAre("ckpt.1", "ckpt.1/deep"));
  EXPECT_EQ(read_bytes(run.prefix() + "/ckpt.1/deep/mine"), "mine");
}

TEST_F(MadeDirectories, ThatTheUserHasMadeAnewStay) {
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  std::filesystem::rename(run.prefix() + "/ckpt.1", run.prefix() + "/moved");
  std::filesystem::create_directories(run.prefix() + "/ckpt.1");
  ASSERT_NO_FATAL_FAILURE(remove(1));
  EXPECT_TRUE(directories_of(run).contains("ckpt.1"));
  EXPECT_TRUE(directories_of(run).contains("moved/deep/er"));
}

TEST_F(MadeDirectories, ALinkInsteadOfOneIsNotFollowed) {
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  std::filesystem::rename(run.prefix() + "/ckpt.1", run.prefix() + "/moved");
  std::filesystem::create_directory_symlink("moved", run.prefix() + "/ckpt.1");
  ASSERT_NO_FATAL_FAILURE(remove(1));
  EXPECT_TRUE(directories_of(run).contains("moved/deep/er"));
}

TEST_F(MadeDirectories, OfAFlushThatWasCutGoWithIt) {
  run.write_dataset(1);
  run.flush(1, plain_files(), TestRun::no_faults, TestRun::Until::kCopied);
  EXPECT_THAT(directories_of(run), SizeIs(3));
  ASSERT_TRUE(clean_up(real_file_system(), run.prefix(), {}).ok());
  EXPECT_THAT(directories_of(run), IsEmpty());
}

TEST_F(MadeDirectories, AListThatIsDamagedRemovesNothing) {
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  write_bytes(run.prefix() + "/.scr/made.scr", "no list");
  ASSERT_NO_FATAL_FAILURE(remove(1));
  EXPECT_THAT(directories_of(run), SizeIs(3));
  ASSERT_NO_FATAL_FAILURE(flush_and_delete(2));
  EXPECT_THAT(directories_of(run), SizeIs(3));
}

}  // namespace
}  // namespace scr::flush::testing
