// Set formation: members from different failure groups, sets of near-equal size, nobody alone.
#include "redundancy/form_sets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "core/base/log.hpp"
#include "core/mpi/in_process_communicator.hpp"

namespace scr::redundancy {
namespace {

using Groups = std::vector<int>;                          // failure group of each rank
using AllSets = std::vector<std::vector<RedundancySet>>;  // of each rank

AllSets form(const Groups& groups, SetRequest request) {
  AllSets sets(groups.size());
  InProcessWorld::run(static_cast<int>(groups.size()), [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    SetRequest mine = request;
    mine.failure_group = "power" + std::to_string(groups[rank]);
    mine.host = "host-of-" + std::to_string(rank);
    sets[rank] = form_sets(comm, mine);
  });
  return sets;
}

std::vector<int> ranks_of(const RedundancySet& set) {
  std::vector<int> ranks;
  for (const Member& member : set.members) ranks.push_back(member.rank);
  return ranks;
}

using ::testing::ElementsAre;

// --- rules

struct Layout {
  Groups groups;
  SetRequest request;
  int group_count() const {
    return static_cast<int>(std::set(groups.begin(), groups.end()).size());
  }
  int group(int rank) const { return groups[static_cast<std::size_t>(rank)]; }
  int smallest() const { return request.scheme == Scheme::kReedSolomon ? request.failures + 1 : 2; }
  // Rank within its group.
  int level(int rank) const {
    return static_cast<int>(std::count(groups.begin(), groups.begin() + rank, group(rank)));
  }
};

void expect_a_possible_set(const Layout& layout, const RedundancySet& set) {
  std::set<int> groups;
  int guests = 0;
  int lowest = 1000;
  for (const Member& member : set.members) {
    EXPECT_TRUE(groups.insert(layout.group(member.rank)).second) << "two of one failure group";
    EXPECT_EQ(member.host, "host-of-" + std::to_string(member.rank));
    guests += member.guest ? 1 : 0;
    if (!member.guest) lowest = std::min(lowest, member.rank);
  }
  EXPECT_EQ(set.id, lowest);
  const int least = std::min(layout.smallest(), layout.group_count());
  EXPECT_GE(set.size(), least);
  EXPECT_LE(set.size(), std::max(layout.request.set_size, 2 * layout.smallest() - 1));
  if (guests > 0) {
    EXPECT_EQ(set.size(), least) << "guests only as far as needed";
  }
  EXPECT_EQ(set.failures, layout.request.scheme == Scheme::kReedSolomon
                              ? std::min(layout.request.failures, set.size() - 1)
                              : 1);
  EXPECT_TRUE(RedundancySet::from_hash(set.to_hash()).ok());
}

void expect_agreement(const Layout& layout, const AllSets& sets) {
  std::map<int, RedundancySet> by_id;
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    ASSERT_FALSE(sets[rank].empty());
    for (std::size_t i = 0; i < sets[rank].size(); ++i) {
      const RedundancySet& set = sets[rank][i];
      const int index = set.index_of(static_cast<int>(rank));
      ASSERT_GE(index, 0);
      EXPECT_EQ(set.members[static_cast<std::size_t>(index)].guest, i > 0);
      EXPECT_EQ(by_id.try_emplace(set.id, set).first->second, set);
      if (i > 1) {
        EXPECT_LT(sets[rank][i - 1].id, set.id);
      }
    }
  }
  std::map<int, std::pair<int, int>> sizes_by_level;
  for (const auto& [id, set] : by_id) {
    expect_a_possible_set(layout, set);
    for (const Member& member : set.members) {
      const auto& known = sets[static_cast<std::size_t>(member.rank)];
      EXPECT_EQ(std::ranges::count(known, id, &RedundancySet::id), 1);
    }
    auto& [low, high] = sizes_by_level.try_emplace(layout.level(id), 1000, 0).first->second;
    low = std::min(low, set.size());
    high = std::max(high, set.size());
  }
  for (const auto& [level, sizes] : sizes_by_level) EXPECT_LE(sizes.second - sizes.first, 1);
}

TEST(FormSets, KeepsAllRulesOnRandomLayouts) {
  log::set_sink([](log::Level, std::string_view) {});
  std::mt19937 random(1);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    Layout layout;
    const int ranks = pick(1, 40);
    const int groups = pick(1, 10);
    const bool blocks = pick(0, 1) == 0;
    for (int rank = 0; rank < ranks; ++rank) {
      // Skewed: low groups are larger, so that some ranks have no partner on their level.
      layout.groups.push_back(blocks ? rank * groups / ranks
                                     : std::min(pick(0, groups), pick(0, groups)));
    }
    layout.request.scheme = std::array{Scheme::kXor, Scheme::kPartner,
                                       Scheme::kReedSolomon}[static_cast<unsigned>(pick(0, 2))];
    layout.request.set_size = pick(1, 9);
    layout.request.failures = pick(1, 3);
    layout.request.hop_distance = pick(0, 5);
    SCOPED_TRACE("round " + std::to_string(round));
    const AllSets sets = form(layout.groups, layout.request);
    if (layout.group_count() == 1) {
      for (std::size_t rank = 0; rank < sets.size(); ++rank) {
        ASSERT_EQ(sets[rank].size(), 1U);
        EXPECT_EQ(sets[rank][0].scheme, Scheme::kSingle);
        EXPECT_THAT(ranks_of(sets[rank][0]), ElementsAre(static_cast<int>(rank)));
      }
    } else {
      expect_agreement(layout, sets);
    }
    if (HasFailure()) break;
  }
  log::set_sink(nullptr);
}

