// Logs of shared files: what is gathered in memory, and when the file has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "core/base/checksum.hpp"
#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/shared_file/log_file.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::shared_file {
namespace {

using scr::testing::TemporaryDirectory;

std::vector<std::byte> filled(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

class LogTest : public ::testing::Test {
 protected:
  std::unique_ptr<Log> make(FileSystem& fs = real_file_system()) {
    auto log = Log::create(fs, path_);
    EXPECT_TRUE(log.ok());
    return std::move(*log);
  }
  Status write(Log& log, Range range, const std::vector<std::byte>& data) {
    return log.write(std::span(&range, 1), data, entered_);
  }
  std::vector<std::byte> in_file() { return *real_file_system().read_file(path_); }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "log";
  std::vector<Extent> entered_;
};

TEST_F(LogTest, SmallWritesAreInTheFileAfterWriteOutOnly) {
  auto log = make();
  ASSERT_TRUE(write(*log, {0, 10}, filled(10, 1)).ok());
  ASSERT_TRUE(write(*log, {50, 10}, filled(10, 2)).ok());
  EXPECT_TRUE(in_file().empty());
  ASSERT_TRUE(log->write_out().ok());
  auto expected = filled(20, 1);
  std::fill(expected.begin() + 10, expected.end(), std::byte{2});
  EXPECT_EQ(in_file(), expected);
}

TEST_F(LogTest, BytesOfTheFileThatAreWrittenAgainChangeThereAndOthersInMemory) {
  auto log = make();
  ASSERT_TRUE(write(*log, {0, 10}, filled(10, 1)).ok());
  ASSERT_TRUE(log->write_out().ok());
  ASSERT_TRUE(write(*log, {10, 10}, filled(10, 2)).ok());
  ASSERT_TRUE(write(*log, {12, 2}, filled(2, 3)).ok());
  EXPECT_EQ(in_file().size(), 10U);
  ASSERT_TRUE(write(*log, {2, 2}, filled(2, 4)).ok());
  EXPECT_EQ(in_file()[2], std::byte{4});
  EXPECT_EQ(in_file().size(), 10U);
  ASSERT_TRUE(write(*log, {8, 4}, filled(4, 5)).ok());  // some of both
  EXPECT_EQ(in_file()[8], std::byte{5});
  std::vector<std::byte> all(20);
  ASSERT_TRUE(log->read(0, all).ok());
  const std::vector<int> expected = {1, 1, 4, 4, 1, 1, 1, 1, 5, 5, 5, 5, 3, 3, 2, 2, 2, 2, 2, 2};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i], static_cast<std::byte>(expected[i])) << i;
  }
  EXPECT_EQ(log->size(), 20U);
}

TEST_F(LogTest, ALongWriteIsNotGathered) {
  auto log = make();
  ASSERT_TRUE(write(*log, {0, 10}, filled(10, 1)).ok());
  ASSERT_TRUE(write(*log, {10, 1U << 20U}, filled(1U << 20U, 2)).ok());
  EXPECT_EQ(in_file().size(), 10 + (1U << 20U));
}

TEST_F(LogTest, AWriteThatFailsIsToldAtTheLatestByWriteOutOrFinish) {
  FaultyFileSystem full(real_file_system(), *FaultPlan::parse("action=enospc,op=write,repeat=all"));
  auto log = make(full);
  ASSERT_TRUE(write(*log, {0, 10}, filled(10, 1)).ok());
  for (int again = 0; again < 2; ++again) {
    const Status status = log->write_out();
    EXPECT_EQ(status.code(), StatusCode::kNoSpace) << status.message();
    EXPECT_NE(status.message().find(path_), std::string::npos);
  }
  EXPECT_FALSE(log->finish({}, entered_).ok());
}

TEST_F(LogTest, WhatFailedOnceCanBeWrittenOutLater) {
  FaultyFileSystem flaky(real_file_system(), *FaultPlan::parse("action=enospc,op=write"));
  auto log = make(flaky);
  ASSERT_TRUE(write(*log, {0, 10}, filled(10, 1)).ok());
  EXPECT_FALSE(write(*log, {10, 1U << 20U}, filled(1U << 20U, 2)).ok());
  ASSERT_TRUE(write(*log, {10 + (1U << 20U), 10}, filled(10, 3)).ok());
  ASSERT_TRUE(log->write_out().ok());
  EXPECT_EQ(in_file()[9], std::byte{1});
  EXPECT_EQ(in_file().back(), std::byte{3});  // what failed keeps its place
  EXPECT_EQ(in_file().size(), 20 + (1U << 20U));
}

