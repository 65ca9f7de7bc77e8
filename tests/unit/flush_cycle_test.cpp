// Flush, loss of all caches, fetch: four ranks on two nodes, with and without containers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "flush/clean_up.hpp"
#include "flush/pacer.hpp"
#include "flush/parity.hpp"
#include "tests/unit/flush_fixture.hpp"
#include "tests/unit/recording_filesystem.hpp"

namespace scr::flush::testing {
namespace {

using ::scr::testing::RecordingFileSystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

class Cycle : public ::testing::TestWithParam<FlushOptions> {
 protected:
  TestRun run_;
};

INSTANTIATE_TEST_SUITE_P(Flush, Cycle,
                         ::testing::Values(plain_files(), containers(), containers(1),
                                           containers(2)),
                         [](const auto& param) {
                           return param.param.containers ? fmt::format("Containers{}Parity",
                                                                       param.param.container_parity)
                                                         : std::string("PlainFiles");
                         });

TEST_P(Cycle, EveryByteComesBackAfterAllCachesAreLost) {
  run_.write_dataset(1);
  run_.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, GetParam()));
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(2, GetParam()));
  run_.wipe_caches();
  EXPECT_THAT(run_.temporaries(), IsEmpty());
  EXPECT_EQ(run_.index().current(), "scr.dataset.2");
  EXPECT_TRUE(run_.fetches("scr.dataset.1"));
  EXPECT_TRUE(run_.fetches("scr.dataset.2"));
}

TEST_P(Cycle, ThePrefixDirectoryMayMove) {
  run_.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, GetParam()));
  run_.move_prefix("elsewhere");
  EXPECT_TRUE(run_.fetches("scr.dataset.1"));
  run_.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(2, GetParam()));
  run_.expect_index_tells_the_truth();
}

TEST_P(Cycle, TheIndexSaysWhatWasFlushed) {
  run_.write_dataset(7);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(7, GetParam()));
  const Index index = run_.index();
  ASSERT_EQ(index.entries().size(), 1U);
  EXPECT_EQ(index.entries()[0].dataset, run_.dataset(7));
  EXPECT_TRUE(index.entries()[0].complete);
  EXPECT_THAT(run_.snapshot(), ::testing::Not(Contains(Key(".scr/scr.dataset.7/flush.scr"))));
}

TEST_P(Cycle, AnyWidthWillDo) {
  run_.write_dataset(1);
  for (int width : {1, 2, 3, 100}) {
    FlushOptions options = GetParam();
    options.width = width;
    ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, options));
    run_.expect_index_tells_the_truth();
    run_.clear_prefix();
  }
}

TEST_P(Cycle, ADatasetFlushedTwiceHasTwoCopies) {
  run_.write_dataset(3);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(3, GetParam()));
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(3, GetParam()));
  EXPECT_EQ(run_.indexed(), (std::set<std::string>{"scr.dataset.3", "scr.dataset.3.1"}));
  run_.expect_index_tells_the_truth();
}

TEST_P(Cycle, ADamagedFileInTheCacheIsNotFlushed) {
  run_.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, GetParam()));
  run_.write_dataset(2);
  const std::string file = run_.cache(3, 2) + "/ckpt.2/last";
  write_bytes(file, read_bytes(file).replace(100, 1, "~"));
  for (const Status& status : run_.flush(2, GetParam())) {
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_THAT(std::string(status.message()), HasSubstr("ckpt.2/last"));
  }
  EXPECT_EQ(run_.indexed(), std::set<std::string>{"scr.dataset.1"});
  ASSERT_TRUE(clean_up(real_file_system(), run_.prefix(), {}).ok());
  EXPECT_THAT(run_.temporaries(), IsEmpty());
  run_.expect_index_tells_the_truth();
}

TEST_P(Cycle, ADeletedDatasetLeavesOnlyTheOthers) {
  run_.write_dataset(1);
  run_.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, GetParam()));
  const auto before = run_.snapshot();
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(2, GetParam()));
  const Status status = delete_dataset(real_file_system(), run_.prefix(), "scr.dataset.2");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run_.index().current(), "scr.dataset.1");
  auto after = run_.snapshot();
  ASSERT_TRUE(after.erase(".scr/index.scr"));
  for (const auto& [name, bytes] : after) EXPECT_EQ(before.at(name), bytes) << name;
  EXPECT_EQ(after.size(), before.size() - 1);
}

TEST_P(Cycle, VerifyReadsEveryByte) {
  const DatasetDescriptor dataset = run_.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run_.flush_all(1, GetParam()));
  std::vector<std::string> problems;
  std::uint64_t bytes = 0;
  const Status status = verify_dataset(
      real_file_system(), run_.prefix(), "scr.dataset.1",
      [&](std::uint64_t so_far) { bytes = so_far; }, problems);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(bytes, dataset.size);
}

