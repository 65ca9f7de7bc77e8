// A flush that is killed at any file operation: the index never names what is not whole, the next
// start ends what was committed, removes or takes up again what was not, and no temporary file
// remains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/routing/marker_store.hpp"
#include "flush/clean_up.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/roll_forward.hpp"
#include "tests/unit/flush_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::IsEmpty;
using Until = TestRun::Until;

constexpr FaultPlan::Action kKill = FaultPlan::Action::kKill;
constexpr FaultPlan::Action kTear = FaultPlan::Action::kTear;

// What SCR_Init does: ends flushes, then removes what is left but for datasets that are still in
// the cache.
void start_again(TestRun& run, std::vector<std::int64_t> cached) {
  Status status = roll_forward(real_file_system(), run.prefix(), nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  status = clean_up(real_file_system(), run.prefix(), cached);
  ASSERT_TRUE(status.ok()) << status.message();
}

// Flushes dataset 2 in a process of its own that dies at the n-th operation. False if it came to
// its end.
bool killed_flush(TestRun& run, const FlushOptions& options, FaultPlan::Action action,
                  std::uint64_t n) {
  const pid_t child = fork();
  if (child == 0) {
    FaultPlan plan;
    plan.action = action;
    plan.n = n;
    if (action == kTear) plan.operations = FaultPlan::bit(Operation::kWrite);
    FaultyFileSystem faulty(real_file_system(), plan);
    run.flush(2, options, [&](int) -> FileSystem& { return faulty; });
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
  return !WIFEXITED(status);
}

struct Case {
  FlushOptions options;
  FaultPlan::Action action;
  std::string name;
};

class KilledAnywhere : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Flush, KilledAnywhere,
                         ::testing::Values(Case{plain_files(), kKill, "PlainFiles"},
                                           Case{plain_files(), kTear, "PlainFilesInAWrite"},
                                           Case{containers(1), kKill, "Containers"},
                                           Case{containers(1), kTear, "ContainersInAWrite"}),
                         [](const auto& param) { return param.param.name; });

TEST_P(KilledAnywhere, IsEndedOrRemovedWithoutATrace) {
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    run.write_dataset(1);
    run.write_dataset(2);
    run.flush_all(1, GetParam().options);
    const auto before = run.snapshot();
    if (!killed_flush(run, GetParam().options, GetParam().action, n)) break;
    ASSERT_LT(n, 1000U);
    SCOPED_TRACE(fmt::format("killed at operation {}", n));
    run.wipe_caches();
    // The index is right already, and after the next start all is clean.
    run.expect_index_tells_the_truth();
    ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
    ASSERT_THAT(run.temporaries(), IsEmpty());
    run.expect_index_tells_the_truth();
    ASSERT_TRUE(run.indexed().contains("scr.dataset.1"));
    if (run.indexed().contains("scr.dataset.2")) {
      EXPECT_EQ(run.index().current(), "scr.dataset.2");
    } else {
      EXPECT_EQ(run.index().current(), "scr.dataset.1");
      EXPECT_TRUE(run.snapshot() == before);
    }
    EXPECT_FALSE(run.snapshot().contains(".scr/scr.dataset.2/flush.scr"));
  }
}

TEST_P(KilledAnywhere, IsTakenUpAgainIfTheCacheStillHasTheData) {
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    run.write_dataset(1);
    run.write_dataset(2);
    run.flush_all(1, GetParam().options);
    if (!killed_flush(run, GetParam().options, GetParam().action, n)) break;
    SCOPED_TRACE(fmt::format("killed at operation {}", n));
    ASSERT_NO_FATAL_FAILURE(start_again(run, {run.dataset(2).created}));
    if (!run.indexed().contains("scr.dataset.2")) {
      ASSERT_NO_FATAL_FAILURE(run.flush_all(2, GetParam().options));
    }
    ASSERT_THAT(run.temporaries(), IsEmpty());
    EXPECT_EQ(run.indexed(), (std::set<std::string>{"scr.dataset.1", "scr.dataset.2"}));
    EXPECT_EQ(run.index().current(), "scr.dataset.2");
    run.expect_index_tells_the_truth();
  }
}

