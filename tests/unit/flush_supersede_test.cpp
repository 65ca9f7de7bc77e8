// A program that writes the same file names at each step: once a newer dataset has replaced files
// of an older one in the prefix directory, the older one is gone from the index too, in an order
// that a crash cannot spoil.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flush/clean_up.hpp"
#include "flush/roll_forward.hpp"
#include "tests/unit/flush_fixture.hpp"
#include "tests/unit/forwarding_filesystem.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool has_directory(const TestRun& run, int id) {
  return std::filesystem::exists(run.prefix() + fmt::format("/.scr/scr.dataset.{}", id));
}

struct SameNames : ::testing::Test {
  SameNames() {
    run.use_same_names();
    for (int id : {1, 2, 3}) run.write_dataset(id);
  }
  TestRun run;
};

TEST_F(SameNames, TheNewerDatasetTakesThePlaceOfTheOlder) {
  for (int id : {1, 2, 3}) {
    ASSERT_NO_FATAL_FAILURE(run.flush_all(id, plain_files()));
    EXPECT_EQ(run.indexed(), std::set<std::string>{fmt::format("scr.dataset.{}", id)});
    EXPECT_EQ(run.index().current(), fmt::format("scr.dataset.{}", id));
    run.expect_index_tells_the_truth();
    EXPECT_FALSE(has_directory(run, id - 1));
  }
  EXPECT_THAT(run.temporaries(), IsEmpty());
}

TEST_F(SameNames, InContainersAllAreKept) {
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, containers()));
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));
  ASSERT_NO_FATAL_FAILURE(run.flush_all(3, containers()));
  EXPECT_EQ(run.indexed().size(), 3U);
  run.expect_index_tells_the_truth();
}

TEST_F(SameNames, AnOlderDatasetDoesNotReplaceANewerOne) {
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));
  const auto before = run.snapshot();
  for (const Status& status : run.flush(1, plain_files())) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("files of the newer dataset 2"));
  }
  EXPECT_TRUE(run.snapshot() == before);
}

TEST_F(SameNames, AnotherCopyOfTheSameDatasetIsNoRival) {
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  EXPECT_TRUE(run.indexed().contains("scr.dataset.1"));
  run.expect_index_tells_the_truth();
}

TEST(Supersede, OneCommonNameIsEnoughWhoeverWroteIt) {
  TestRun run;
  run.write_dataset(1);
  run.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));
  // Rank 3 of a later dataset writes what rank 0 of the first one wrote.
  std::vector<std::vector<Superseded>> found(4);
  InProcessWorld::run(4, [&](Communicator& world) {
    RankFiles mine;
    if (world.rank() == 3) {
      mine.emplace_back();
      mine.back().file = "ckpt.1/rank_0.h5";
    }
    DatasetDescriptor later;
    later.id = 9;
    later.created = run.dataset(2).created + 1;
    auto result = find_superseded(world, real_file_system(), run.prefix(), later, mine);
    ASSERT_TRUE(result.ok()) << result.status().message();
    found[static_cast<std::size_t>(world.rank())] = *result;
  });
  EXPECT_EQ(found[0], (std::vector<Superseded>{{"scr.dataset.1", run.dataset(1).created}}));
}

TEST(Supersede, NobodyLooksFurtherIfNoFileIsReplaced) {
  TestRun run;
  run.write_dataset(1);
  run.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kOpen);
  plan.path = "*/scr.dataset.1/*";
  FaultyFileSystem counting(real_file_system(), plan);
  for (const Status& status :
       run.flush(2, plain_files(), [&](int) -> FileSystem& { return counting; })) {
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(counting.operations(), 0U);
}

// False if the flush of dataset 2 came to its end before the n-th operation.
bool killed_flush(TestRun& run, std::uint64_t n) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem faulty(real_file_system(), FaultPlan::kill_at(n));
    run.flush(2, plain_files(), [&](int) -> FileSystem& { return faulty; });
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return !WIFEXITED(status);
}