TEST(Flush, MakesAndSyncsEveryDirectoryOnce) {
  TestRun run;
  run.write_dataset(1);
  for (Operation operation : {Operation::kMakeDirectory, Operation::kSyncDirectory}) {
    run.clear_prefix();
    FaultPlan plan;
    plan.operations = FaultPlan::bit(operation);
    plan.path = run.prefix() + "*";
    plan.log = run.prefix() + "/../operations";
    std::filesystem::remove(plan.log);
    FaultyFileSystem counting(real_file_system(), plan);
    for (const Status& status : run.flush(
             1, plain_files(), [&](int) -> FileSystem& { return counting; },
             TestRun::Until::kPrepared)) {
      ASSERT_TRUE(status.ok()) << status.message();
    }
    std::map<std::string, int> times;
    std::ifstream lines(plan.log);
    for (std::string line; std::getline(lines, line);) ++times[line.substr(line.rfind(' ') + 1)];
    for (const auto& [path, count] : times) EXPECT_EQ(count, 1) << path;
    EXPECT_EQ(times[run.prefix() + "/ckpt.1/deep"], 1);
    EXPECT_EQ(times[run.prefix() + "/ckpt.1"], 1);
  }
}

TEST(Flush, WritesPlainFilesWhereTheApplicationMeantThem) {
  TestRun run;
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  const auto files = run.snapshot();
  EXPECT_EQ(files.at("ckpt.1/deep/er/rank_1.h5"),
            read_bytes(run.cache(1, 1) + "/ckpt.1/deep/er/rank_1.h5"));
  EXPECT_EQ(files.at("ckpt.1/empty"), "");
  EXPECT_EQ(files.at("top.1").size(), 1U);
}

TEST(Flush, GivesFilesTheModeThatADirectWriteGives) {
  TestRun run;
  run.write_dataset(1);
  const mode_t before = ::umask(027);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((run.prefix() + "/ckpt.1/rank_0.h5").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
  ASSERT_EQ(::stat((run.prefix() + "/ckpt.1/deep").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750U);
}

// The order is by node, then by rank: 301 + 517 bytes of node 0, then 305 of node 1.
TEST(Flush, FillsContainersNodeByNode) {
  TestRun run;
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, containers()));
  std::string stream;
  for (const auto& [rank, name] :
       {std::pair(0, "ckpt.1/rank_0.h5"), std::pair(0, "top.1"),
        std::pair(1, "ckpt.1/deep/er/rank_1.h5"), std::pair(3, "ckpt.1/rank_3.h5"),
        std::pair(3, "ckpt.1/empty"), std::pair(3, "ckpt.1/last")}) {
    stream += read_bytes(run.cache(rank, 1) + "/" + name);
  }
  ASSERT_EQ(stream.size(), 1123U);
  const auto files = run.snapshot();
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(files.at(fmt::format(".scr/scr.dataset.1/ctr.{}.scr", i)),
              stream.substr(i * 250, 250));
  }
  EXPECT_FALSE(files.contains("ckpt.1/rank_0.h5"));
}

// The first rank of a node writes for all of it, in order; only where the bytes of a node or a
// container begin or end may a write be smaller than the buffer, which has 64 bytes here.
TEST(Flush, WritesContainersInLargeAlignedPieces) {
  TestRun run;
  run.write_dataset(1);
  std::array<RecordingFileSystem, TestRun::kRanks> ranks{
      RecordingFileSystem("ctr."), RecordingFileSystem("ctr."), RecordingFileSystem("ctr."),
      RecordingFileSystem("ctr.")};
  const auto recorded = [&](int rank) -> FileSystem& {
    return ranks.at(static_cast<std::size_t>(rank));
  };
  for (const Status& status : run.flush(1, containers(), recorded))
    ASSERT_TRUE(status.ok()) << status.message();
  const auto writes = [&](std::size_t rank) {
    std::vector<std::string> list;
    for (const auto& write : ranks.at(rank).writes()) {
      const std::string name = write.path.substr(write.path.find(".ctr.") + 5, 1);
      list.push_back(fmt::format("{}: {}+{}", name, write.offset, write.length));
    }
    return list;
  };
  EXPECT_THAT(writes(0), ElementsAre("0: 0+64", "0: 64+64", "0: 128+64", "0: 192+58",  //
                                     "1: 0+64", "1: 64+64", "1: 128+64", "1: 192+58",  //
                                     "2: 0+64", "2: 64+64", "2: 128+64", "2: 192+58",  //
                                     "3: 0+64", "3: 64+4"));
  EXPECT_THAT(writes(1), IsEmpty());
  EXPECT_THAT(writes(2), ElementsAre("3: 68+60", "3: 128+64", "3: 192+58",  //
                                     "4: 0+64", "4: 64+59"));
  EXPECT_THAT(writes(3), IsEmpty());
}

