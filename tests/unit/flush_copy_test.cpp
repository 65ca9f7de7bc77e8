// copy_all: checksums on the way, resume, damage in the source, cancel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/checksum.hpp"
#include "core/base/faulty_filesystem.hpp"
#include "flush/copy.hpp"
#include "flush/pacer.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::flush {
namespace {

using redundancy::testing::crc_of;
using redundancy::testing::random_bytes;
using redundancy::testing::read_bytes;
using redundancy::testing::write_bytes;
using scr::testing::TemporaryDirectory;
using ::testing::HasSubstr;

class Copy : public ::testing::Test {
 protected:
  // One source of 1000 bytes, in three pieces of 100, 500 and 400 bytes to two destinations.
  Copy() : bytes_(random_bytes(1000, 7)) {
    write_bytes(root_ / "source", bytes_);
    std::filesystem::create_directory(root_ / "to");
    options_.buffer = 64;
  }
  std::vector<CopyTask> tasks() const {
    CopyTask task;
    task.source = root_ / "source";
    task.size = 1000;
    task.crc = crc_of(bytes_);
    task.pieces = {
        {root_ / "to/a", 50, 100, 0}, {root_ / "to/b", 0, 500, 0}, {root_ / "to/b", 500, 400, 0}};
    return {task};
  }
  Status copy(FileSystem& fs = real_file_system()) {
    tasks_ = tasks();
    return copy_all(fs, tasks_, options_, progress_);
  }
  // How many writes and syncs a copy makes.
  std::uint64_t operations_of_copy(Operation operation) {
    FaultPlan plan;
    plan.operations = FaultPlan::bit(operation);
    FaultyFileSystem counting(real_file_system(), plan);
    const Status status = copy(counting);
    EXPECT_TRUE(status.ok()) << status.message();
    return counting.operations();
  }

