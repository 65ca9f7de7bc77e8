// rank2file: which rank wrote which files, in blocks of ranks.
#include "flush/rank2file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/hash_file.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using scr::testing::TemporaryDirectory;
using ::testing::HasSubstr;

RankFiles files_of(int rank) {
  RankFiles files;
  for (int i = 0; i < rank % 3; ++i) {
    StoredFile file;
    file.file = fmt::format("ckpt.1/rank_{}.{}", rank, i);
    file.size = static_cast<std::uint64_t>(rank * 10 + i);
    file.crc = static_cast<std::uint32_t>(rank + 1000 * i);
    files.push_back(file);
  }
  return files;
}

RankFiles in_containers() {
  StoredFile file;
  file.file = "a/b.h5";
  file.size = 130;
  file.crc = 9;
  file.in_container = true;
  file.segments = {{"ctr.0.scr", 70, 30, 1}, {"ctr.1.scr", 0, 100, 2}};
  StoredFile empty;
  empty.file = "empty";
  empty.in_container = true;
  StoredFile redundancy;
  redundancy.file = "1_of_4_in_0.xor";
  redundancy.size = 5;
  redundancy.fetch = false;
  return {file, empty, redundancy};
}

std::string refusal(const Hash& hash) {
  const auto files = rank_files_from_hash(hash);
  if (files.ok()) return "accepted";
  EXPECT_EQ(files.status().code(), StatusCode::kCorrupt);
  return std::string(files.status().message());
}

Hash block(const std::map<int, RankFiles>& ranks) {
  Hash hash;
  hash.set_value("VERSION", 1);
  for (const auto& [rank, files] : ranks) {
    hash.at("RANK").set(std::to_string(rank), rank_files_to_hash(files));
  }
  return hash;
}

std::string block_refusal(const Hash& hash, int number = 0) {
  const auto ranks = rank2file_block_from_hash(hash, number);
  if (ranks.ok()) return "accepted";
  EXPECT_EQ(ranks.status().code(), StatusCode::kCorrupt);
  return std::string(ranks.status().message());
}

TEST(RankFiles, ComeBackFromTheirHash) {
  for (const RankFiles& files : {files_of(2), in_containers(), RankFiles()}) {
    const auto again = rank_files_from_hash(rank_files_to_hash(files));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, files);
  }
}

TEST(RankFiles, HaveTheKeysOfTheFormat) {
  const Hash hash = rank_files_to_hash(in_containers());
  EXPECT_NE(hash.getf("FILES 3"), nullptr);
  EXPECT_NE(hash.getf("FILE a/b.h5 SIZE 130"), nullptr);
  EXPECT_NE(hash.getf("FILE a/b.h5 CRC 0x00000009"), nullptr);
  EXPECT_NE(hash.getf("FILE a/b.h5 SEG 1 FILE ctr.1.scr"), nullptr);
  EXPECT_EQ(hash.getf("FILE a/b.h5 NOFETCH"), nullptr);
  EXPECT_NE(hash.getf("FILE 1_of_4_in_0.xor NOFETCH"), nullptr);
  EXPECT_TRUE(hash.getf("FILE empty SEG")->empty());
}

TEST(RankFiles, WithAnotherCountThanSaidAreRefused) {
  Hash hash = rank_files_to_hash(in_containers());
  hash.set_value("FILES", 4);
  EXPECT_THAT(refusal(hash), HasSubstr("3 files are listed where 4 are expected"));
  hash.unset("FILES");
  EXPECT_THAT(refusal(hash), HasSubstr("FILES"));
  EXPECT_THAT(refusal(Hash()), HasSubstr("FILES"));
}

TEST(RankFiles, WithNamesThatLeaveThePrefixAreRefused) {
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "", "a//b"}) {
    Hash hash = rank_files_to_hash({});
    hash.set_value("FILES", 1);
    Hash& file = hash.at("FILE").at(name);
    file.set_value("SIZE", 1);
    file.set_value("CRC", "0x1");
    EXPECT_NE(refusal(hash), "accepted") << name;
  }
}

TEST(RankFiles, WithoutSizeOrChecksumAreRefused) {
  for (const char* key : {"SIZE", "CRC"}) {
    Hash hash = rank_files_to_hash(files_of(1));
    hash.get("FILE")->elements().front().hash.unset(key);
    EXPECT_THAT(refusal(hash), HasSubstr(key));
  }
}

TEST(Rank2FileBlock, WithRanksOfOtherBlocksIsRefused) {
  EXPECT_EQ(block_refusal(block({{0, files_of(0)}, {1023, files_of(1)}})), "accepted");
  EXPECT_THAT(block_refusal(block({{1024, files_of(1)}})), HasSubstr("'1024' is no rank"));
  EXPECT_THAT(block_refusal(block({{-5, files_of(1)}})), HasSubstr("'-5' is no rank"));
  EXPECT_EQ(block_refusal(block({{1024, files_of(1)}}), 1), "accepted");
  EXPECT_THAT(block_refusal(block({{5, files_of(1)}}), 1), HasSubstr("'5' is no rank"));
}

TEST(Rank2FileBlock, WithRanksThatAreNoPlainNumbersIsRefused) {
  for (const char* key : {"007", "+7", "seven", "", "99999999999999999999", "7 "}) {
    Hash hash = block({{1, files_of(1)}});
    hash.get("RANK")->set(key, rank_files_to_hash(files_of(7)));
    EXPECT_THAT(block_refusal(hash), HasSubstr("is no rank")) << key;
  }
}