class Killed : public ::testing::TestWithParam<FlushOptions> {
 protected:
  void SetUp() override {
    run_.write_dataset(1);
    run_.write_dataset(2);
    run_.flush_all(1, GetParam());
  }
  TestRun run_;
};

INSTANTIATE_TEST_SUITE_P(Flush, Killed, ::testing::Values(plain_files(), containers(1)),
                         [](const auto& param) {
                           return param.param.containers ? "Containers" : "PlainFiles";
                         });

TEST_P(Killed, BeforeTheSummaryLeavesTemporaryFilesThatCleanUpRemoves) {
  for (Until until : {Until::kPrepared, Until::kCopied}) {
    const auto before = run_.snapshot();
    for (const Status& status : run_.flush(2, GetParam(), TestRun::no_faults, until)) {
      ASSERT_TRUE(status.ok());
    }
    if (until == Until::kCopied) {
      EXPECT_GE(run_.temporaries().size(), 5U);
    }
    EXPECT_EQ(run_.indexed(), std::set<std::string>{"scr.dataset.1"});
    ASSERT_NO_FATAL_FAILURE(start_again(run_, {}));
    EXPECT_TRUE(run_.snapshot() == before);
  }
}

TEST_P(Killed, AfterTheCopyWritesNoDataAgain) {
  run_.flush(2, GetParam(), TestRun::no_faults, Until::kCopied);
  ASSERT_NO_FATAL_FAILURE(start_again(run_, {run_.dataset(2).created}));
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = GetParam().containers ? "*/.ctr.?.scr.scr-*" : "*/ckpt.2/*";
  FaultyFileSystem counting(real_file_system(), plan);
  for (const Status& status :
       run_.flush(2, GetParam(), [&](int) -> FileSystem& { return counting; })) {
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(counting.operations(), 0U);
  run_.expect_index_tells_the_truth();
  EXPECT_EQ(run_.indexed().size(), 2U);
}

// Temporary files that were damaged while nobody looked are not kept.
TEST_P(Killed, AfterTheCopyTrustsOnlyWhatItsChecksumsSay) {
  run_.flush(2, GetParam(), TestRun::no_faults, Until::kCopied);
  for (const std::string& name : run_.temporaries()) {
    std::string bytes = read_bytes(name);
    if (bytes.empty()) continue;
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_bytes(name, bytes);
  }
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(2, GetParam()));
  EXPECT_EQ(run_.indexed().size(), 2U);
  run_.expect_index_tells_the_truth();
  EXPECT_THAT(run_.temporaries(), IsEmpty());
}

TEST_P(Killed, AnotherLayoutThanBeforeStartsAnewAndLeavesNothingOfTheOld) {
  for (const FlushOptions& other : {plain_files(), containers(), containers(2)}) {
    run_.flush(2, GetParam(), TestRun::no_faults, Until::kCopied);
    ASSERT_NO_FATAL_FAILURE(run_.flush_all(2, other));
    EXPECT_THAT(run_.temporaries(), IsEmpty());
    run_.expect_index_tells_the_truth();
    ASSERT_TRUE(delete_dataset(real_file_system(), run_.prefix(), "scr.dataset.2").ok());
  }
}

