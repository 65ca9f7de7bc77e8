// Filemaps: golden bytes, life of an entry, and every lie in a file refused.
#include "core/base/filemap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr const char* kDirectory = "/dev/shm/user1/scr.112573/scr.dataset.6";

FileMeta file(const std::string& name, FileType type, std::uint64_t size, std::uint32_t crc) {
  FileMeta meta;
  meta.file = name;
  meta.type = type;
  meta.complete = true;
  meta.size = size;
  meta.crc = crc;
  meta.ranks = 4;
  return meta;
}

FilemapEntry sample_entry() {
  FilemapEntry entry;
  entry.dataset.id = 6;
  entry.dataset.name = "ckpt.6";
  entry.dataset.created = 1312850690668536;
  entry.dataset.user = "user1";
  entry.dataset.job_name = "sim";
  entry.dataset.job_id = "112573";
  entry.dataset.cluster = "atlas";
  entry.dataset.checkpoint = 6;
  entry.dataset.ranks = 4;
  entry.dataset.size = 2097182;
  entry.dataset.files = 4;
  entry.dataset.complete = true;
  entry.directory = kDirectory;
  entry.expected_files = 2;
  FileMeta data = file("a/x.h5", FileType::kFull, 524296, 0x738bb68f);
  data.original = "a/x.h5";
  data.path = "/p/run/a";
  data.name = "x.h5";
  entry.files = {data, file("3_of_4_in_0.xor", FileType::kXor, 175693, 0x2ef519a1)};
  entry.redundancy.set_value("TYPE", "XOR");
  return entry;
}

Filemap sample() {
  Filemap filemap;
  filemap.at(2, 6) = sample_entry();
  return filemap;
}

// The file of sample(), made by a program of its own from docs/formats (not by this code).
constexpr std::string_view kGolden =
    "951fc3f5000100010000000000000317000000010000000244534554000000000136000000000152414e4b00"
    "0000000132000000000052414e4b000000000132000000000144534554000000000136000000000544534554"
    "44455343000000000c494400000000013600000000004e414d450000000001636b70742e3600000000004352"
    "4541544544000000000131333132383530363930363638353336000000000055534552000000000175736572"
    "3100000000004a4f424e414d45000000000173696d00000000004a4f42494400000000013131323537330000"
    "000000434c5553544552000000000161746c61730000000000434b5054000000000136000000000052414e4b"
    "53000000000134000000000053495a45000000000132303937313832000000000046494c4553000000000134"
    "0000000000434f4d504c455445000000000131000000000044495200000000012f6465762f73686d2f757365"
    "72312f7363722e3131323537332f7363722e646174617365742e36000000000046494c455300000000013200"
    "0000000046494c450000000002612f782e683500000000014d455441000000000946494c450000000001612f"
    "782e6835000000000054595045000000000146554c4c0000000000434f4d504c455445000000000131000000"
    "000053495a450000000001353234323936000000000043524300000000013078373338626236386600000000"
    "0052414e4b5300000000013400000000004f5249470000000001612f782e6835000000000050415448000000"
    "00012f702f72756e2f6100000000004e414d450000000001782e68350000000000335f6f665f345f696e5f30"
    "2e786f7200000000014d455441000000000646494c450000000001335f6f665f345f696e5f302e786f720000"
    "000000545950450000000001584f520000000000434f4d504c455445000000000131000000000053495a4500"
    "000000013137353639330000000000435243000000000130783265663531396131000000000052414e4b5300"
    "00000001340000000000524544444553430000000001545950450000000001584f5200000000009831d3f2";

std::vector<std::byte> golden() {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < kGolden.size(); i += 2) {
    const std::string digits(kGolden.substr(i, 2));
    bytes.push_back(static_cast<std::byte>(std::stoi(digits, nullptr, 16)));
  }
  return bytes;
}

std::string refusal(const Hash& hash) {
  const auto filemap = Filemap::from_hash(hash);
  if (filemap.ok()) return "accepted";
  EXPECT_EQ(filemap.status().code(), StatusCode::kCorrupt);
  return std::string(filemap.status().message());
}

// The hash of the one entry in a copy of the sample.
Hash& entry_of(Hash& hash) { return *hash.at("RANK").at("2").at("DSET").get("6"); }

TEST(Filemap, HasTheBytesOfTheFormat) {
  const auto bytes = encode_hash_file(sample().to_hash());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, golden());
}

