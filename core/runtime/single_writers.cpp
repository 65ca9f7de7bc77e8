#include "core/runtime/single_writers.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/hash.hpp"

namespace scr {

namespace {

// Equal names have equal numbers; different ones hardly ever do, so then names are compared.
std::uint64_t number_of(const std::string& name) { return std::hash<std::string>{}(name); }

// Where the program wanted the file.
const std::string& name_of(const FileMeta& meta) {
  return meta.original.empty() ? meta.file : meta.original;
}

int home_of(std::uint64_t number, const Communicator& world) {
  return static_cast<int>(number % static_cast<std::uint64_t>(world.size()));
}

std::vector<RankMessage> messages_of(const std::map<int, std::vector<std::uint64_t>>& by_rank) {
  std::vector<RankMessage> messages;
  for (const auto& [rank, numbers] : by_rank) {
    const auto bytes = std::as_bytes(std::span(numbers));
    messages.push_back({rank, {bytes.begin(), bytes.end()}});
  }
  return messages;
}

template <typename Action>
void for_each_number(const std::vector<RankMessage>& messages, Action action) {
  for (const RankMessage& message : messages) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= message.data.size();
         at += sizeof(std::uint64_t)) {
      std::uint64_t number = 0;
      std::memcpy(&number, message.data.data() + at, sizeof number);
      action(message.rank, number);
    }
  }
}

// Collective: those of this rank's numbers that another rank has, too. Equal ones meet at a rank
// that they pick. Nothing, on all ranks, if no rank has such a number: nearly always, and then one
// exchange is enough.
std::optional<std::set<std::uint64_t>> shared_numbers(Communicator& world,
                                                      std::span<const FileMeta> mine) {
  std::map<int, std::vector<std::uint64_t>> told;
  for (const FileMeta& meta : mine) {
    const std::uint64_t number = number_of(name_of(meta));
    told[home_of(number, world)].push_back(number);
  }
  std::map<std::uint64_t, std::vector<int>> ranks;
  for_each_number(world.sparse_exchange(messages_of(told)),
                  [&](int rank, std::uint64_t number) { ranks[number].push_back(rank); });
  std::map<int, std::vector<std::uint64_t>> answers;
  for (const auto& [number, all] : ranks) {
    if (all.size() < 2) continue;
    for (const int rank : all) answers[rank].push_back(number);
  }
  if (!world.any_true(!answers.empty())) return std::nullopt;
  std::set<std::uint64_t> shared;
  for_each_number(world.sparse_exchange(messages_of(answers)),
                  [&](int, std::uint64_t number) { shared.insert(number); });
  return shared;
}

// What came from all ranks to the one that their numbers picked.
Status find_shared_name(const Hash& received) {
  std::map<std::string, std::string> writers;
  for (const Hash::Element& rank : received.elements()) {
    for (const Hash::Element& name : rank.hash.elements()) {
      const auto [first, fresh] = writers.try_emplace(name.key, rank.key);
      if (fresh) continue;
      return invalid_argument(fmt::format(
          "ranks {} and {} have both written '{}': every rank writes files with names of "
          "its own",
          first->second, rank.key, name.key));
    }
  }
  return {};
}

}  // namespace

Status check_single_writers(Communicator& world, std::span<const FileMeta> mine) {
  if (world.size() == 1) return {};
  const std::optional<std::set<std::uint64_t>> shared = shared_numbers(world, mine);
  if (!shared) return {};
  Hash send;
  for (const FileMeta& meta : mine) {
    const std::uint64_t number = number_of(name_of(meta));
    if (shared->contains(number)) send.at(std::to_string(home_of(number, world))).at(name_of(meta));
  }
  Hash received;
  Status status = exchange_hashes(world, send, received);
  if (status.ok()) status = find_shared_name(received);
  return agree_all(world, status, "completing the dataset");
}

}  // namespace scr