TEST_F(LogTest, AFileWhoseBytesCannotBeWrittenSaysSoWhenItIsPublishedAndClosed) {
  FaultyFileSystem full(real_file_system(), *FaultPlan::parse("action=enospc,op=write,repeat=all"));
  Home home;
  int told = 0;
  const auto homes =
      std::make_shared<const Homes>(1, [&](const std::vector<Homes::Message>& messages) {
        std::vector<Result<Bytes>> answers;
        for (const auto& message : messages) answers.push_back(home.handle(message.request));
        ++told;
        return answers;
      });
  InProcessWorld::run(1, [&](Communicator& comm) {
    LogFile::Options options;
    options.comm = std::shared_ptr<Communicator>(&comm, [](Communicator*) {});
    options.id = 7;
    const OpenLog open = [&](const LogPlace&) {
      return real_file_system().open(path_, OpenOptions::read());
    };
    auto reader = std::make_unique<LogReader>(homes, options.id, open, /*sealed=*/false);
    LogFile file(options, homes, make(full), std::move(reader));
    const Range range{0, 10};
    ASSERT_TRUE(file.write(std::span(&range, 1), filled(10, 1)).ok());
    EXPECT_EQ(file.publish().code(), StatusCode::kNoSpace);
    EXPECT_EQ(told, 0) << "nobody may be told of bytes that are not there";
    std::vector<std::byte> bytes(10);
    EXPECT_FALSE(file.read(std::span(&range, 1), bytes).ok());
    EXPECT_EQ(file.close().code(), StatusCode::kNoSpace);
  });
}

// Writes of all lengths, some to the same bytes, some in one call, with what is gathered written
// out now and then: the table finds the newest bytes, and every checksum is right.
TEST_F(LogTest, HoldsWhatWasWrittenWhateverTheLengths) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    std::mt19937 random(seed);
    auto log = make();
    std::vector<std::byte> file;
    ExtentMap holding;
    entered_.clear();
    for (int i = 0; i < 60; ++i) {
      std::vector<Range> ranges;
      std::vector<std::byte> data;
      std::uint64_t at = random() % 3 == 0 ? random() % 2'000'000 : file.size() + random() % 3;
      for (auto pieces = 1 + random() % 4; pieces > 0; --pieces) {
        static constexpr unsigned kLongest[] = {100, 5'000, 70'000, 300'000};
        const Range range{at, random() % kLongest[random() % 4]};
        ranges.push_back(range);
        file.resize(std::max<std::size_t>(file.size(), range.end()));
        for (std::uint64_t b = range.offset; b < range.end(); ++b) {
          data.push_back(static_cast<std::byte>(random()));
          file[b] = data.back();
        }
        at += range.length + random() % 2'000;
      }
      ASSERT_TRUE(log->write(ranges, data, entered_).ok());
      if (random() % 8 == 0) {
        ASSERT_TRUE(log->write_out().ok());
      }
    }
    for (const Extent& extent : entered_) holding.insert(extent);
    std::vector<Extent> held;
    holding.for_each([&](const Extent& extent) { held.push_back(extent); });
    LogTable table;
    table.size = file.size();
    const auto whole = log->finish(table, held);
    ASSERT_TRUE(whole.ok());
    const std::vector<std::byte> bytes = in_file();
    EXPECT_EQ(whole->value_or(crc32(bytes)), crc32(bytes));
    auto found = read_log_table(real_file_system(), path_);
    ASSERT_TRUE(found.ok()) << found.status().message();
    std::vector<std::byte> replayed(file.size());
    for (const LogEntry& entry : found->entries) {
      const auto part = std::span(bytes).subspan(entry.log_offset, entry.length);
      EXPECT_EQ(crc32(part), entry.crc);
      std::ranges::copy(part, replayed.begin() + static_cast<std::ptrdiff_t>(entry.offset));
    }
    EXPECT_TRUE(replayed == file) << "seed " << seed;
  }
}

}  // namespace
}  // namespace scr::shared_file