// --- examples

TEST(FormSets, TwoRanksOnEachOfFourNodes) {
  const AllSets sets = form({0, 0, 1, 1, 2, 2, 3, 3}, {});
  EXPECT_THAT(ranks_of(sets[0][0]), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(ranks_of(sets[7][0]), ElementsAre(1, 3, 5, 7));
}

TEST(FormSets, SetsOfALevelHaveNearEqualSize) {
  const AllSets sets = form({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {.set_size = 4});
  EXPECT_THAT(ranks_of(sets[0][0]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks_of(sets[4][0]), ElementsAre(4, 5, 6));
  EXPECT_THAT(ranks_of(sets[9][0]), ElementsAre(7, 8, 9));
}

TEST(FormSets, HopDistanceSetsNeighboursApart) {
  const AllSets sets = form({0, 1, 2, 3, 4, 5, 6, 7}, {.set_size = 4, .hop_distance = 2});
  EXPECT_THAT(ranks_of(sets[0][0]), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(ranks_of(sets[1][0]), ElementsAre(1, 3, 5, 7));
}

TEST(FormSets, ARankWithoutPartnerGetsAGuestFromAnotherGroup) {
  const AllSets sets = form({0, 0, 0, 1, 2}, {});
  EXPECT_THAT(ranks_of(sets[0][0]), ElementsAre(0, 3, 4));
  for (const std::size_t lonely : {std::size_t{1}, std::size_t{2}}) {
    ASSERT_EQ(sets[lonely].size(), 1U);
    const RedundancySet& set = sets[lonely][0];
    EXPECT_EQ(set.size(), 2);
    EXPECT_EQ(set.id, static_cast<int>(lonely));
    EXPECT_TRUE(set.members[1].guest);
  }
  // Each of the other groups takes one.
  EXPECT_EQ(sets[3].size(), 2U);
  EXPECT_EQ(sets[4].size(), 2U);
}

TEST(FormSets, GuestsAreSpreadEvenly) {
  // 12 ranks of group 0 are alone on their level; two groups of three ranks each share them.
  const AllSets sets = form({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2}, {});
  for (std::size_t rank = 15; rank < 21; ++rank) EXPECT_EQ(sets[rank].size(), 1U + 2U);
}

TEST(FormSets, ReedSolomonAsksForAsManyGuestsAsFailures) {
  const AllSets sets =
      form({0, 0, 1, 2, 3}, {.scheme = Scheme::kReedSolomon, .set_size = 8, .failures = 2});
  const RedundancySet& set = sets[1][0];
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.failures, 2);
  EXPECT_TRUE(set.members[1].guest && set.members[2].guest);
}

std::mutex warnings_lock;
std::vector<std::string> warnings;

TEST(FormSets, FewerGroupsThanFailuresNeedAreTold) {
  log::set_sink([](log::Level level, std::string_view line) {
    const std::lock_guard lock(warnings_lock);
    if (level == log::Level::kWarning) warnings.emplace_back(line);
  });
  const AllSets sets = form({0, 1, 1}, {.scheme = Scheme::kReedSolomon, .failures = 3});
  log::set_sink(nullptr);
  EXPECT_EQ(sets[0][0].failures, 1);
  EXPECT_THAT(warnings, ElementsAre(::testing::HasSubstr("bear 1 failures, not the 3 of")));
}

// What scr_run --check says of a run before there is one.
TEST(FormSets, HaveTheSizesThatAreForetold) {
  log::set_sink([](log::Level, std::string_view) {});
  for (int groups = 2; groups <= 20; ++groups) {
    std::vector<int> layout(static_cast<std::size_t>(groups));
    std::iota(layout.begin(), layout.end(), 0);
    for (int size = 1; size <= 9; ++size) {
      for (const Scheme scheme : {Scheme::kXor, Scheme::kReedSolomon}) {
        const SetRequest request{.scheme = scheme, .set_size = size, .failures = 3};
        const SetSizes told = set_sizes(request, groups);
        int smallest = groups;
        int largest = 0;
        int failures = groups;
        for (const auto& sets : form(layout, request)) {
          smallest = std::min(smallest, sets[0].size());
          largest = std::max(largest, sets[0].size());
          failures = std::min(failures, sets[0].failures);
        }
        SCOPED_TRACE(std::to_string(groups) + " groups, sets of " + std::to_string(size));
        EXPECT_EQ(told.smallest, smallest);
        EXPECT_EQ(told.largest, largest);
        EXPECT_EQ(told.failures, failures);
      }
    }
  }
  log::set_sink(nullptr);
}

TEST(FormSets, SingleNeedsNobody) {
  const AllSets sets = form({0, 1}, {.scheme = Scheme::kSingle});
  EXPECT_EQ(sets[1][0].scheme, Scheme::kSingle);
  EXPECT_EQ(sets[1][0].id, 1);
}

}  // namespace
}  // namespace scr::redundancy