  TemporaryDirectory root_;
  std::string bytes_;
  CopyOptions options_;
  CopyProgress progress_;
  std::vector<CopyTask> tasks_;
};

TEST_F(Copy, PutsEachPieceInItsPlaceWithItsChecksum) {
  const Status status = copy();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(read_bytes(root_ / "to/a").substr(50), bytes_.substr(0, 100));
  EXPECT_EQ(read_bytes(root_ / "to/b"), bytes_.substr(100));
  EXPECT_EQ(tasks_[0].pieces[0].crc, crc_of(bytes_.substr(0, 100)));
  EXPECT_EQ(tasks_[0].pieces[1].crc, crc_of(bytes_.substr(100, 500)));
  EXPECT_EQ(tasks_[0].pieces[2].crc, crc_of(bytes_.substr(600)));
  EXPECT_EQ(progress_.bytes_done, 1000U);
}

TEST_F(Copy, SyncsEachDestinationAndItsDirectoryOnce) {
  EXPECT_EQ(operations_of_copy(Operation::kSync), 2U);
  EXPECT_EQ(operations_of_copy(Operation::kSyncDirectory), 1U);
}

TEST_F(Copy, SmallFilesThatFollowEachOtherAreWrittenTogether) {
  for (bool resume : {false, true}) {
    std::vector<CopyTask> tasks;
    std::string all(5, '\0');
    for (std::size_t i = 0; i < 50; ++i) {
      const std::string bytes = random_bytes(i % 20, static_cast<unsigned>(i));
      const std::string source = root_ / ("small." + std::to_string(i));
      write_bytes(source, bytes);
      tasks.push_back({source,
                       bytes.size(),
                       crc_of(bytes),
                       {{root_ / "to/container", all.size(), bytes.size(), 0}}});
      all += bytes;
    }
    FaultPlan plan;
    plan.operations = FaultPlan::bit(Operation::kWrite);
    FaultyFileSystem counting(real_file_system(), plan);
    options_.resume = resume;
    const Status status = copy_all(counting, tasks, options_, progress_);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(read_bytes(root_ / "to/container"), all);
    EXPECT_EQ(counting.operations(), resume ? 0U : (all.size() + 63) / 64);
    EXPECT_EQ(tasks[7].pieces[0].crc, tasks[7].crc);
  }
}

TEST_F(Copy, AnEmptyFileIsMadeAndEmpty) {
  write_bytes(root_ / "empty", "");
  std::vector<CopyTask> tasks = {{root_ / "empty", 0, 0, {{root_ / "to/empty", 0, 0, 0}}}};
  ASSERT_TRUE(copy_all(real_file_system(), tasks, options_, progress_).ok());
  EXPECT_EQ(std::filesystem::file_size(root_ / "to/empty"), 0U);
}

TEST_F(Copy, HasTheHolesOfItsSourceAndNoneThatHideOtherBytes) {
  constexpr std::size_t kPart = std::size_t{1} << 20U;
  const std::string bytes = random_bytes(kPart, 1) + std::string(4 * kPart, '\0') + "end";
  write_bytes(root_ / "sparse", bytes);
  options_.buffer = kPart / 4;
  const std::string target = root_ / "to/sparse";
  const auto copied = [&] {
    std::vector<CopyTask> tasks = {
        {root_ / "sparse", bytes.size(), crc_of(bytes), {{target, 0, bytes.size(), 0}}}};
    EXPECT_TRUE(copy_all(real_file_system(), tasks, options_, progress_).ok());
    return read_bytes(target) == bytes;
  };
  EXPECT_TRUE(copied());
  struct stat info = {};
  ASSERT_EQ(::stat(target.c_str(), &info), 0);
  EXPECT_LT(static_cast<std::size_t>(info.st_blocks) * 512, 2 * kPart);
  write_bytes(target, random_bytes(3 * kPart, 2));  // what an attempt before has left
  EXPECT_TRUE(copied());
}

TEST_F(Copy, OfAWholeFileIsAsOldAsItsSource) {
  using std::filesystem::last_write_time;
  const auto time = last_write_time(root_ / "source") - std::chrono::hours(5);
  last_write_time(root_ / "source", time);
  std::vector<CopyTask> tasks = {
      {root_ / "source", 1000, crc_of(bytes_), {{root_ / "to/whole", 0, 1000, 0}}}};
  FaultyFileSystem fs(real_file_system(), {});
  ASSERT_TRUE(copy_all(fs, tasks, options_, progress_).ok());
  EXPECT_EQ(last_write_time(root_ / "to/whole"), time);
}

TEST_F(Copy, ResumesWithoutWritingWhatIsThere) {
  const std::uint64_t writes = operations_of_copy(Operation::kWrite);
  EXPECT_EQ(writes, 3U + 15U);
  options_.resume = true;
  progress_.bytes_done = 0;
  EXPECT_EQ(operations_of_copy(Operation::kWrite), 0U);
  EXPECT_EQ(progress_.bytes_done, 1000U);
  EXPECT_EQ(tasks_[0].pieces[1].crc, crc_of(bytes_.substr(100, 500)));
}

TEST_F(Copy, ResumesOnlyWithPiecesWhoseChecksumHolds) {
  ASSERT_TRUE(copy().ok());
  options_.resume = true;
  std::string damaged = read_bytes(root_ / "to/b");
  damaged[499] = static_cast<char>(damaged[499] ^ 1);
  write_bytes(root_ / "to/b", damaged);
  EXPECT_EQ(operations_of_copy(Operation::kWrite), 8U) << "the piece of 500 bytes";
  EXPECT_EQ(read_bytes(root_ / "to/b"), bytes_.substr(100));

  std::filesystem::resize_file(root_ / "to/b", 899);
  EXPECT_EQ(operations_of_copy(Operation::kWrite), 8U) << "the piece of 400 bytes";
  EXPECT_EQ(read_bytes(root_ / "to/b"), bytes_.substr(100));

  std::filesystem::remove(root_ / "to/a");
  EXPECT_EQ(operations_of_copy(Operation::kWrite), 3U);
  EXPECT_EQ(read_bytes(root_ / "to/a").substr(50), bytes_.substr(0, 100));
}

TEST_F(Copy, ASourceWithAnotherChecksumIsRefused) {
  std::string damaged = bytes_;
  damaged[700] = static_cast<char>(damaged[700] ^ 1);
  write_bytes(root_ / "source", damaged);
  for (bool resume : {false, true}) {
    options_.resume = resume;
    const Status status = copy();
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_THAT(std::string(status.message()), HasSubstr(root_ / "source"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
  }
}

TEST_F(Copy, ASourceOfAnotherLengthIsRefused) {
  for (const std::string& changed : {bytes_ + "x", bytes_.substr(1), std::string()}) {
    write_bytes(root_ / "source", changed);
    const Status status = copy();
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_THAT(std::string(status.message()), HasSubstr("instead of 1000"));
  }
  std::filesystem::remove(root_ / "source");
  EXPECT_EQ(copy().code(), StatusCode::kNotFound);
}

TEST_F(Copy, ThatIsCancelledStopsAtOnce) {
  progress_.cancel = true;
  EXPECT_EQ(copy().code(), StatusCode::kUnavailable);
  EXPECT_EQ(progress_.bytes_done, 0U);
}

TEST_F(Copy, ThatWaitsForItsBandwidthCanBeCancelled) {
  options_.bytes_per_second = 1;
  std::thread canceller([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    progress_.cancel = true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(copy().code(), StatusCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  canceller.join();
}

TEST_F(Copy, KeepsItsBandwidth) {
  options_.bytes_per_second = 5000;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(copy().ok());
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(190));
}

// A millisecond of work lies between the end of a pause, at which the pacer looks at the clock, and
// its next look at it.
class WorkingClock final : public PaceClock {
 public:
  double now() override {
    if (working_) worked += 0.001;
    working_ = !working_;
    return worked + slept;
  }
  void sleep(double seconds) override { slept += seconds; }
  double worked = 0;
  double slept = 0;

 private:
  bool working_ = false;
};

TEST_F(Copy, KeepsItsShareOfTheTime) {
  for (const double percent : {10.0, 25.0, 80.0}) {
    WorkingClock clock;
    options_.clock = &clock;
    options_.percent = percent;
    ASSERT_TRUE(copy().ok());
    EXPECT_EQ(read_bytes(root_ / "to/b"), bytes_.substr(100));
    EXPECT_NEAR(clock.worked, 19 * 0.001, 1e-9) << "one for each part of a piece";
    EXPECT_NEAR(clock.slept, clock.worked * (100 / percent - 1), 1e-6);
  }
}

TEST_F(Copy, WithAllOfTheTimeNeverSleeps) {
  for (const double percent : {0.0, 100.0}) {
    WorkingClock clock;
    options_.clock = &clock;
    options_.percent = percent;
    ASSERT_TRUE(copy().ok());
    EXPECT_EQ(clock.slept, 0);
  }
}

// Files are synced between two pieces: that is work, too.
TEST_F(Copy, CountsSyncsForItsShareOfTheTime) {
  class SlowSync final : public ::scr::testing::ForwardingFileSystem {
   public:
    explicit SlowSync(WorkingClock& clock) : clock_(clock) {}
    Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
      if (options.create) clock_.worked += 1;  // as the sync of the file before takes
      return inner_.open(at, options);
    }

   private:
    WorkingClock& clock_;
  };
  WorkingClock clock;
  SlowSync fs(clock);
  options_.clock = &clock;
  options_.percent = 50;
  ASSERT_TRUE(copy(fs).ok());
  EXPECT_NEAR(clock.slept, 2.019, 1e-6);
}

TEST_F(Copy, AnyFailedOperationIsReported) {
  for (std::uint64_t n = 1;; ++n) {
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, ENOSPC));
    const Status status = copy(faulty);
    if (faulty.hits() == 0) break;
    EXPECT_EQ(status.code(), StatusCode::kNoSpace) << "operation " << n << " was dropped";
  }
}

// The page cache may hold what the device never got, and the next sync says nothing of it.
TEST_F(Copy, WhatCouldNotBeSyncedIsWrittenAgainByTheNextTry) {
  for (const char* name : {"a", "b"}) {
    FaultPlan plan = FaultPlan::fail_at(1, EIO);
    plan.operations = FaultPlan::bit(Operation::kSync);
    plan.path = std::string("*/to/") + name;
    FaultyFileSystem faulty(real_file_system(), plan);
    options_.resume = true;
    EXPECT_EQ(copy(faulty).code(), StatusCode::kIoError);
    EXPECT_FALSE(std::filesystem::exists(root_ / (std::string("to/") + name)));
    EXPECT_GT(operations_of_copy(Operation::kWrite), 0U);
    EXPECT_EQ(read_bytes(root_ / "to/b"), bytes_.substr(100));
  }
}

TEST_F(Copy, WhatCouldNeitherBeSyncedNorRemovedIsEmptied) {
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kSync) | FaultPlan::bit(Operation::kRemove);
  FaultyFileSystem faulty(real_file_system(), plan);
  EXPECT_EQ(copy(faulty).code(), StatusCode::kIoError);
  EXPECT_EQ(std::filesystem::file_size(root_ / "to/a"), 0U);
}

TEST_F(Copy, AFullDiskIsNoticedInTheMiddleOfAWrite) {
  FaultPlan plan;
  plan.action = FaultPlan::Action::kShort;
  plan.operations = FaultPlan::bit(Operation::kWrite);
  for (plan.n = 1; plan.n <= 17; ++plan.n) {
    FaultyFileSystem faulty(real_file_system(), plan);
    EXPECT_EQ(copy(faulty).code(), StatusCode::kNoSpace);
  }
}

}  // namespace
}  // namespace scr::flush