TEST_P(Killed, AmongTheRenamesWithAFileThatIsGoneIsNotCalledComplete) {
  run_.flush(2, GetParam(), TestRun::no_faults, Until::kCopied);
  // Committed by hand, as if killed after the summary; then a file vanishes.
  Summary summary;
  summary.dataset = run_.dataset(2);
  summary.complete = true;
  if (GetParam().containers) {
    summary.containers = true;
    summary.container_size = 250;
    summary.stream_size = 1123;
    summary.container_count = 5;
  }
  const std::string directory = run_.prefix() + "/.scr/scr.dataset.2";
  ASSERT_TRUE(write_summary(real_file_system(), directory, summary).ok());
  const auto waiting = run_.temporaries();
  ASSERT_FALSE(waiting.empty());
  std::filesystem::remove(waiting.front());
  ASSERT_NO_FATAL_FAILURE(start_again(run_, {}));
  EXPECT_EQ(run_.indexed(), std::set<std::string>{"scr.dataset.1"});
  EXPECT_EQ(run_.index().current(), "scr.dataset.1");
  ASSERT_NE(run_.index().find_directory("scr.dataset.2"), nullptr);
  EXPECT_FALSE(run_.index().find_directory("scr.dataset.2")->complete);
  EXPECT_THAT(run_.temporaries(), IsEmpty());
}

TEST(Killed, AfterAnotherDatasetWasFlushedDoesNotMakeTheOlderOneCurrent) {
  TestRun run;
  for (int id : {1, 2, 3}) run.write_dataset(id);
  run.flush_all(1, plain_files());
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.operations = FaultPlan::bit(Operation::kRename);
  plan.path = "*/ckpt.2/*";
  FaultyFileSystem faulty(real_file_system(), plan);
  for (const Status& status : run.flush(2, plain_files(), TestRun::only(3, faulty))) {
    ASSERT_EQ(status.code(), StatusCode::kIoError);
  }
  run.flush_all(3, plain_files());
  EXPECT_EQ(run.indexed(), (std::set<std::string>{"scr.dataset.1", "scr.dataset.3"}));
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  EXPECT_EQ(run.indexed().size(), 3U);
  EXPECT_EQ(run.index().current(), "scr.dataset.3");
  run.expect_index_tells_the_truth();
}

TEST(CleanUp, LeavesWhatIsNotItsOwn) {
  TestRun run;
  run.write_dataset(1);
  run.flush_all(1, plain_files());
  const std::string scavenged = run.prefix() + "/.scr/scr.dataset.5";
  write_bytes(scavenged + "/0.scrfilemap", "a rank filemap of scr_copy");
  write_bytes(run.prefix() + "/.mine.tmp", "the user's own");
  write_bytes(run.prefix() + "/.scr/notes.txt", "the user's own");
  const auto before = run.snapshot();
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  EXPECT_TRUE(run.snapshot() == before);
}

TEST(CleanUp, KeepsTheUsersFilesInADirectoryThatItRemoves) {
  TestRun run;
  run.write_dataset(2);
  run.flush(2, containers(), TestRun::no_faults, Until::kCopied);
  write_bytes(run.prefix() + "/.scr/scr.dataset.2/notes.txt", "the user's own");
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  EXPECT_THAT(run.temporaries(), IsEmpty());
  EXPECT_EQ(read_bytes(run.prefix() + "/.scr/scr.dataset.2/notes.txt"), "the user's own");
}

TEST(CleanUp, RemovesADirectoryThatWasOnlyJustMade) {
  TestRun run;
  std::filesystem::create_directory(run.prefix() + "/.scr/scr.dataset.3");
  write_bytes(run.prefix() + "/.scr/scr.dataset.4/.flush.scr.tmp.12-0-0badcafe", "half");
  write_bytes(run.prefix() + "/.scr/.index.scr.tmp.12-0-0badcafe", "half");
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  EXPECT_TRUE(std::filesystem::is_empty(run.prefix() + "/.scr"));
}

// A program without our interface writes a name again, past the cache, after the run was killed.
TEST(RollForward, KeepsAFileThatWasWrittenAnewSinceIfTheFlushWouldHave) {
  for (bool keep_newer : {true, false}) {
    TestRun run;
    run.write_dataset(2);
    FlushOptions options = plain_files();
    options.keep_newer = keep_newer;
    FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
    plan.operations = FaultPlan::bit(Operation::kRename);
    plan.path = "*/ckpt.2/*";
    FaultyFileSystem faulty(real_file_system(), plan);
    run.flush(2, options, [&](int) -> FileSystem& { return faulty; });
    const std::string name = run.prefix() + "/ckpt.2/rank_0.h5";
    const std::string newer(300, 'n');
    write_bytes(name, newer);
    std::filesystem::last_write_time(
        name, std::filesystem::last_write_time(run.cache(0, 2) + "/ckpt.2/rank_0.h5") +
                  std::chrono::seconds(5));
    ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
    EXPECT_EQ(read_bytes(name) == newer, keep_newer);
    EXPECT_THAT(run.temporaries(), IsEmpty());
    EXPECT_EQ(run.fetches("scr.dataset.2"), !keep_newer);
  }
}