TEST(Filemap, ReadsTheBytesOfTheFormat) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_file_atomically(directory / "f", golden(), false).ok());
  const auto filemap = read_filemap(fs, directory / "f");
  ASSERT_TRUE(filemap.ok()) << filemap.status().message();
  EXPECT_EQ(*filemap, sample());
}

TEST(Filemap, EverySingleFlippedByteIsNoticed) {
  const std::vector<std::byte> good = golden();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x20};
    const auto hash = decode_hash_file(bad, "x");
    EXPECT_FALSE(hash.ok()) << "byte " << i;
  }
}

TEST(Filemap, AnEmptyOneIsAnEmptyHashAndBack) {
  EXPECT_TRUE(Filemap().to_hash().empty());
  const auto filemap = Filemap::from_hash(Hash());
  ASSERT_TRUE(filemap.ok());
  EXPECT_TRUE(filemap->empty());
}

TEST(Filemap, AnEntryJustMadeComesBack) {
  Filemap filemap;
  filemap.at(0, 1);
  const auto again = Filemap::from_hash(filemap.to_hash());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, filemap);
  EXPECT_EQ(again->get(0, 1)->expected_files, -1);
}

TEST(Filemap, ARankFilemapHasNoDirectory) {
  Filemap filemap = sample();
  filemap.get(2, 6)->directory.clear();
  EXPECT_FALSE(entry_of(*std::make_unique<Hash>(filemap.to_hash())).contains("DIR"));
  const auto again = Filemap::from_hash(filemap.to_hash());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->get(2, 6)->directory, "");
}

TEST(Filemap, KeepsFilesInTheOrderTheyWereRegistered) {
  FilemapEntry entry;
  for (const char* name : {"z", "a", "m"}) entry.put(file(name, FileType::kFull, 1, 1));
  entry.put(file("a", FileType::kFull, 2, 2));
  ASSERT_EQ(entry.files.size(), 3U);
  EXPECT_EQ(entry.files[0].file, "z");
  EXPECT_EQ(entry.files[1].file, "a");
  EXPECT_EQ(entry.files[1].size, 2U);
  EXPECT_EQ(entry.files[2].file, "m");
  EXPECT_EQ(entry.find("m")->size, 1U);
  EXPECT_EQ(entry.find("b"), nullptr);
  entry.remove("a");
  entry.remove("b");
  EXPECT_EQ(entry.files.size(), 2U);
}

TEST(Filemap, ListsRanksAndDatasets) {
  Filemap filemap;
  for (const auto& [rank, id] : {std::pair{20, 10}, {20, 11}, {28, 11}}) filemap.at(rank, id);
  EXPECT_THAT(filemap.datasets(), ElementsAre(10, 11));
  EXPECT_THAT(filemap.ranks(), ElementsAre(20, 28));
  EXPECT_THAT(filemap.ranks(10), ElementsAre(20));
  EXPECT_THAT(filemap.ranks(11), ElementsAre(20, 28));
  EXPECT_THAT(filemap.only_rank(28).datasets(), ElementsAre(11));
  filemap.remove(20, 10);
  filemap.remove(20, 11);
  filemap.remove(5, 5);
  EXPECT_THAT(filemap.ranks(), ElementsAre(28));
}

TEST(Filemap, IndexesByDataset) {
  Filemap filemap;
  filemap.at(20, 11);
  filemap.at(28, 11);
  const Hash hash = filemap.to_hash();
  const Hash* ranks = hash.getf("DSET 11 RANK");
  ASSERT_NE(ranks, nullptr);
  EXPECT_THAT(ranks->int_keys(), ElementsAre(20, 28));
}

TEST(FilemapMerge, TheCompleteEntryWinsThenTheOneWithMoreFiles) {
  Filemap half;
  half.at(2, 6).files = {file("a", FileType::kFull, 1, 1), file("b", FileType::kFull, 1, 1),
                         file("c", FileType::kFull, 1, 1)};
  half.at(3, 7);

  Filemap merged = half;
  merged.merge(sample());
  EXPECT_EQ(*merged.get(2, 6), sample_entry());
  EXPECT_NE(merged.get(3, 7), nullptr);

  merged = sample();
  merged.merge(half);
  EXPECT_EQ(*merged.get(2, 6), sample_entry());

  Filemap fewer;
  fewer.at(2, 6).files = {file("a", FileType::kFull, 1, 1)};
  fewer.merge(half);
  EXPECT_EQ(fewer.get(2, 6)->files.size(), 3U);
}

