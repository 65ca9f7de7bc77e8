// Groups of ranks within the world of InProcessWorld, and the collective calls they make.
//
// The lock of the world guards everything here.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "core/mpi/in_process_world.hpp"
#include "core/mpi/mailbox.hpp"

namespace scr::in_process {

inline std::string text(std::size_t number) { return std::to_string(number); }
inline std::string text(int number) { return std::to_string(number); }

// What all ranks of a collective call must have in common.
struct Call {
  std::string_view name;
  int root = 0;
  std::size_t bytes = 0;
  bool operator==(const Call&) const = default;
};

inline std::string text(const Call& call) {
  return std::string(call.name) + " with root " + text(call.root) + " and " + text(call.bytes) +
         " bytes";
}

struct Group;

struct Contribution {
  std::vector<std::byte> bytes{};
  std::vector<RankMessage> messages{};
  int color = 0;
  int key = 0;
};

// One collective call. Ranks leave their contributions; the last one to come works out the result,
// after which nothing changes any more, except that each rank may move out its own entries.
struct Round {
  Call call;
  int first_rank = 0;
  std::size_t arrived = 0;
  bool done = false;
  std::vector<bool> present;
  std::vector<Contribution> contributions;
  std::vector<std::byte> result;
  std::vector<std::vector<RankMessage>> inboxes;
  std::vector<std::pair<std::shared_ptr<Group>, int>> subgroups;  // by rank: group, rank in it
};

struct Group {
  Group(std::shared_ptr<World> of, std::vector<int> ranks)
      : world(std::move(of)), world_ranks(std::move(ranks)), mailboxes(world_ranks.size()) {}

  std::shared_ptr<World> world;
  std::vector<int> world_ranks;
  std::vector<Mailbox> mailboxes;
  std::shared_ptr<Round> round;  // the one that still waits for ranks

  std::size_t size() const { return world_ranks.size(); }
  int world_rank(int rank) const { return world_ranks[static_cast<std::size_t>(rank)]; }
  Mailbox& mailbox(int rank) { return mailboxes[static_cast<std::size_t>(rank)]; }
};

inline std::string absent_ranks(const Round& round, const Group& group) {
  constexpr int kMaxListed = 5;
  std::string result;
  int listed = 0;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    if (round.present[rank]) continue;
    if (++listed > kMaxListed) return result + " ...";
    result += " " + text(group.world_ranks[rank]);
  }
  return result;
}

inline void finish_split(Round& round, const Group& parent) {
  std::map<int, std::vector<std::size_t>> ranks_by_color;
  for (std::size_t rank = 0; rank < parent.size(); ++rank) {
    const int color = round.contributions[rank].color;
    if (color != Communicator::kNoColor) ranks_by_color[color].push_back(rank);
  }
  round.subgroups.resize(parent.size());
  for (auto& [color, ranks] : ranks_by_color) {
    std::ranges::stable_sort(ranks, {}, [&](auto rank) { return round.contributions[rank].key; });
    std::vector<int> world_ranks;
    for (const std::size_t rank : ranks) world_ranks.push_back(parent.world_ranks[rank]);
    const auto group = std::make_shared<Group>(parent.world, std::move(world_ranks));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      round.subgroups[ranks[i]] = {group, static_cast<int>(i)};
    }
  }
}

// Sources come in order, for contributions are visited in order.
inline void finish_exchange(Round& round) {
  round.inboxes.resize(round.contributions.size());
  for (std::size_t source = 0; source < round.contributions.size(); ++source) {
    for (RankMessage& message : round.contributions[source].messages) {
      round.inboxes[static_cast<std::size_t>(message.rank)].push_back(
          {static_cast<int>(source), std::move(message.data)});
    }
  }
}

}  // namespace scr::in_process