// The program has deleted a file while its copy was waiting, then was killed.
TEST(RollForward, AFileThatWasDeletedDoesNotMakeTheOthersIncomplete) {
  TestRun run;
  const DatasetDescriptor dataset = run.write_dataset(2);
  FlushOptions options = plain_files();
  options.keep_newer = true;
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRename);
  plan.path = "*/ckpt.2/*";
  FaultyFileSystem faulty(real_file_system(), plan);
  run.flush(2, options, [&](int) -> FileSystem& { return faulty; });
  const std::string file = "ckpt.2/rank_0.h5";
  routing::Marker deleted;
  deleted.file = file;
  deleted.id = 1;
  deleted.dataset = 2;
  deleted.created = dataset.created;
  ASSERT_TRUE(routing::MarkerStore(real_file_system(), run.prefix()).bury(deleted).ok());
  ASSERT_TRUE(std::filesystem::remove(run.prefix() + "/" + temporary_name(file, dataset)));
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  ASSERT_NE(run.index().find_directory("scr.dataset.2"), nullptr);
  EXPECT_TRUE(run.index().find_directory("scr.dataset.2")->complete);
  EXPECT_FALSE(std::filesystem::exists(run.prefix() + "/" + file));
  EXPECT_TRUE(std::filesystem::exists(run.prefix() + "/ckpt.2/rank_3.h5"));
}

TEST(RollForward, ADamagedSummaryCommitsNothing) {
  TestRun run;
  run.write_dataset(2);
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.operations = FaultPlan::bit(Operation::kRename);
  plan.path = "*/ckpt.2/*";
  FaultyFileSystem faulty(real_file_system(), plan);
  run.flush(2, plain_files(), TestRun::only(0, faulty));
  std::filesystem::resize_file(run.prefix() + "/.scr/scr.dataset.2/summary.scr", 50);
  ASSERT_NO_FATAL_FAILURE(start_again(run, {run.dataset(2).created}));
  EXPECT_THAT(run.indexed(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.2"});
  EXPECT_THAT(run.temporaries(), IsEmpty());
  run.expect_index_tells_the_truth();
}

// A scavenge that was cut has said where in the containers its copies are. A flush that goes on in
// its directory may lay them out anew, so that is not true any more. Plain files have their names.
TEST(ScavengeThatWasCut, IsNotBelievedAfterAFlushHasTakenUpItsContainers) {
  for (const bool contained : {false, true}) {
    TestRun run;
    run.write_dataset(1);
    const FlushOptions options = contained ? containers() : plain_files();
    run.flush(1, options, TestRun::no_faults, Until::kPrepared);
    const std::string directory = run.prefix() + "/.scr/scr.dataset.1";
    FilemapEntry entry;
    entry.dataset = run.dataset(1);
    const auto opened = real_file_system().open_directory(directory);
    ASSERT_TRUE(write_rank_filemap(real_file_system(), **opened, 3, entry).ok());
    run.flush(1, options, TestRun::no_faults, Until::kCopied);
    EXPECT_EQ(std::filesystem::exists(directory + "/" + rank_filemap_name(3)), !contained);
    ASSERT_NO_FATAL_FAILURE(run.flush_all(1, options));
    run.expect_index_tells_the_truth();
    EXPECT_FALSE(std::filesystem::exists(directory + "/" + rank_filemap_name(3)));
  }
}

}  // namespace
}  // namespace scr::flush::testing
