#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/mpiio/file_view.hpp"
#include "core/mpiio/hints.hpp"

namespace scr::mpiio {
namespace {

using shared_file::Range;
using ::testing::ElementsAre;

mpi::FlatType flat(std::vector<mpi::ByteRange> ranges, std::int64_t extent) {
  mpi::FlatType type;
  for (const auto& range : ranges) type.size += range.length;
  type.extent = extent;
  type.is_contiguous =
      ranges.empty() || (ranges.size() == 1 && extent == static_cast<std::int64_t>(type.size));
  type.owner = std::make_shared<const std::vector<mpi::ByteRange>>(std::move(ranges));
  type.ranges = *type.owner;
  return type;
}

FileView view_of(std::uint64_t displacement, std::uint64_t etype, const mpi::FlatType& type) {
  auto view = FileView::make(displacement, etype, type);
  EXPECT_TRUE(view.ok()) << view.status().to_string();
  return view.ok() ? *view : FileView();
}

// All ranges of a transfer, made `most_ranges` at a time.
std::vector<Range> ranges_of(const FileView& view, std::uint64_t position, std::uint64_t bytes,
                             std::size_t most_ranges = 1000, std::uint64_t most = 1 << 30) {
  auto walk = FileView::Walk::start(view, position, bytes);
  EXPECT_TRUE(walk.ok()) << walk.status().to_string();
  std::vector<Range> all;
  std::vector<Range> some;
  while (const std::uint64_t length = walk->next(most, most_ranges, some)) {
    EXPECT_LE(some.size(), most_ranges);
    std::uint64_t sum = 0;
    for (const Range& range : some) sum += range.length;
    EXPECT_EQ(sum, length);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(FileView, TheDefaultSeesEveryByte) {
  const FileView view;
  EXPECT_THAT(ranges_of(view, 100, 50), ElementsAre(Range{100, 50}));
  EXPECT_EQ(*view.offset_of(7), 7U);
  EXPECT_EQ(view.positions_within(12), 12U);
}

TEST(FileView, AContiguousFiletypeIsOneRangeWhateverItsSize) {
  const FileView view = view_of(1000, 8, flat({{0, 8}}, 8));
  EXPECT_THAT(ranges_of(view, 16, 1 << 20), ElementsAre(Range{1016, 1 << 20}));
  EXPECT_THAT(ranges_of(view, 3, 10, 1000, 4),
              ElementsAre(Range{1003, 4}, Range{1007, 4}, Range{1011, 2}));
}

TEST(FileView, ABlockThatStartsLaterThanItsTypeIsMoved) {
  const FileView view = view_of(10, 4, flat({{6, 4}}, 4));
  EXPECT_THAT(ranges_of(view, 0, 8), ElementsAre(Range{16, 8}));
  EXPECT_EQ(view.positions_within(16), 0U);
  EXPECT_EQ(view.positions_within(19), 3U);
}

TEST(FileView, TilesWithHoles) {
  const FileView view = view_of(5, 2, flat({{2, 4}, {8, 2}}, 12));
  EXPECT_THAT(ranges_of(view, 0, 12),
              ElementsAre(Range{7, 4}, Range{13, 2}, Range{19, 4}, Range{25, 2}));
  EXPECT_THAT(ranges_of(view, 3, 5), ElementsAre(Range{10, 1}, Range{13, 2}, Range{19, 2}));
  EXPECT_EQ(*view.offset_of(4), 13U);
  EXPECT_EQ(*view.offset_of(6), 19U);
}

TEST(FileView, NeighboursInDifferentTilesAreOneRange) {
  const FileView view = view_of(0, 1, flat({{0, 1}, {3, 1}}, 4));
  EXPECT_THAT(ranges_of(view, 0, 6),
              ElementsAre(Range{0, 1}, Range{3, 2}, Range{7, 2}, Range{11, 1}));
}

TEST(FileView, RefusesWhatMpiForbids) {
  EXPECT_FALSE(FileView::make(0, 1, flat({{8, 4}, {0, 4}}, 12)).ok()) << "descending";
  EXPECT_FALSE(FileView::make(0, 1, flat({{0, 4}, {2, 4}}, 12)).ok()) << "overlapping";
  EXPECT_FALSE(FileView::make(0, 1, flat({{-4, 4}}, 12)).ok()) << "before the displacement";
  EXPECT_FALSE(FileView::make(0, 1, flat({{0, 4}}, 0)).ok()) << "all copies at one place";
  EXPECT_FALSE(FileView::make(0, 8, flat({{0, 4}}, 4)).ok()) << "half an etype";
}

TEST(FileView, AnEmptyFiletypeHoldsNothing) {
  const FileView view = view_of(3, 1, flat({}, 0));
  EXPECT_TRUE(view.is_empty());
  EXPECT_TRUE(ranges_of(view, 0, 0).empty());
  EXPECT_FALSE(FileView::Walk::start(view, 0, 1).ok());
  EXPECT_EQ(view.positions_within(100), 0U);
}

TEST(FileView, OffsetsBeyondSixtyThreeBitsAreRefused) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const FileView far = view_of(kLargest - 10, 1, flat({{0, 1}}, 1));
  EXPECT_TRUE(FileView::Walk::start(far, 0, 11).ok());
  EXPECT_FALSE(FileView::Walk::start(far, 0, 12).ok());
  const FileView wide = view_of(0, 1, flat({{0, 1}}, std::int64_t{1} << 40));
  EXPECT_TRUE(FileView::Walk::start(wide, 0, 1 << 20).ok());
  EXPECT_FALSE(FileView::Walk::start(wide, 0, 1 << 24).ok());
  EXPECT_FALSE(wide.offset_of(std::uint64_t{1} << 40).ok());
  EXPECT_FALSE(FileView::Walk::start(FileView(), kLargest, kLargest).ok());
}

// Against the definition, byte by byte.
TEST(FileView, RandomViewsFollowTheDefinition) {
  const std::uint64_t seed = 20261116;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<mpi::ByteRange> ranges;
    std::uint64_t end = pick(0, 9);
    for (std::uint64_t i = pick(1, 6); i > 0; --i) {
      const std::uint64_t length = pick(1, 7);
      ranges.push_back({static_cast<std::int64_t>(end), length});
      end += length + pick(i == 1 ? 0 : 1, 5);
    }
    const auto tile =
        end + pick(0, 4) - std::min<std::uint64_t>(end - 1, pick(0, 1) * ranges[0].offset);
    const std::uint64_t displacement = pick(0, 20);
    const mpi::FlatType type = flat(ranges, static_cast<std::int64_t>(tile));
    const FileView view = view_of(displacement, 1, type);
    std::vector<std::uint64_t> offsets;  // of each position
    for (std::uint64_t copy = 0; copy < 8; ++copy) {
      for (const auto& range : ranges) {
        for (std::uint64_t i = 0; i < range.length; ++i)
          offsets.push_back(displacement + copy * tile + static_cast<std::uint64_t>(range.offset) +
                            i);
      }
    }
    const std::uint64_t first = pick(0, offsets.size() - 1);
    const std::uint64_t bytes = pick(0, offsets.size() - first);
    std::vector<std::uint64_t> found;
    for (const Range& range : ranges_of(view, first, bytes, pick(1, 5), pick(1, 30))) {
      for (std::uint64_t at = range.offset; at < range.end(); ++at) found.push_back(at);
    }
    const std::vector expected(offsets.begin() + static_cast<std::ptrdiff_t>(first),
                               offsets.begin() + static_cast<std::ptrdiff_t>(first + bytes));
    ASSERT_EQ(found, expected) << "round " << round;
    EXPECT_EQ(*view.offset_of(first), offsets[first]);
    const std::uint64_t size = offsets[first] + pick(0, 1);
    EXPECT_EQ(view.positions_within(size),
              static_cast<std::uint64_t>(std::count_if(offsets.begin(), offsets.end(),
                                                       [&](auto at) { return at < size; })));
  }
}

TEST(Hints, AreLinesOfKeyAndValue) {
  EXPECT_THAT(parse_hints("scr_route 0\n# scr_type x\n\ncb_nodes\t4\nthree words here\nlonely\n"),
              ElementsAre(std::pair("cb_nodes", "4"), std::pair("scr_route", "0")));
  EXPECT_THAT(parse_hints("no_newline 1"), ElementsAre(std::pair("no_newline", "1")));
}

}  // namespace
}  // namespace scr::mpiio
