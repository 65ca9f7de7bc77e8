#include "redundancy/form_sets.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/base/log.hpp"
#include "redundancy/peers.hpp"

namespace scr::redundancy {
namespace {

RedundancySet single_set(const Communicator& world, const SetRequest& request) {
  RedundancySet set;
  set.id = world.rank();
  set.members = {{world.rank(), request.host, false}};
  return set;
}

// Members that a set needs to bear the failures asked for.
int smallest_size(const SetRequest& request) {
  if (request.scheme != Scheme::kReedSolomon) return 2;
  return std::clamp(request.failures, 1, kMostReedSolomonMembers - 1) + 1;
}

int largest_size(const SetRequest& request) {
  const int largest = std::max(request.set_size, smallest_size(request));
  return request.scheme == Scheme::kReedSolomon ? std::min(largest, kMostReedSolomonMembers)
                                                : largest;
}

// Place of the `rank`-th of `size` ranks in the order 0, hop, 2 hop, ..., 1, 1 + hop, ...: there
// neighbours are `hop` ranks apart.
int place_by_hops(int rank, int size, int hop) {
  hop = std::clamp(hop, 1, size);
  const int column = rank % hop;
  const int columns_with_one_more = size % hop;
  return column * (size / hop) + std::min(column, columns_with_one_more) + rank / hop;
}

// Cuts `size` places into `parts` of near-equal size; the first ones have one more. Part of a
// place?
int part_of(int place, int size, int parts) {
  const int small = size / parts;
  const int large_parts = size % parts;
  const int in_large_parts = large_parts * (small + 1);
  return place < in_large_parts ? place / (small + 1)
                                : large_parts + (place - in_large_parts) / small;
}

// As few sets as the largest size allows, but none smaller than it has to be.
int set_count(int level_size, const SetRequest& request) {
  const int largest = largest_size(request);
  const int wanted = (level_size + largest - 1) / largest;
  return std::clamp(wanted, 1, std::max(1, level_size / smallest_size(request)));
}

// A set of one level, as all its members know it before guests come.
struct LevelSet {
  std::vector<Member> members;
  std::vector<int> groups;  // failure groups of the members
};

LevelSet gather_set(Communicator& set_ranks, int world_rank, const std::string& host, int group) {
  std::vector<int> all(static_cast<std::size_t>(set_ranks.size()));
  std::iota(all.begin(), all.end(), 0);
  Hash own;
  own.set_value("RANK", world_rank);
  own.set_value("HOST", host);
  own.set_value("GROUP", group);
  LevelSet set;
  for (const Hash& other : Peers(set_ranks, all).exchange([&](std::size_t) { return own; })) {
    set.members.push_back({static_cast<int>(other.require_int("RANK").value()),
                           other.require_value("HOST").value(), false});
    set.groups.push_back(static_cast<int>(other.require_int("GROUP").value()));
  }
  return set;
}

RedundancySet complete(const LevelSet& level, const SetRequest& request) {
  RedundancySet set;
  set.scheme = request.scheme;
  set.members = level.members;
  set.id = std::numeric_limits<int>::max();
  for (const Member& member : set.members) {
    if (!member.guest) set.id = std::min(set.id, member.rank);
  }
  set.failures = std::min(smallest_size(request) - 1, set.size() - 1);
  return set;
}

// --- guests

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

std::vector<int> ints_of(std::span<const std::byte> bytes) {
  std::vector<int> values(bytes.size() / sizeof(int));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int));
  return values;
}

// The groups that a set asks for guests: others than its own, each set of a run of levels the next
// ones.
std::vector<int> groups_to_ask(const LevelSet& set, int level, int group_count, int guests) {
  std::vector<int> own = set.groups;
  std::ranges::sort(own);
  const auto others = group_count - static_cast<int>(own.size());
  std::vector<int> chosen;
  for (int i = 0; i < guests; ++i) {
    int group = static_cast<int>((std::int64_t{level} * guests + i) % others);
    for (const int taken : own) group += group >= taken ? 1 : 0;
    chosen.push_back(group);
  }
  return chosen;
}

// Finds guests for the sets that are too small. All ranks of the world take part in each step.
// Nobody knows all groups: rank g is the address of group g and passes requests on to the group's
// first rank, which hands them out to its ranks in turn; the guests answer for themselves.
class GuestSearch {
 public:
  GuestSearch(Communicator& world, Communicator& group, const StringGroups& groups)
      : world_(world), group_(group), groups_(groups) {}

  // `guests` is how many this rank asks for: not 0 only on the first member of a set that needs
  // some.
  std::vector<Member> run(const LevelSet& set, int guests, const std::string& host) {
    const std::vector<int> askers = share(forward(ask(set, guests)));
    std::vector<RankMessage> answers;
    const auto turns = static_cast<std::size_t>(group_.size());
    for (auto i = static_cast<std::size_t>(group_.rank()); i < askers.size(); i += turns) {
      answers.push_back({askers[i], bytes_of<char>(host)});
    }
    std::vector<Member> found;
    for (const RankMessage& answer : world_.sparse_exchange(std::move(answers))) {
      const auto* text = reinterpret_cast<const char*>(answer.data.data());
      found.push_back({answer.rank, std::string(text, answer.data.size()), true});
    }
    return found;
  }

