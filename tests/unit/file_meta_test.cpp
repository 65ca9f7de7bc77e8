// Meta data of files: there and back, the example of the SCR manual, and what is refused.
#include "core/base/file_meta.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scr {
namespace {

using ::testing::HasSubstr;

FileMeta sample() {
  FileMeta meta;
  meta.file = "rank_2.ckpt";
  meta.type = FileType::kFull;
  meta.complete = true;
  meta.size = 524296;
  meta.crc = 0x738bb68f;
  meta.ranks = 4;
  meta.original = "rank_2.ckpt";
  meta.path = "/p/lscratchb/user1/simulation123";
  meta.name = "rank_2.ckpt";
  return meta;
}

std::string refusal(const Hash& hash) {
  const auto meta = FileMeta::from_hash(hash);
  if (meta.ok()) return "accepted";
  EXPECT_EQ(meta.status().code(), StatusCode::kCorrupt);
  return std::string(meta.status().message());
}

TEST(FileMeta, ComesBackFromItsHash) {
  const auto again = FileMeta::from_hash(sample().to_hash());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, sample());
}

TEST(FileMeta, TheLogOfASharedFileComesBackFromItsHash) {
  FileMeta meta = sample();
  meta.shared = "all.h5";
  EXPECT_EQ(FileMeta::from_hash(meta.to_hash()).value(), meta);
  meta.shared_size = 1ULL << 60U;
  EXPECT_EQ(FileMeta::from_hash(meta.to_hash()).value(), meta);
}

TEST(FileMeta, ReadsTheExampleOfTheSeed) {
  Hash hash;
  hash.set_value("RANKS", 4);
  hash.set_value("COMPLETE", 1);
  hash.set_value("SIZE", 175693);
  hash.set_value("TYPE", "XOR");
  hash.set_value("FILE", "3_of_4_in_0.xor");
  hash.set_value("CRC", "0x2ef519a1");
  const auto meta = FileMeta::from_hash(hash);
  ASSERT_TRUE(meta.ok()) << meta.status().message();
  EXPECT_EQ(meta->file, "3_of_4_in_0.xor");
  EXPECT_EQ(meta->type, FileType::kXor);
  EXPECT_TRUE(meta->complete);
  EXPECT_EQ(meta->size, 175693U);
  EXPECT_EQ(meta->crc, 0x2ef519a1U);
  EXPECT_EQ(meta->ranks, 4);
  EXPECT_EQ(meta->original, "");
}

TEST(FileMeta, AFileThatIsNotChecksummedHasNoCrc) {
  FileMeta meta = sample();
  meta.crc.reset();
  EXPECT_FALSE(meta.to_hash().contains("CRC"));
  const auto again = FileMeta::from_hash(meta.to_hash());
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->crc.has_value());
}

TEST(FileMeta, EveryTypeComesBackFromItsName) {
  for (const FileType type :
       {FileType::kFull, FileType::kPartner, FileType::kXor, FileType::kReedSolomon}) {
    const auto again = parse_file_type(file_type_name(type));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, type);
  }
}

TEST(FileMeta, RefusesPathsThatLeaveTheDatasetDirectory) {
  for (const char* bad : {"", "/etc/passwd", "..", "a/../../b", "./a", "a//b", "a\nb", "a/"}) {
    Hash hash = sample().to_hash();
    hash.set_value("FILE", bad);
    EXPECT_THAT(refusal(hash), HasSubstr("unsafe path")) << bad;
  }
}

TEST(FileMeta, RefusesValuesThatCannotBe) {
  const std::pair<const char*, const char*> bad[] = {{"TYPE", "full"},
                                                     {"TYPE", ""},
                                                     {"SIZE", "-1"},
                                                     {"SIZE", "0x10"},
                                                     {"SIZE", "18446744073709551616"},
                                                     {"RANKS", "-1"},
                                                     {"RANKS", "2147483648"},
                                                     {"COMPLETE", "x"},
                                                     {"CRC", "738bb68f"},
                                                     {"CRC", "0x123456789"},
                                                     {"CRC", "0xzz"}};
  for (const auto& [key, value] : bad) {
    Hash hash = sample().to_hash();
    hash.set_value(key, value);
    EXPECT_NE(refusal(hash), "accepted") << key << "=" << value;
  }
}

TEST(FileMeta, AnUnknownTypeCannotDriveATerminal) {
  Hash hash = sample().to_hash();
  hash.set_value("TYPE", "\x1b[2J");
  EXPECT_EQ(refusal(hash), "unknown file type '\\x1b[2J'");
}

}  // namespace
}  // namespace scr
