// Containers: where the bytes of a file go, and what is refused when the list of segments is read
// back.
#include "flush/containers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace scr::flush {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

Segment segment(std::string file, std::uint64_t offset, std::uint64_t length,
                std::uint32_t crc = 0) {
  return {std::move(file), offset, length, crc};
}

std::string refusal(const Hash& hash, std::uint64_t size) {
  const auto segments = segments_from_hash(hash, size);
  if (segments.ok()) return "accepted";
  EXPECT_EQ(segments.status().code(), StatusCode::kCorrupt);
  return std::string(segments.status().message());
}

Hash sample() {
  return segments_to_hash({segment("ctr.1.scr", 224295, 75705, 7), segment("ctr.2.scr", 0, 300000),
                           segment("ctr.3.scr", 0, 148591)});
}

TEST(Containers, PlaceTheFilesOfTheSeedAsTheSeedSays) {
  const auto first = place_in_containers(0, 524295, 300000);
  EXPECT_EQ(first, (std::vector<Segment>{segment("ctr.0.scr", 0, 300000),
                                         segment("ctr.1.scr", 0, 224295)}));
  const auto second = place_in_containers(524295, 524296, 300000);
  EXPECT_EQ(second, (std::vector<Segment>{segment("ctr.1.scr", 224295, 75705),
                                          segment("ctr.2.scr", 0, 300000),
                                          segment("ctr.3.scr", 0, 148591)}));
}

TEST(Containers, AFileThatEndsWithItsContainerDoesNotTouchTheNext) {
  EXPECT_EQ(place_in_containers(100, 200, 300),
            (std::vector<Segment>{segment("ctr.0.scr", 100, 200)}));
  EXPECT_EQ(place_in_containers(300, 300, 300),
            (std::vector<Segment>{segment("ctr.1.scr", 0, 300)}));
}

TEST(Containers, AnEmptyFileHasNoSegments) {
  EXPECT_THAT(place_in_containers(0, 0, 300), IsEmpty());
  EXPECT_THAT(place_in_containers(300, 0, 300), IsEmpty());
}

TEST(Containers, FilesLaidEndToEndCoverEveryByteOnce) {
  std::map<std::string, std::uint64_t> filled;
  std::uint64_t offset = 0;
  for (std::uint64_t size : {1U, 0U, 7U, 64U, 63U, 65U, 1000U, 2U}) {
    std::uint64_t total = 0;
    for (const Segment& part : place_in_containers(offset, size, 64)) {
      EXPECT_EQ(part.offset, filled[part.file]) << part.file;
      EXPECT_LE(part.offset + part.length, 64U);
      filled[part.file] += part.length;
      total += part.length;
    }
    EXPECT_EQ(total, size);
    offset += size;
  }
  EXPECT_EQ(filled.size(), offset / 64 + 1);
}

TEST(Containers, ParityContainersHaveNamesOfTheirOwn) {
  EXPECT_EQ(container_name(12), "ctr.12.scr");
  EXPECT_EQ(parity_container_name(0), "ctr.parity.0.scr");
}

TEST(Segments, HaveTheKeysOfTheSeed) {
  const Hash hash = sample();
  EXPECT_NE(hash.getf("0 FILE ctr.1.scr"), nullptr);
  EXPECT_NE(hash.getf("0 OFFSET 224295"), nullptr);
  EXPECT_NE(hash.getf("0 LENGTH 75705"), nullptr);
  EXPECT_NE(hash.getf("0 CRC 0x00000007"), nullptr);
  EXPECT_NE(hash.getf("2 LENGTH 148591"), nullptr);
}

TEST(Segments, ComeBackFromTheirHash) {
  const auto again = segments_from_hash(sample(), 524296);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(segments_to_hash(*again), sample());
  EXPECT_THAT(segments_from_hash(Hash(), 0).value(), IsEmpty());
}

TEST(Segments, ThatDoNotAddUpToTheirFileAreRefused) {
  EXPECT_THAT(refusal(sample(), 524295), HasSubstr("segment 2 is longer than its file"));
  EXPECT_THAT(refusal(sample(), 524297), HasSubstr("524296 bytes of a file of 524297"));
  EXPECT_THAT(refusal(Hash(), 1), HasSubstr("0 bytes of a file of 1"));
}

TEST(Segments, OfAListWithAGapAreRefused) {
  Hash hash = sample();
  hash.unset("1");
  EXPECT_THAT(refusal(hash, 524296), HasSubstr("gap at 1"));
  hash = sample();
  hash.set("x", hash.extract("2"));
  EXPECT_THAT(refusal(hash, 524296), HasSubstr("gap at 2"));
}

TEST(Segments, WhoseNumbersOverflowAreRefused) {
  Hash hash = segments_to_hash({segment("ctr.0.scr", kHuge, 2)});
  EXPECT_THAT(refusal(hash, 2), HasSubstr("segment 0"));
  hash = segments_to_hash({segment("ctr.0.scr", 0, kHuge), segment("ctr.1.scr", 0, 2)});
  EXPECT_THAT(refusal(hash, 1), HasSubstr("segment 0"));
  EXPECT_THAT(refusal(hash, kHuge), HasSubstr("segment 1"));
}

TEST(Segments, WithWordsForNumbersAreRefusedByKey) {
  for (const char* key : {"OFFSET", "LENGTH", "CRC", "FILE"}) {
    Hash hash = sample();
    hash.get("1")->unset(key);
    EXPECT_THAT(refusal(hash, 524296), HasSubstr(key));
  }
  for (const char* value : {"", "-1", "0x10", "1e3", "99999999999999999999", "12 "}) {
    Hash hash = sample();
    hash.get("1")->set_value("LENGTH", value);
    EXPECT_NE(refusal(hash, 524296), "accepted") << value;
  }
}

TEST(Segments, WhoseNamesLeaveTheDatasetDirectoryAreRefused) {
  for (const char* name : {"/etc/passwd", "../ctr.0.scr", "a/../../x", "", ".", "a//b"}) {
    Hash hash = segments_to_hash({segment("ctr.0.scr", 0, 5)});
    hash.get("0")->set_value("FILE", name);
    EXPECT_NE(refusal(hash, 5), "accepted") << name;
  }
}

}  // namespace
}  // namespace scr::flush