 private:
  // At the address of a group: the ranks that ask it for a guest.
  std::vector<int> ask(const LevelSet& set, int guests) {
    std::vector<RankMessage> requests;
    if (guests > 0) {
      for (const int group : groups_to_ask(set, group_.rank(), groups_.group_count, guests)) {
        requests.push_back({group, {}});
      }
    }
    std::vector<int> askers;
    for (const auto& message : world_.sparse_exchange(std::move(requests))) {
      askers.push_back(message.rank);
    }
    return askers;
  }

  // From the address of each group to its first rank.
  std::vector<int> forward(const std::vector<int>& askers) {
    std::vector<RankMessage> presence;
    if (group_.rank() == 0) presence.push_back({groups_.group_id, {}});
    presence = world_.sparse_exchange(std::move(presence));
    std::vector<RankMessage> lists;
    if (!askers.empty()) lists.push_back({presence.front().rank, bytes_of<int>(askers)});
    lists = world_.sparse_exchange(std::move(lists));
    return lists.empty() ? std::vector<int>() : ints_of(lists.front().data);
  }

  // From the first rank of a group to all of it.
  std::vector<int> share(std::vector<int> askers) {
    std::uint64_t count = askers.size();
    group_.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0);
    askers.resize(count);
    group_.broadcast(std::as_writable_bytes(std::span(askers)), 0);
    return askers;
  }

  Communicator& world_;
  Communicator& group_;
  const StringGroups& groups_;
};

// The first member of a set with guests tells it to all the others. Returns the sets told to this
// rank.
std::vector<RedundancySet> announce(Communicator& world, const RedundancySet* own) {
  std::vector<RankMessage> messages;
  for (std::size_t i = 0; own != nullptr && i < own->members.size(); ++i) {
    messages.push_back({own->members[i].rank, own->to_hash().pack().value()});
  }
  std::vector<RedundancySet> sets;
  for (const RankMessage& message : world.sparse_exchange(std::move(messages))) {
    sets.push_back(RedundancySet::from_hash(Hash::unpack(message.data).value()).value());
  }
  return sets;
}

void warn_of_fewer_failures(Communicator& world, const SetRequest& request, int failures) {
  if (request.scheme != Scheme::kReedSolomon) return;
  const auto fewest = world.all_reduce(std::int64_t{failures}, ReduceOp::kMin);
  if (fewest >= request.failures || world.rank() != 0) return;
  log::warning(
      "some redundancy sets bear {} failures, not the {} of SCR_SET_FAILURES: for those more "
      "failure groups (nodes) are needed",
      fewest, request.failures);
}

}  // namespace

SetSizes set_sizes(const SetRequest& request, int groups) {
  if (request.scheme == Scheme::kSingle || groups < 2) return {};
  const int sets = set_count(groups, request);
  const int smallest = groups / sets;
  return {.smallest = smallest,
          .largest = smallest + (groups % sets > 0 ? 1 : 0),
          .failures = std::min(smallest_size(request), smallest) - 1};
}

std::vector<RedundancySet> form_sets(Communicator& world, const SetRequest& request) {
  if (request.scheme == Scheme::kSingle) return {single_set(world, request)};
  const StringGroups groups = group_by_string(world, request.failure_group);
  if (groups.group_count == 1) return {single_set(world, request)};

  // A level is the ranks with equal rank within their failure groups, so it has one of a group at
  // most.
  const auto group = world.split(groups.group_id, world.rank());
  const auto level = world.split(group->rank(), world.rank());
  const int place = place_by_hops(level->rank(), level->size(), request.hop_distance);
  const int part = part_of(place, level->size(), set_count(level->size(), request));
  const auto set_ranks = level->split(part, place);
  LevelSet own = gather_set(*set_ranks, world.rank(), request.host, groups.group_id);

  const int missing = std::min(smallest_size(request), groups.group_count) - set_ranks->size();
  std::vector<RedundancySet> sets;
  if (missing <= 0) sets.push_back(complete(own, request));
  if (world.any_true(missing > 0)) {
    const bool asks = missing > 0 && set_ranks->rank() == 0;
    for (Member& guest :
         GuestSearch(world, *group, groups).run(own, asks ? missing : 0, request.host)) {
      own.members.push_back(std::move(guest));
    }
    const RedundancySet with_guests = complete(own, request);
    for (RedundancySet& set : announce(world, asks ? &with_guests : nullptr)) {
      sets.push_back(std::move(set));
    }
  }
  // Its own set first, then by id.
  const auto order = [&](const RedundancySet& set) {
    const auto index = static_cast<std::size_t>(set.index_of(world.rank()));
    return std::pair(set.members[index].guest, set.id);
  };
  std::ranges::sort(sets, {}, order);
  warn_of_fewer_failures(world, request, sets.front().failures);
  return sets;
}

}  // namespace scr::redundancy