void start_again(TestRun& run, std::vector<std::int64_t> cached) {
  Status status = roll_forward(real_file_system(), run.prefix(), nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  status = clean_up(real_file_system(), run.prefix(), cached);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(Supersede, KilledAnywhereLeavesTheOldOrTheNewDatasetWhole) {
  int ended_with_old = 0;
  int ended_with_new = 0;
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    run.use_same_names();
    run.write_dataset(1);
    run.write_dataset(2);
    run.flush_all(1, plain_files());
    if (!killed_flush(run, n)) break;
    ASSERT_LT(n, 1000U);
    SCOPED_TRACE(fmt::format("killed at operation {}", n));
    run.expect_index_tells_the_truth();
    ASSERT_NO_FATAL_FAILURE(start_again(run, {run.dataset(2).created}));
    const auto indexed = run.indexed();
    ASSERT_EQ(indexed.size(), 1U);
    run.expect_index_tells_the_truth();
    EXPECT_EQ(run.index().current(), *indexed.begin());
    if (indexed.contains("scr.dataset.1")) {
      ++ended_with_old;
      ASSERT_NO_FATAL_FAILURE(run.flush_all(2, plain_files()));
    } else {
      ++ended_with_new;
    }
    EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.2"});
    run.expect_index_tells_the_truth();
    EXPECT_FALSE(has_directory(run, 1));
    EXPECT_THAT(run.temporaries(), IsEmpty());
    EXPECT_FALSE(run.snapshot().contains(".scr/scr.dataset.2/flush.scr"));
  }
  EXPECT_GT(ended_with_old, 10);
  EXPECT_GT(ended_with_new, 10);
}

// An operation that fails instead: the program lives on, or starts again, and its next flush sets
// things right.
class AFailureAnywhere : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(AFailureAnywhere, IsMendedByTheNextFlush) {
  const auto [rank, restarts] = GetParam();
  for (std::uint64_t n = 1;; ++n) {
    TestRun run;
    run.use_same_names();
    for (int id : {1, 2, 3}) run.write_dataset(id);
    run.flush_all(1, plain_files());
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    run.flush(2, plain_files(), TestRun::only(rank, faulty));
    if (faulty.hits() == 0) break;
    ASSERT_LT(n, 1000U);
    SCOPED_TRACE(fmt::format("operation {} failed", n));
    if (restarts) {
      ASSERT_NO_FATAL_FAILURE(start_again(run, {run.dataset(2).created}));
    }
    ASSERT_NO_FATAL_FAILURE(run.flush_all(3, plain_files()));
    EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.3"});
    run.expect_index_tells_the_truth();
    // Nor does an older flush come over it later: another try of this run, or the next start.
    run.flush(2, plain_files());
    ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
    EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.3"});
    EXPECT_EQ(run.index().current(), "scr.dataset.3");
    run.expect_index_tells_the_truth();
    EXPECT_THAT(run.temporaries(), IsEmpty());
    EXPECT_FALSE(has_directory(run, 1));
    EXPECT_FALSE(has_directory(run, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Supersede, AFailureAnywhere,
                         ::testing::Combine(::testing::Values(0, 3), ::testing::Bool()),
                         [](const auto& how) {
                           return fmt::format(
                               "OfRank{}{}", std::get<0>(how.param),
                               std::get<1>(how.param) ? "ThenAStart" : "TheProgramLivesOn");
                         });

// Dataset 2 is committed, and rank 3 can rename nothing: its files wait.
void commit_without_renames(TestRun& run) {
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRename);
  FaultyFileSystem faulty(real_file_system(), plan);
  for (const Status& status : run.flush(2, plain_files(), TestRun::only(3, faulty)))
    ASSERT_FALSE(status.ok());
  ASSERT_TRUE(std::filesystem::exists(run.prefix() + "/.scr/scr.dataset.2/summary.scr"));
}

TEST_F(SameNames, OneThatWasCommittedIsEndedBeforeItIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(commit_without_renames(run));
  // No file is there yet at the names of rank 3; of dataset 3, it alone has files.
  for (int rank : {0, 1}) run.leave_out_files(3, rank);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(3, plain_files()));
  ASSERT_NO_FATAL_FAILURE(start_again(run, {}));
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.3"});
  run.expect_index_tells_the_truth();
}

// As a version that did not look for such flushes left it.
TEST_F(SameNames, AFlushThatIsEndedLateDoesNotReplaceTheFilesOfANewerDataset) {
  ASSERT_NO_FATAL_FAILURE(commit_without_renames(run));
  const std::string directory = run.prefix() + "/.scr/scr.dataset.2";
  std::filesystem::rename(directory, run.prefix() + "/.scr/aside");
  ASSERT_NO_FATAL_FAILURE(run.flush_all(3, plain_files()));
  std::filesystem::rename(run.prefix() + "/.scr/aside", directory);
  std::vector<std::string> rolled;
  ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), &rolled).ok());
  EXPECT_THAT(rolled, IsEmpty());
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.3"});
  EXPECT_EQ(run.index().entries().size(), 1U);
  run.expect_index_tells_the_truth();
  EXPECT_THAT(run.temporaries(), IsEmpty());
  EXPECT_FALSE(has_directory(run, 2));
}