TEST(Flush, OfRanksWithoutAnyByteWorksInContainersToo) {
  TestRun run;
  DatasetDescriptor dataset = run.write_dataset(1);
  InProcessWorld::run(4, [&](Communicator& world) {
    auto node = world.split(world.rank() / 2, world.rank());
    for (const FlushOptions& options : {plain_files(), containers(2)}) {
      auto flush = Flush::prepare(world, *node, real_file_system(), run.prefix(), dataset,
                                  run.cache(world.rank(), 1), {}, options);
      ASSERT_TRUE(flush.ok()) << flush.status().message();
      (*flush)->copy();
      const Status status = (*flush)->finish(world, *node);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  });
  EXPECT_EQ(run.indexed().size(), 2U);
}

TEST(Flush, RefusesContainersThatCannotBe) {
  TestRun run;
  run.write_dataset(1);
  FlushOptions options = containers();
  options.container_size = 0;
  for (const Status& status : run.flush(1, options)) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  }
  options = containers(129);
  for (const Status& status : run.flush(1, options)) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(run.snapshot(), IsEmpty()) << "something was begun";
}

TEST(Flush, TemporaryNamesFitWhereTheFinalNamesFit) {
  DatasetDescriptor dataset;
  dataset.id = 1000000;
  dataset.created = 1700000000000000;
  const std::string longest = "a/" + std::string(255, 'x');
  const std::string name = temporary_name(longest, dataset);
  EXPECT_LE(name.size(), 2U + 255U);
  EXPECT_TRUE(name.starts_with("a/."));
  EXPECT_TRUE(name.ends_with(".tmp"));
  const std::string other = "a/" + std::string(254, 'x') + "y";
  EXPECT_NE(temporary_name(other, dataset), name);
  EXPECT_EQ(temporary_name("a/b.h5", dataset), "a/.b.h5.scr-1000000-60a24181e4000.tmp");
}

TEST(Flush, SharesTheBandwidthAmongTheProcesses) {
  TestRun run;
  run.write_dataset(1);
  FlushOptions options = plain_files();
  options.copy.bytes_per_second = 4000;  // 1123 bytes: 280 ms, however many processes copy
  const auto start = std::chrono::steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, options));
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(250));
}

TEST(Fetch, ReadsOnlyTheContainersThatItNeeds) {
  TestRun run;
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, containers()));
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kRead);
  plan.path = "*/ctr.*";
  FaultyFileSystem counting(real_file_system(), plan);
  for (const Status& status : run.fetch("scr.dataset.1", TestRun::only(2, counting))) {
    ASSERT_TRUE(status.ok());
  }
  EXPECT_EQ(counting.operations(), 0U) << "rank 2 has no files";
  FaultyFileSystem other(real_file_system(), plan);
  for (const Status& status : run.fetch("scr.dataset.1", TestRun::only(3, other))) {
    ASSERT_TRUE(status.ok());
  }
  EXPECT_EQ(other.operations(), 5U) << "305 bytes in pieces of up to 64";
}

TEST(Fetch, RebuildsALostContainerFromParity) {
  TestRun run;
  run.write_dataset(1);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, containers(1)));
  const std::string directory = run.prefix() + "/.scr/scr.dataset.1";
  for (const char* name : {"ctr.0.scr", "ctr.3.scr", "ctr.4.scr"}) {
    std::filesystem::remove(directory + "/" + name);
    EXPECT_FALSE(run.fetches("scr.dataset.1"));
    const auto repaired = repair_containers(real_file_system(), directory);
    ASSERT_TRUE(repaired.ok()) << repaired.status().message();
    EXPECT_THAT(*repaired, ElementsAre(name));
    EXPECT_TRUE(run.fetches("scr.dataset.1"));
  }
}

// Each is a wait for the device, of all ranks: rank 0 syncs intent, two lists, summary and index,
// and the directories that these are in when they get their names.
TEST(CostOfAFlush, OfOurOwnFilesIsNoMoreThanSafetyNeeds) {
  TestRun run;
  run.write_dataset(1);
  run.write_dataset(2);
  ASSERT_NO_FATAL_FAILURE(run.flush_all(1, plain_files()));
  const auto count = [&](int id, Operation operation) {
    FaultPlan plan;
    plan.operations = FaultPlan::bit(operation);
    plan.path = "*/.scr*";
    FaultyFileSystem counting(real_file_system(), plan);
    for (const Status& status : run.flush(id, plain_files(), TestRun::only(0, counting)))
      EXPECT_TRUE(status.ok()) << status.message();
    return counting.operations();
  };
  EXPECT_EQ(count(2, Operation::kSync), 5U);
  run.write_dataset(3);
  EXPECT_EQ(count(3, Operation::kSyncDirectory), 4U);
  run.write_dataset(4);
  // Intent, two lists, the list of directories, summary, link, index.
  EXPECT_EQ(count(4, Operation::kRename), 7U);
}

