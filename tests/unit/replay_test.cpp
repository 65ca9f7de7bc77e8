// Replay: the logs of several processes become one plain file.
#include "flush/replay.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "core/base/checksum.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using shared_file::Extent;
using shared_file::Range;
using testing::TemporaryDirectory;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr int kRanks = 3;

class Replay : public ::testing::Test {
 protected:
  std::string log_path(std::uint32_t rank) { return directory_ / ("log." + std::to_string(rank)); }

  // Writes the log of each rank; rank i of `ranges` has every range with that number.
  void make_logs(const std::vector<std::vector<Range>>& ranges, std::uint64_t size) {
    expected_.assign(size, std::byte{0});
    std::mt19937 random(1);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      auto log = shared_file::Log::create(real_file_system(), log_path(rank));
      ASSERT_TRUE(log.ok());
      std::vector<Extent> entered;
      for (const Range& range : ranges[rank]) {
        for (std::uint64_t i = range.offset; i < range.end(); ++i)
          expected_[i] = static_cast<std::byte>(random() | 1U);
        ASSERT_TRUE((*log)
                        ->write(std::span(&range, 1),
                                std::span(expected_).subspan(range.offset, range.length), entered)
                        .ok());
      }
      std::ranges::sort(entered, {}, &Extent::offset);
      shared_file::LogTable table;
      table.rank = rank;
      table.size = size;
      ASSERT_TRUE((*log)->finish(table, entered).ok());
    }
  }

  // On all ranks, as a flush does; the last status that is not good.
  Status replay(bool new_files) {
    const std::string name = directory_ / "file";
    Status failed;
    std::mutex mutex;
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      const Status status = replay_one(comm, name, new_files);
      const std::lock_guard lock(mutex);
      if (!status.ok()) failed = status;
    });
    return failed;
  }

  Status replay_one(Communicator& comm, const std::string& name, bool new_files) {
    FileSystem& fs = real_file_system();
    const auto rank = static_cast<std::uint32_t>(comm.rank());
    SharedLog log;
    log.file = "file";
    SCR_ASSIGN_OR_RETURN(log.table, shared_file::read_log_table(fs, log_path(rank)));
    log.place = {rank, 0, rank};
    const auto place = [&](const std::string&, std::uint64_t size) {
      return std::vector<CopyPiece>{{name, 0, size, 0}};
    };
    const auto open = [&](const std::string&, const shared_file::LogPlace& from) {
      return fs.open(log_path(from.rank), OpenOptions::read());
    };
    SCR_ASSIGN_OR_RETURN(const auto regions, plan_replay(comm, {log}, place, new_files));
    auto tasks = replay_tasks(regions, open);
    CopyProgress progress;
    SCR_RETURN_IF_ERROR(
        agree_all(comm, copy_all(fs, tasks, {}, progress), "copying a shared file"));
    SCR_ASSIGN_OR_RETURN(const auto pieces, collect_replayed(comm, regions, tasks));
    if (rank != 0) return {};
    StoredFile stored;
    stored.file = "file";
    stored.size = expected_.size();
    stored.shared = true;
    RankFiles files = {stored};
    SCR_RETURN_IF_ERROR(add_checksums(pieces, files));
    crc_ = files[0].crc;
    return {};
  }

  // A file that holds nothing, or something else.
  void make_file(bool empty) {
    auto file = real_file_system().open(directory_ / "file", OpenOptions::create_truncate());
    ASSERT_TRUE(file.ok());
    const std::vector<std::byte> dirt(empty ? 0 : expected_.size(), std::byte{0xff});
    ASSERT_TRUE((*file)->write_all(dirt, 0).ok());
    ASSERT_TRUE((*file)->truncate(expected_.size()).ok());
  }

  void expect_right() {
    const auto bytes = *real_file_system().read_file(directory_ / "file");
    EXPECT_TRUE(bytes == expected_);
    EXPECT_EQ(crc_, crc32(expected_));
  }
  std::uint64_t room_taken() {
    struct stat info = {};
    EXPECT_EQ(::stat((directory_ / "file").c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }

  TemporaryDirectory directory_;
  std::vector<std::byte> expected_;
  std::uint32_t crc_ = 1;
};

TEST_F(Replay, LongHolesOfANewFileTakeNoRoom) {
  // Across the border of two regions, after a hole, and before one at the end.
  make_logs({{{0, 1000}, {23 * kMiB, 2 * kMiB}}, {{1000, 70'000}}, {{50 * kMiB + 3, 5}}},
            72 * kMiB);
  make_file(/*empty=*/true);
  ASSERT_TRUE(replay(/*new_files=*/true).ok());
  expect_right();
  EXPECT_LT(room_taken(), 4 * kMiB);
}

TEST_F(Replay, HolesReplaceWhatAnOlderFileHas) {
  make_logs({{{5, 1000}}, {{23 * kMiB, 2 * kMiB}}, {}}, 40 * kMiB);
  make_file(/*empty=*/false);
  ASSERT_TRUE(replay(/*new_files=*/false).ok());
  expect_right();
}

TEST_F(Replay, AFileWithoutAnyByteWrittenIsAHoleOfItsSize) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, 30 * kMiB + 1}) {
    make_logs({{}, {}, {}}, size);
    make_file(/*empty=*/true);
    ASSERT_TRUE(replay(/*new_files=*/true).ok());
    expect_right();
  }
}

TEST_F(Replay, PiecesOfAllRanksWithHolesOfAllLengthsBetweenThem) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<Range>> ranges(kRanks);
    std::uint64_t at = 0;
    while (at < 30 * kMiB) {
      static constexpr std::uint64_t kLongest[] = {10, 5'000, 300'000, 3'000'000};
      const Range range{at, 1 + random() % kLongest[random() % 4]};
      ranges[random() % kRanks].push_back(range);
      at = range.end() + (random() % 2 == 0 ? 0 : random() % kLongest[random() % 4]);
    }
    for (auto& of_rank : ranges) std::ranges::shuffle(of_rank, random);
    make_logs(ranges, at + random() % 3);
    for (const bool new_file : {true, false}) {
      make_file(new_file);
      ASSERT_TRUE(replay(new_file).ok());
      expect_right();
    }
  }
}

TEST_F(Replay, AChangedByteOfALogIsFound) {
  make_logs({{{0, 100'000}}, {{100'000, 100'000}}, {{9 * kMiB, 100'000}}}, 10 * kMiB);
  auto log = real_file_system().open(log_path(2), OpenOptions::read_write());
  ASSERT_TRUE((*log)->write_all(std::vector{std::byte{0}}, 777).ok());
  make_file(/*empty=*/true);
  const Status status = replay(/*new_files=*/true);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_NE(status.message().find("log.2"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace scr::flush