// Processes that work alone share the prefix directory: at the instant at which one of them gives
// its first file or container a name, another does something.
class AtTheFirstName : public ::scr::testing::ForwardingFileSystem {
 public:
  explicit AtTheFirstName(std::function<void()> act) : act_(std::move(act)) {}
  Status rename(const At& from, const At& to, bool exclusive) override {
    const bool data = to.path.ends_with("/rank_0.h5") || to.path.ends_with("/ctr.0.scr");
    if (data && act_) std::exchange(act_, nullptr)();
    return inner_.rename(from, to, exclusive);
  }
  bool acted() const { return !act_; }

 private:
  std::function<void()> act_;
};

TEST_F(SameNames, AFlushThatAnotherProcessEndsAtTheSameInstantIsEnded) {
  for (const FlushOptions& options : {plain_files(), containers(1)}) {
    run.clear_prefix();
    AtTheFirstName meanwhile(
        [this] { ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), nullptr).ok()); });
    for (const Status& status : run.flush(2, options, TestRun::only(0, meanwhile)))
      EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(meanwhile.acted());
    EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.2"});
    run.expect_index_tells_the_truth();
    EXPECT_THAT(run.temporaries(), IsEmpty());
    EXPECT_FALSE(run.snapshot().contains(".scr/scr.dataset.2/flush.scr"));
  }
}

// The other one's dataset is newer, so it ends this flush and takes the places of its files.
TEST_F(SameNames, AFlushThatIsReplacedAtTheSameInstantDoesNotComeBackToTheIndex) {
  AtTheFirstName meanwhile([this] { run.flush_all(3, plain_files()); });
  for (const Status& status : run.flush(2, plain_files(), TestRun::only(0, meanwhile)))
    EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(meanwhile.acted());
  EXPECT_EQ(run.index().entries().size(), 1U);
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.3"});
  run.expect_index_tells_the_truth();
  EXPECT_THAT(run.temporaries(), IsEmpty());
  EXPECT_FALSE(has_directory(run, 2));
}

// A file that nobody has renamed is gone all the same.
TEST_F(SameNames, AFileThatVanishesBeforeItGetsItsNameIsAFailedFlush) {
  AtTheFirstName meanwhile([this] {
    std::filesystem::remove(run.prefix() + "/" +
                            temporary_name("ckpt.0/rank_0.h5", run.dataset(2)));
  });
  const auto statuses = run.flush(2, plain_files(), TestRun::only(0, meanwhile));
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("vanished"));
  EXPECT_THAT(run.indexed(), IsEmpty());
}

// Other bytes of the same size at the name of a file that does not wait any more.
TEST_F(SameNames, AFileThatSomebodyReplacedIsNotTakenForTheFlushedOne) {
  ASSERT_NO_FATAL_FAILURE(commit_without_renames(run));
  write_bytes(run.prefix() + "/ckpt.0/rank_0.h5", std::string(300, 'x'));
  ASSERT_TRUE(roll_forward(real_file_system(), run.prefix(), nullptr).ok());
  ASSERT_NE(run.index().find_directory("scr.dataset.2"), nullptr);
  EXPECT_FALSE(run.index().find_directory("scr.dataset.2")->complete);
}

// Processes that work alone count each for itself, so the later dataset may have the smaller id.
TEST_F(SameNames, WhatWasWrittenLaterIsNewerWhateverItsId) {
  ASSERT_NO_FATAL_FAILURE(run.flush_all(3, plain_files()));
  run.set_created(1, run.dataset(3).created + 1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.1"});
  run.expect_index_tells_the_truth();
  for (const Status& status : run.flush(2, plain_files()))
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  run.expect_index_tells_the_truth();
}

// Programs that do not call h5scr: the times of the files decide.
TEST_F(SameNames, WhereFilesWrittenPastTheCacheStayTheirTimesDecide) {
  FlushOptions options = plain_files();
  options.keep_newer = true;
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, options));
  run.set_created(2, run.dataset(1).created - 1);  // opened before, written after
  ASSERT_NO_FATAL_FAILURE(run.flush_all(2, options));
  EXPECT_EQ(run.indexed(), std::set<std::string>{"scr.dataset.2"});
  run.expect_index_tells_the_truth();
}

}  // namespace
}  // namespace scr::flush::testing
