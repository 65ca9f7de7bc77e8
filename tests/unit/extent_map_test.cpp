// Extents of shared files against a file that is kept byte by byte.
#include "core/shared_file/extent_map.hpp"

#include <gtest/gtest.h>

#include <random>

namespace scr::shared_file {
namespace {

Extent write_of(std::uint32_t rank, std::uint64_t epoch, std::uint64_t offset, std::uint64_t length,
                std::uint64_t log_offset, std::uint64_t sequence = 0) {
  return {offset, length, log_offset, {epoch, rank, sequence}};
}

TEST(ExtentMap, AnEmptyFileIsAHole) {
  ExtentMap map;
  EXPECT_EQ(map.size(), 0U);
  EXPECT_TRUE(map.find(0, 0).empty());
  EXPECT_EQ(map.find(5, 10), (std::vector<Piece>{{5, 10, std::nullopt}}));
}

TEST(ExtentMap, WritesThatContinueEachOtherAreOneExtent) {
  ExtentMap map;
  for (std::uint64_t i = 0; i < 1000; ++i) map.insert(write_of(1, 2, i * 10, 10, i * 10, i));
  EXPECT_EQ(map.count(), 1U);
  EXPECT_EQ(map.size(), 10000U);
}

TEST(ExtentMap, ALaterEpochWinsWhicheverRecordComesFirst) {
  for (const bool later_first : {false, true}) {
    ExtentMap map;
    const Extent fill = write_of(7, 1, 0, 100, 0);
    const Extent data = write_of(2, 2, 40, 20, 500);
    map.insert(later_first ? data : fill);
    map.insert(later_first ? fill : data);
    const auto pieces = map.find(0, 100);
    ASSERT_EQ(pieces.size(), 3U);
    EXPECT_EQ(pieces[1].source, data);
    EXPECT_EQ(pieces[2].source->log_offset, 60U);
    EXPECT_EQ(pieces[2].source->stamp.rank, 7U);
  }
}

TEST(ExtentMap, TruncationCutsWhatWasWrittenBeforeIt) {
  ExtentMap map;
  map.insert(write_of(0, 5, 200, 10, 0));  // after the truncation, though its record comes first
  map.truncate(50, {4, 0, 0});
  map.insert(write_of(1, 3, 0, 100, 0));  // before it, though its record comes last
  EXPECT_EQ(map.size(), 210U);
  const auto pieces = map.find(0, 210);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].length, 50U);
  EXPECT_FALSE(pieces[1].source);
  EXPECT_EQ(pieces[2].source->log_offset, 0U);
}

TEST(ExtentMap, ExtendingMakesAHole) {
  ExtentMap map;
  map.truncate(1000, {1, 0, 0});
  EXPECT_EQ(map.size(), 1000U);
  EXPECT_EQ(map.find(0, 10), (std::vector<Piece>{{0, 10, std::nullopt}}));
}

// Every byte of a naive file knows the stamp and the place in the log of its newest write.
class Naive {
 public:
  void insert(const Extent& extent) {
    for (std::uint64_t i = 0; i < extent.length; ++i) {
      auto& byte = bytes_[extent.offset + i];
      if (!byte || byte->first < extent.stamp) byte.emplace(extent.stamp, extent.log_offset + i);
    }
  }
  const auto& byte(std::uint64_t offset) const { return bytes_[offset]; }

 private:
  std::vector<std::optional<std::pair<Stamp, std::uint64_t>>> bytes_{
      std::vector<std::optional<std::pair<Stamp, std::uint64_t>>>(400)};
};

TEST(ExtentMap, GivesTheNewestWriteOfEveryByteInAnyOrder) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    ExtentMap map;
    Naive naive;
    std::vector<std::uint64_t> log_ends(4, 0);
    for (int i = 0; i < 60; ++i) {
      const auto rank = static_cast<std::uint32_t>(random() % 4);
      const std::uint64_t length = 1 + random() % 60;
      const Extent extent = write_of(rank, random() % 5, random() % (400 - length), length,
                                     log_ends[rank], static_cast<std::uint64_t>(i));
      log_ends[rank] += length;
      map.insert(extent);
      naive.insert(extent);
    }
    std::uint64_t position = 0;
    for (const Piece& piece : map.find(0, 400)) {
      ASSERT_EQ(piece.offset, position) << "seed " << seed;
      for (std::uint64_t i = 0; i < piece.length; ++i) {
        const auto& byte = naive.byte(piece.offset + i);
        ASSERT_EQ(byte.has_value(), piece.source.has_value()) << "seed " << seed;
        if (!byte) continue;
        ASSERT_EQ(byte->second, piece.source->log_offset + i) << "seed " << seed;
        ASSERT_EQ(byte->first.rank, piece.source->stamp.rank) << "seed " << seed;
        ASSERT_EQ(byte->first.epoch, piece.source->stamp.epoch) << "seed " << seed;
      }
      position += piece.length;
    }
    ASSERT_EQ(position, 400U);
  }
}

}  // namespace
}  // namespace scr::shared_file
