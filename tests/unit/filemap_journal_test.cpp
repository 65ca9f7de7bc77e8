#include "core/base/filemap_journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

constexpr int kRank = 3;
constexpr int kDataset = 6;

FileMeta file(const std::string& name) {
  FileMeta meta;
  meta.file = name;
  meta.ranks = 4;
  meta.original = "/p/" + name;
  meta.path = "/p";
  meta.name = name;
  return meta;
}

// A dataset that was started, with one file in the filemap itself.
Filemap started() {
  Filemap filemap;
  FilemapEntry& entry = filemap.at(kRank, kDataset);
  entry.dataset.name = "six";
  entry.dataset.ranks = 4;
  entry.directory = "/cache/dataset.6";
  entry.put(file("first"));
  return filemap;
}

std::vector<std::string> names(const Filemap& filemap) {
  std::vector<std::string> result;
  for (const FileMeta& meta : filemap.get(kRank, kDataset)->files) result.push_back(meta.file);
  return result;
}

std::vector<std::byte> records(const std::vector<std::string>& files) {
  std::vector<std::byte> bytes;
  for (const std::string& name : files) {
    const auto record = encode_journal_record(kRank, kDataset, file(name)).value();
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

TEST(FilemapJournal, ReadingAFilemapAddsItsFiles) {
  testing::TemporaryDirectory directory;
  const At at(directory / "filemap_1_0.scrinfo");
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(write_filemap(fs, at, started()).ok());
  FilemapJournal journal;
  for (const char* name : {"a", "sub/b", "c"}) {
    ASSERT_TRUE(journal.append(fs, at, kRank, kDataset, file(name)).ok());
  }
  const auto read = read_filemap(fs, at);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_THAT(names(*read), ::testing::ElementsAre("first", "a", "sub/b", "c"));
  EXPECT_EQ(read->get(kRank, kDataset)->files[1], file("a"));

  journal.drop(fs, at);
  EXPECT_FALSE(std::filesystem::exists(journal_of(at).path));
  EXPECT_THAT(names(*read_filemap(fs, at)), ::testing::ElementsAre("first"));
}

TEST(FilemapJournal, ATornLastRecordIsIgnored) {
  const auto whole = records({"a", "b"});
  const std::size_t first = records({"a"}).size();
  for (std::size_t length = first; length < whole.size(); ++length) {
    Filemap filemap = started();
    EXPECT_EQ(apply_journal(std::span(whole).first(length), filemap), first);
    EXPECT_THAT(names(filemap), ::testing::ElementsAre("first", "a"));
  }
}

TEST(FilemapJournal, AFlippedBitNeverAddsAWrongName) {
  const auto whole = records({"a", "b", "c"});
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto damaged = whole;
    damaged[i] ^= std::byte{0x10};
    Filemap filemap = started();
    EXPECT_LT(apply_journal(damaged, filemap), whole.size());
    const std::vector<std::string> expected = {"first", "a", "b", "c"};
    const auto found = names(filemap);
    EXPECT_LT(found.size(), expected.size()) << "byte " << i;
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << "byte " << i;
    EXPECT_TRUE(filemap.check().ok());
  }
}

TEST(FilemapJournal, AJournalOlderThanItsFilemapChangesNothing) {
  Filemap filemap = started();
  FileMeta complete = file("a");
  complete.complete = true;
  complete.size = 77;
  filemap.at(kRank, kDataset).put(complete);
  const Filemap before = filemap;
  apply_journal(records({"a", "first"}), filemap);
  EXPECT_EQ(filemap, before);

  filemap.at(kRank, kDataset).expected_files = 2;
  apply_journal(records({"late"}), filemap);
  EXPECT_THAT(names(filemap), ::testing::ElementsAre("first", "a"));

  filemap.remove(kRank, kDataset);
  apply_journal(records({"of a dataset that is gone"}), filemap);
  EXPECT_TRUE(filemap.empty());
}

TEST(FilemapJournal, PathsThatLeaveTheDirectoryAreRefused) {
  Filemap filemap = started();
  EXPECT_EQ(apply_journal(records({"../up"}), filemap), 0U);
  EXPECT_THAT(names(filemap), ::testing::ElementsAre("first"));
}

TEST(FilemapJournal, AJournalThatCannotBeReadMakesTheFilemapUnreadable) {
  testing::TemporaryDirectory directory;
  const At at(directory / "filemap_1_0.scrinfo");
  ASSERT_TRUE(write_filemap(real_file_system(), at, started()).ok());
  FilemapJournal journal;
  ASSERT_TRUE(journal.append(real_file_system(), at, kRank, kDataset, file("a")).ok());
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.path = "*.journal";
  FaultyFileSystem fs(real_file_system(), plan);
  EXPECT_EQ(read_filemap(fs, at).status().code(), StatusCode::kIoError);
}

TEST(FilemapJournal, NothingIsWrittenBehindARecordThatFailed) {
  testing::TemporaryDirectory directory;
  const At at(directory / "filemap_1_0.scrinfo");
  ASSERT_TRUE(write_filemap(real_file_system(), at, started()).ok());
  FaultPlan plan = FaultPlan::fail_at(2, ENOSPC);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  FaultyFileSystem fs(real_file_system(), plan);
  FilemapJournal journal;
  EXPECT_TRUE(journal.append(fs, at, kRank, kDataset, file("a")).ok());
  EXPECT_FALSE(journal.append(fs, at, kRank, kDataset, file("b")).ok());
  EXPECT_FALSE(journal.append(fs, at, kRank, kDataset, file("c")).ok());
  EXPECT_THAT(names(*read_filemap(fs, at)), ::testing::ElementsAre("first", "a"));
}

}  // namespace
}  // namespace scr