TEST(FilemapRefusal, AnIndexThatDoesNotAgreeWithTheEntries) {
  const char* text = "its index does not agree with its entries";
  Hash more = sample().to_hash();
  more.at("DSET").at("6").set_kv_int("RANK", 3);
  EXPECT_EQ(refusal(more), text);
  Hash none = sample().to_hash();
  none.unset("DSET");
  EXPECT_EQ(refusal(none), text);
  Hash other = sample().to_hash();
  other.at("DSET").unset("6");
  other.at("DSET").at("7").set_kv_int("RANK", 2);
  EXPECT_EQ(refusal(other), text);
  Hash no_data = sample().to_hash();
  no_data.unset("RANK");
  EXPECT_EQ(refusal(no_data), text);
}

TEST(FilemapRefusal, KeysThatAreNoRankOrId) {
  for (const char* bad : {"-1", "x", "", "2147483648", "02", "+2", "2 "}) {
    Hash hash;
    hash.at("RANK").at(bad).at("DSET").at("6");
    EXPECT_THAT(refusal(hash), HasSubstr("is not a rank")) << bad;
  }
  for (const char* bad : {"0", "-1", "06", "x"}) {
    Hash hash;
    hash.at("RANK").at("2").at("DSET").at(bad);
    EXPECT_THAT(refusal(hash), HasSubstr("is not a dataset id")) << bad;
  }
}

TEST(FilemapRefusal, ARankWithoutDatasets) {
  Hash hash;
  hash.at("RANK").at("2");
  EXPECT_EQ(refusal(hash), "key 'DSET' is missing");
  hash.at("RANK").at("2").at("DSET");
  EXPECT_EQ(refusal(hash), "rank 2 has no datasets");
}

TEST(FilemapRefusal, ADescriptorOfAnotherDataset) {
  Hash hash = sample().to_hash();
  entry_of(hash).at("DSETDESC").set_value("ID", 7);
  EXPECT_EQ(refusal(hash), "rank 2, dataset 6: its descriptor is that of dataset 7");
  entry_of(hash).at("DSETDESC").set_value("ID", 6);
  entry_of(hash).at("DSETDESC").set_value("RANKS", 2);
  EXPECT_EQ(refusal(hash), "rank 2, dataset 6: its descriptor tells of 2 ranks");
  entry_of(hash).unset("DSETDESC");
  EXPECT_EQ(refusal(hash), "rank 2, dataset 6: key 'DSETDESC' is missing");
}

TEST(FilemapRefusal, DirectoriesThatAreNotAbsoluteAndNormal) {
  for (const char* bad : {"", "/", "a", "./a", "/a/../etc", "/a//b", "/a/", "/a/.", "/a\nb"}) {
    Hash hash = sample().to_hash();
    entry_of(hash).set_value("DIR", bad);
    EXPECT_NE(refusal(hash), "accepted") << bad;
  }
  Hash hash = sample().to_hash();
  entry_of(hash).set_value("DIR", "/" + std::string(5000, 'x'));
  EXPECT_THAT(refusal(hash), HasSubstr("too long"));
}

TEST(FilemapRefusal, FilesThatLeaveTheirDirectory) {
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../../x", "a//x", "x/", "x\x01"}) {
    Hash hash = sample().to_hash();
    Hash meta = file(bad, FileType::kFull, 1, 1).to_hash();
    entry_of(hash).at("FILE").clear();
    entry_of(hash).at("FILE").at(bad).set("META", meta);
    EXPECT_THAT(refusal(hash), HasSubstr("unsafe path")) << bad;
  }
}

TEST(FilemapRefusal, MetaDataOfAnotherFile) {
  Hash hash = sample().to_hash();
  entry_of(hash).at("FILE").at("a/x.h5").at("META").set_value("FILE", "a/y.h5");
  EXPECT_EQ(refusal(hash), "rank 2, dataset 6: file 'a/x.h5': its meta data is that of 'a/y.h5'");
  entry_of(hash).at("FILE").at("a/x.h5").unset("META");
  EXPECT_EQ(refusal(hash), "rank 2, dataset 6: file 'a/x.h5': key 'META' is missing");
}