TEST(Rank2FileBlock, OfAnotherVersionIsRefused) {
  Hash hash = block({{1, files_of(1)}});
  hash.set_value("VERSION", 2);
  EXPECT_THAT(block_refusal(hash), HasSubstr("version 2"));
  hash.unset("VERSION");
  EXPECT_THAT(block_refusal(hash), HasSubstr("VERSION"));
}

TEST(Rank2FileBlock, IsWrittenAndReadWithoutOtherProcesses) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  const std::map<int, RankFiles> second = {{1024, files_of(2)}, {1030, in_containers()}};
  ASSERT_TRUE(write_rank2file_block(fs, directory.path(), 1, second).ok());
  ASSERT_TRUE(write_rank2file_top(fs, directory.path(), 1031).ok());
  EXPECT_EQ(*read_rank2file_block(fs, directory.path(), 1), second);
  EXPECT_EQ(*read_rank_count(fs, directory.path()), 1031);
  EXPECT_EQ(read_rank2file_block(fs, directory.path(), 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(rank2file_block_count(1024), 1);
  EXPECT_EQ(rank2file_block_count(1025), 2);
  EXPECT_EQ(rank2file_block_count(2147483647), 2097152);
}

TEST(Rank2FileTop, WithImpossibleNumbersIsRefusedByName) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  const std::string name = directory / "rank2file.scr";
  for (const auto& [ranks, block_size] :
       {std::pair("0", "1024"), std::pair("-1", "1024"), std::pair("2147483648", "1024"),
        std::pair("4", "1000"), std::pair("4", "0"), std::pair("four", "1024")}) {
    Hash hash;
    hash.set_value("VERSION", 1);
    hash.set_value("RANKS", ranks);
    hash.set_value("BLOCK", block_size);
    ASSERT_TRUE(write_hash_file(fs, name, hash, Durability::kVolatile).ok());
    const auto count = read_rank_count(fs, directory.path());
    EXPECT_EQ(count.status().code(), StatusCode::kCorrupt);
    EXPECT_THAT(std::string(count.status().message()), HasSubstr(name));
  }
}

class ManyRanks : public ::testing::TestWithParam<int> {};

TEST_P(ManyRanks, FindTheirOwnFiles) {
  TemporaryDirectory directory;
  InProcessWorld::run(GetParam(), [&](Communicator& comm) {
    FileSystem& fs = real_file_system();
    const Status written = write_rank2file(comm, fs, directory.path(), files_of(comm.rank()));
    EXPECT_TRUE(written.ok()) << written.message();
    const auto files = read_rank2file(comm, fs, directory.path());
    ASSERT_TRUE(files.ok()) << files.status().message();
    EXPECT_EQ(*files, files_of(comm.rank()));
  });
  EXPECT_EQ(*read_rank_count(real_file_system(), directory.path()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Rank2File, ManyRanks, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

TEST(Rank2File, OfMoreRanksThanABlockLiesInSeveralFiles) {
  TemporaryDirectory directory;
  constexpr int kRanks = kRanksPerBlock + 3;
  InProcessWorld::run(kRanks, [&](Communicator& comm) {
    FileSystem& fs = real_file_system();
    ASSERT_TRUE(write_rank2file(comm, fs, directory.path(), files_of(comm.rank())).ok());
    const auto files = read_rank2file(comm, fs, directory.path());
    ASSERT_TRUE(files.ok());
    EXPECT_EQ(*files, files_of(comm.rank()));
  });
  EXPECT_EQ(read_rank2file_block(real_file_system(), directory.path(), 1)->size(), 3U);

  // A damaged block fails all ranks, with the name of the file, as damage and not as a passing
  // trouble.
  std::filesystem::resize_file(directory / "rank2file.1.scr", 40);
  InProcessWorld::run(kRanks, [&](Communicator& comm) {
    const auto files = read_rank2file(comm, real_file_system(), directory.path());
    ASSERT_EQ(files.status().code(), StatusCode::kCorrupt);
    ASSERT_THAT(std::string(files.status().message()), HasSubstr("rank2file.1.scr"));
  });
}

TEST(Rank2File, OfAnotherNumberOfRanksIsRefusedOnAllRanks) {
  TemporaryDirectory directory;
  InProcessWorld::run(4, [&](Communicator& comm) {
    ASSERT_TRUE(
        write_rank2file(comm, real_file_system(), directory.path(), files_of(comm.rank())).ok());
  });
  for (int ranks : {3, 5}) {
    InProcessWorld::run(ranks, [&](Communicator& comm) {
      const auto files = read_rank2file(comm, real_file_system(), directory.path());
      EXPECT_EQ(files.status().code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(files.status().message()), HasSubstr("written by 4 ranks"));
    });
  }
}

TEST(Rank2File, ThatMissesARankIsRefusedOnAllRanks) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(write_rank2file_block(fs, directory.path(), 0, {{0, {}}, {1, {}}, {3, {}}}).ok());
  ASSERT_TRUE(write_rank2file_top(fs, directory.path(), 4).ok());
  InProcessWorld::run(4, [&](Communicator& comm) {
    const auto files = read_rank2file(comm, fs, directory.path());
    EXPECT_EQ(files.status().code(), StatusCode::kCorrupt);
    EXPECT_THAT(std::string(files.status().message()), HasSubstr("no entry for rank 2"));
  });
}

}  // namespace
}  // namespace scr::flush