// A clock for each rank, which goes on when the rank reads data or is told to sleep.
class ClockOfEachRank final : public PaceClock {
 public:
  struct Time {
    double worked = 0;
    double slept = 0;
  };
  double now() override {
    const Time mine = time();
    return mine.worked + mine.slept;
  }
  void sleep(double seconds) override { time().slept += seconds; }
  void work(double seconds) { time().worked += seconds; }

  std::map<std::thread::id, Time> times;

 private:
  Time& time() {
    const std::lock_guard lock(mutex_);
    return times[std::this_thread::get_id()];
  }
  std::mutex mutex_;
};

// To read a piece of a data file or of a container takes a while.
class SlowReads final : public ::scr::testing::ForwardingFileSystem {
 public:
  SlowReads(ClockOfEachRank& clock, double seconds) : clock_(clock), seconds_(seconds) {}
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::open(at, options));
    const bool data = at.display().find("/ctr.") != std::string::npos ||
                      at.display().find("/.ctr.") != std::string::npos ||
                      at.display().find("/cache/") != std::string::npos;
    if (data) file = std::make_unique<SlowFile>(std::move(file), *this);
    return file;
  }

 private:
  class SlowFile final : public ::scr::testing::ForwardingFile {
   public:
    SlowFile(std::unique_ptr<File> inner, SlowReads& of)
        : ForwardingFile(std::move(inner)), of_(of) {}
    Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
      of_.clock_.work(of_.seconds_);
      return ForwardingFile::read_some(buffer, offset);
    }

   private:
    SlowReads& of_;
  };

  ClockOfEachRank& clock_;
  double seconds_;
};

// What each rank that copied did, the busiest first.
std::vector<ClockOfEachRank::Time> paced_flush(FlushOptions options, double seconds_of_a_read) {
  TestRun run;
  run.write_dataset(1);
  ClockOfEachRank clock;
  SlowReads fs(clock, seconds_of_a_read);
  options.copy.clock = &clock;
  const auto slow = [&](int) -> FileSystem& { return fs; };
  for (const Status& status : run.flush(1, options, slow))
    EXPECT_TRUE(status.ok()) << status.message();
  run.expect_index_tells_the_truth();
  std::vector<ClockOfEachRank::Time> busy;
  for (const auto& [thread, time] : clock.times) {
    if (time.slept > 0) busy.push_back(time);
  }
  std::ranges::sort(busy, std::greater(), &ClockOfEachRank::Time::slept);
  return busy;
}

// SCR_FLUSH_ASYNC_PERCENT for a whole flush.
TEST(ShareOfTheTime, IsKeptByEveryRankOfAFlush) {
  for (FlushOptions options : {plain_files(), containers(), containers(1), containers(2)}) {
    options.copy.percent = 20;
    const auto busy = paced_flush(options, 0.001);
    EXPECT_GE(busy.size(), 2U);
    for (const auto& time : busy) EXPECT_NEAR(time.slept, 4 * time.worked, 1e-6);
  }
}

// Parity is computed from containers that are read again.
TEST(ShareOfTheTime, ParityIsWorkToo) {
  FlushOptions options = containers();
  options.copy.percent = 20;
  const double without = paced_flush(options, 0.001).front().worked;
  options.container_parity = 2;
  EXPECT_GE(paced_flush(options, 0.001).front().worked, without + 5 * 0.001) << "five containers";
}

// SCR_FLUSH_ASYNC_BW: both nodes together copy 1123 bytes; then rank 0 reads five containers of up
// to 250 bytes, of which the last counts as filled, and writes two.
TEST(Bandwidth, IsKeptByAWholeFlush) {
  FlushOptions options = containers();
  options.copy.bytes_per_second = 4000;
  auto busy = paced_flush(options, 0);
  ASSERT_EQ(busy.size(), 2U);
  for (const auto& time : busy) EXPECT_NEAR(time.slept, 1123.0 / 4000, 1e-6);
  options.container_parity = 2;
  busy = paced_flush(options, 0);
  ASSERT_EQ(busy.size(), 2U);
  EXPECT_NEAR(busy[0].slept, (1123.0 + 7 * 250) / 4000, 1e-6);
  EXPECT_NEAR(busy[1].slept, 1123.0 / 4000, 1e-6);
}

}  // namespace
}  // namespace scr::flush::testing