TEST(FilemapRefusal, CountsThatCannotBe) {
  for (const char* bad : {"-1", "x", "2147483648", "1e3"}) {
    Hash hash = sample().to_hash();
    entry_of(hash).set_value("FILES", bad);
    EXPECT_THAT(refusal(hash), HasSubstr("is not a number of files")) << bad;
  }
  Hash hash = sample().to_hash();
  entry_of(hash).set_value("FILES", 1);
  EXPECT_THAT(refusal(hash), HasSubstr("lists 2 files, but expects 1"));
}

TEST(FilemapFile, NamesTheFileThatIsNotAFilemap) {
  TemporaryDirectory directory;
  Hash hash;
  hash.at("RANK").at("x");
  ASSERT_TRUE(
      write_hash_file(real_file_system(), directory / "f", hash, Durability::kVolatile).ok());
  const auto filemap = read_filemap(real_file_system(), directory / "f");
  ASSERT_FALSE(filemap.ok());
  EXPECT_EQ(filemap.status().message(),
            "'" + (directory / "f") + "' is not a valid filemap: 'x' is not a rank");
  EXPECT_EQ(read_filemap(real_file_system(), directory / "g").status().code(),
            StatusCode::kNotFound);
}

TEST(FilemapFile, WhatCouldNotBeReadAgainIsNotWritten) {
  TemporaryDirectory directory;
  Filemap filemap = sample();
  filemap.get(2, 6)->files[0].file = "../x";
  const Status written = write_filemap(real_file_system(), directory / "f", filemap);
  EXPECT_EQ(written.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(written.message()), HasSubstr("unsafe path '../x'"));
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
  filemap = sample();
  filemap.get(2, 6)->files[1].file = "a/x.h5";
  EXPECT_THAT(std::string(write_filemap(real_file_system(), directory / "f", filemap).message()),
              HasSubstr("listed twice"));
}

TEST(FilemapFile, AFailureAtAnyStepLeavesTheOldOne) {
  TemporaryDirectory directory;
  ASSERT_TRUE(write_filemap(real_file_system(), directory / "f", sample()).ok());
  Filemap changed = sample();
  changed.at(3, 6) = sample_entry();
  int failures = 0;
  for (std::uint64_t n = 1; n < 20; ++n) {
    FaultyFileSystem fs(real_file_system(), FaultPlan::fail_at(n, EIO));
    if (write_filemap(fs, directory / "f", changed).ok()) break;
    ++failures;
    const auto read = read_filemap(real_file_system(), directory / "f");
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, sample());
  }
  EXPECT_GE(failures, 3);
}

TEST(MasterFilemap, ListsNames) {
  TemporaryDirectory directory;
  const std::vector<std::string> names = {filemap_name(3, 0), filemap_name(3, 1)};
  FileSystem& fs = real_file_system();
  const At at = directory / std::string(kMasterFilemapName);
  ASSERT_TRUE(write_master_filemap(fs, at, names).ok());
  const auto read = read_master_filemap(fs, at);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, names);
  ASSERT_TRUE(write_master_filemap(fs, at, {}).ok());
  EXPECT_TRUE(read_master_filemap(fs, at)->empty());
}

TEST(MasterFilemap, RefusesNamesElsewhere) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  EXPECT_FALSE(write_master_filemap(fs, directory / "m", {"../filemap_0.scrinfo"}).ok());
  Hash hash;
  hash.set_kv("Filemap", "/etc/filemap_0.scrinfo");
  ASSERT_TRUE(write_hash_file(fs, directory / "m", hash, Durability::kVolatile).ok());
  const auto read = read_master_filemap(fs, directory / "m");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("is not a valid master filemap: unsafe path"));
}

TEST(FilemapName, IsKnownAgain) {
  EXPECT_EQ(filemap_name(2, 13), "filemap_2_13.scrinfo");
  EXPECT_TRUE(is_filemap_name("filemap_2_13.scrinfo"));
  EXPECT_TRUE(is_filemap_name("filemap_0.scrinfo"));
  for (const char* other : {"filemap.scrinfo", "filemap_.scrinfo", "filemap_x.scrinfo",
                            "filemap_1_2_3.scrinfo", "filemap_1", "xfilemap_1.scrinfo", ""}) {
    EXPECT_FALSE(is_filemap_name(other)) << other;
  }
}

}  // namespace
}  // namespace scr
