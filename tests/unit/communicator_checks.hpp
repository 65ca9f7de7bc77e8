// What every Communicator must do, as functions over the interface.
//
// tests/unit/communicator_test.cpp runs them on the single-process communicator and on in-process
// worlds, tests/cluster/communicator_mpi_test.cpp on MPI. A failed check throws, so that it needs
// no test framework. Every check is collective and works with any number of ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mpi/communicator.hpp"

namespace scr::checks {

inline void expect(bool holds, const Communicator& comm, const char* what, const char* file,
                   int line) {
  if (holds) return;
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": rank " +
                           std::to_string(comm.rank()) + " of " + std::to_string(comm.size()) +
                           ": not true: " + what);
}
// Needs a variable `comm` in scope.
#define CHECK_THAT(...) ::scr::checks::expect((__VA_ARGS__), comm, #__VA_ARGS__, __FILE__, __LINE__)

using Bytes = std::vector<std::byte>;

// Bytes that tell `seed` and their position, so that mixed-up messages are noticed.
inline Bytes pattern(std::uint64_t seed, std::size_t length) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  std::vector<std::uint64_t> words(length / sizeof(state) + 1);
  for (std::uint64_t& word : words) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    word = state ^ (state >> 32U);
  }
  const auto bytes = std::as_bytes(std::span(words)).first(length);
  return {bytes.begin(), bytes.end()};
}

inline std::uint64_t pair_seed(int source, int destination, int salt = 0) {
  return static_cast<std::uint64_t>(source) * 1000003U + static_cast<std::uint64_t>(destination) +
         static_cast<std::uint64_t>(salt) * 7919U * 1000003U;
}

inline int right_of(const Communicator& comm) { return (comm.rank() + 1) % comm.size(); }
inline int left_of(const Communicator& comm) {
  return (comm.rank() + comm.size() - 1) % comm.size();
}
inline std::uint64_t unsigned_rank(const Communicator& comm) {
  return static_cast<std::uint64_t>(comm.rank());
}

constexpr std::size_t kMegabyte = 1024 * 1024 + 17;

// --- point to point ------------------------------------------------------------------------------

inline void ranks_count_from_zero(Communicator& comm) {
  CHECK_THAT(comm.rank() >= 0 && comm.rank() < comm.size());
  const auto n = static_cast<std::int64_t>(comm.size());
  CHECK_THAT(comm.all_reduce(std::int64_t{comm.rank()}, ReduceOp::kSum) == n * (n - 1) / 2);
}

inline void messages_go_round_a_ring(Communicator& comm) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, kMegabyte}) {
    const Bytes sent = pattern(pair_seed(comm.rank(), right_of(comm)), length);
    Bytes received(length);
    Request receive = comm.start_receive(received, left_of(comm), 5);
    Request send = comm.start_send(sent, right_of(comm), 5);
    receive.wait();
    send.wait();
    CHECK_THAT(received == pattern(pair_seed(left_of(comm), comm.rank()), length));
  }
}

inline void blocking_messages_pass_along_a_chain(Communicator& comm) {
  Bytes token = pattern(1, 100'000);
  if (comm.rank() > 0) {
    token.assign(token.size(), std::byte{0});
    comm.receive(token, comm.rank() - 1, 0);
  }
  CHECK_THAT(token == pattern(1, token.size()));
  if (comm.rank() + 1 < comm.size()) comm.send(token, comm.rank() + 1, 0);
}

inline void a_rank_can_send_to_itself_in_either_order(Communicator& comm) {
  const Bytes sent = pattern(unsigned_rank(comm), 100'000);
  Bytes first(sent.size());
  Bytes second(sent.size());
  Request send = comm.start_send(sent, comm.rank(), 1);
  comm.receive(first, comm.rank(), 1);
  send.wait();
  Request receive = comm.start_receive(second, comm.rank(), 1);
  CHECK_THAT(!receive.test());
  comm.send(sent, comm.rank(), 1);
  receive.wait();
  CHECK_THAT(first == sent && second == sent);
}

inline void tags_choose_the_message(Communicator& comm) {
  std::vector<Request> sends;
  std::vector<Bytes> sent;
  for (int tag = 0; tag < 10; ++tag) sent.push_back(pattern(pair_seed(comm.rank(), tag), 64));
  sent.push_back(pattern(pair_seed(comm.rank(), 99), 64));
  for (int tag = 0; tag < 10; ++tag) {
    sends.push_back(comm.start_send(sent[static_cast<std::size_t>(tag)], right_of(comm), tag));
  }
  sends.push_back(comm.start_send(sent.back(), right_of(comm), Communicator::kMaxTag));
  Bytes received(64);
  comm.receive(received, left_of(comm), Communicator::kMaxTag);
  CHECK_THAT(received == pattern(pair_seed(left_of(comm), 99), 64));
  for (int tag = 9; tag >= 0; --tag) {
    comm.receive(received, left_of(comm), tag);
    CHECK_THAT(received == pattern(pair_seed(left_of(comm), tag), 64));
  }
}

inline void messages_of_one_tag_keep_their_order(Communicator& comm) {
  constexpr int kCount = 50;
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  for (int i = 0; i < kCount; ++i) {
    const std::size_t length = i % 7 == 0 ? 100'000 : static_cast<std::size_t>(i);
    sent.push_back(pattern(pair_seed(comm.rank(), i), length));
    received.emplace_back(length);
  }
  std::vector<Request> requests;
  for (std::size_t i = 0; i < kCount / 2; ++i) {
    requests.push_back(comm.start_receive(received[i], left_of(comm), 3));
  }
  for (const Bytes& bytes : sent) requests.push_back(comm.start_send(bytes, right_of(comm), 3));
  for (std::size_t i = kCount / 2; i < kCount; ++i) comm.receive(received[i], left_of(comm), 3);
  for (Request& request : requests) request.wait();
  for (int i = 0; i < kCount; ++i) {
    const Bytes& bytes = received[static_cast<std::size_t>(i)];
    CHECK_THAT(bytes == pattern(pair_seed(left_of(comm), i), bytes.size()));
  }
}

inline void requests_can_be_polled(Communicator& comm) {
  const Bytes sent = pattern(pair_seed(comm.rank(), 4), 70'000);
  Bytes received(sent.size());
  Request receive = comm.start_receive(received, left_of(comm), 4);
  Request send = comm.start_send(sent, right_of(comm), 4);
  while (!receive.test() || !send.test()) std::this_thread::yield();
  CHECK_THAT(receive.test() && send.test());
  CHECK_THAT(received == pattern(pair_seed(left_of(comm), 4), sent.size()));
}

inline void one_rank_receives_from_all_in_any_order(Communicator& comm) {
  const Bytes mine = pattern(unsigned_rank(comm), 1000 + static_cast<std::size_t>(comm.rank()));
  Request send = comm.start_send(mine, 0, 8);
  if (comm.rank() == 0) {
    for (int source = comm.size() - 1; source >= 0; --source) {
      Bytes received(1000 + static_cast<std::size_t>(source));
      comm.receive(received, source, 8);
      CHECK_THAT(received == pattern(static_cast<std::uint64_t>(source), received.size()));
    }
  }
  send.wait();
}

// --- collective ----------------------------------------------------------------------------------

inline void a_barrier_holds_the_fast_ranks(Communicator& comm) {
  // Rank 0 sends only after its pause; who passes the barrier must find the message there.
  for (int i = 0; i < 3; ++i) {
    const Bytes token = pattern(9, 8);
    std::vector<Request> sends;
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      for (int to = 0; to < comm.size(); ++to) sends.push_back(comm.start_send(token, to, 2));
    }
    comm.barrier();
    Bytes received(8);
    comm.receive(received, 0, 2);
    CHECK_THAT(received == token);
  }
}

inline void every_rank_can_broadcast(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{10'000}}) {
      const Bytes expected = pattern(static_cast<std::uint64_t>(root), length);
      Bytes buffer = comm.rank() == root ? expected : Bytes(length);
      comm.broadcast(buffer, root);
      CHECK_THAT(buffer == expected);
    }
    const std::string text = comm.rank() == root ? "node " + std::to_string(root) : "other";
    CHECK_THAT(comm.broadcast_string(text, root) == "node " + std::to_string(root));
    CHECK_THAT(comm.broadcast_string(comm.rank() == root ? "" : "x", root).empty());
  }
  Bytes large = comm.rank() == 0 ? pattern(7, kMegabyte) : Bytes(kMegabyte);
  comm.broadcast(large, 0);
  CHECK_THAT(large == pattern(7, kMegabyte));
}

template <typename T>
void reduce_vectors(Communicator& comm) {
  const auto n = static_cast<T>(comm.size());
  const auto r = static_cast<T>(comm.rank());
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    std::vector<T> sum(count, r + 1);
    std::vector<T> least(count, r + 1);
    std::vector<T> most(count, r + 1);
    comm.all_reduce(std::span<T>(sum), ReduceOp::kSum);
    comm.all_reduce(std::span<T>(least), ReduceOp::kMin);
    comm.all_reduce(std::span<T>(most), ReduceOp::kMax);
    CHECK_THAT(sum == std::vector<T>(count, n * (n + 1) / 2));
    CHECK_THAT(least == std::vector<T>(count, 1));
    CHECK_THAT(most == std::vector<T>(count, n));
  }
}

inline void reductions_reach_every_rank(Communicator& comm) {
  reduce_vectors<std::int64_t>(comm);
  reduce_vectors<std::uint64_t>(comm);
  reduce_vectors<double>(comm);
  CHECK_THAT(comm.all_reduce(std::int64_t{-comm.rank()}, ReduceOp::kMin) == 1 - comm.size());
  const std::uint64_t large = ~std::uint64_t{0} - unsigned_rank(comm);
  CHECK_THAT(comm.all_reduce(large, ReduceOp::kMax) == ~std::uint64_t{0});
}

inline void truths_combine(Communicator& comm) {
  const bool alone = comm.size() == 1;
  CHECK_THAT(comm.all_true(true) && !comm.all_true(false));
  CHECK_THAT(comm.any_true(true) && !comm.any_true(false));
  CHECK_THAT(comm.all_true(comm.rank() == 0) == alone);
  CHECK_THAT(comm.any_true(comm.rank() == comm.size() - 1));
}

inline void exclusive_scans_leave_out_the_own_value(Communicator& comm) {
  const std::uint64_t r = unsigned_rank(comm);
  CHECK_THAT(comm.exclusive_scan_sum(r + 1) == r * (r + 1) / 2);
  CHECK_THAT(comm.exclusive_scan(r + 1, ReduceOp::kMax) == r);
  const std::uint64_t least = comm.exclusive_scan(100 - r, ReduceOp::kMin);
  CHECK_THAT(least == (r == 0 ? ~std::uint64_t{0} : 101 - r));
}

inline void gather_blocks(Communicator& comm, std::size_t length) {
  const Bytes mine = pattern(unsigned_rank(comm), length);
  Bytes expected;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Bytes block = pattern(static_cast<std::uint64_t>(rank), length);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  CHECK_THAT(comm.all_gather(mine) == expected);
  for (const int root : {0, comm.size() / 2, comm.size() - 1}) {
    const Bytes gathered = comm.gather(mine, root);
    CHECK_THAT(gathered == (comm.rank() == root ? expected : Bytes()));
  }
}

inline void gathered_blocks_come_in_rank_order(Communicator& comm) {
  for (const std::size_t length : {0, 1, 333, 20'000}) gather_blocks(comm, length);
}

// --- sparse exchange -----------------------------------------------------------------------------

inline void an_exchange_may_be_empty(Communicator& comm) {
  for (int i = 0; i < 5; ++i) CHECK_THAT(comm.sparse_exchange({}).empty());
}

inline void an_exchange_reaches_self_and_neighbours(Communicator& comm) {
  std::set<int> partners = {comm.rank(), left_of(comm), right_of(comm)};
  std::vector<RankMessage> messages;
  for (const int to : partners) messages.push_back({to, pattern(pair_seed(comm.rank(), to), 500)});
  const auto received = comm.sparse_exchange(std::move(messages));
  CHECK_THAT(received.size() == partners.size());
  auto source = partners.begin();
  for (const RankMessage& message : received) {
    CHECK_THAT(message.rank == *source++);
    CHECK_THAT(message.data == pattern(pair_seed(message.rank, comm.rank()), 500));
  }
}

inline void all_may_send_to_one(Communicator& comm) {
  const int target = comm.size() - 1;
  const auto received = comm.sparse_exchange({{target, Bytes()}});
  CHECK_THAT(received.size() ==
             (comm.rank() == target ? static_cast<std::size_t>(comm.size()) : 0));
  for (std::size_t i = 0; i < received.size(); ++i) {
    CHECK_THAT(received[i].rank == static_cast<int>(i) && received[i].data.empty());
  }
}

inline void large_messages_are_exchanged_whole(Communicator& comm) {
  const auto received = comm.sparse_exchange(
      {{right_of(comm), pattern(pair_seed(comm.rank(), right_of(comm)), kMegabyte)}});
  CHECK_THAT(received.size() == 1 && received[0].rank == left_of(comm));
  CHECK_THAT(received[0].data == pattern(pair_seed(left_of(comm), comm.rank()), kMegabyte));
}

// One random exchange; `row[d]` is 0 if nothing goes to d, else the length + 1. All rows together,
// gathered at every rank, are the oracle.
inline void random_exchange(Communicator& comm, std::mt19937_64& random, int salt) {
  const auto n = static_cast<std::size_t>(comm.size());
  const bool dense = random() % 4 == 0;
  std::vector<std::uint64_t> row(n);
  std::vector<RankMessage> messages;
  for (std::size_t to = 0; to < n; ++to) {
    if (!dense && random() % n >= 3) continue;
    const std::size_t length = random() % 3 == 0 ? 0 : random() % 5000;
    row[to] = length + 1;
    const int destination = static_cast<int>(to);
    messages.push_back({destination, pattern(pair_seed(comm.rank(), destination, salt), length)});
  }
  std::shuffle(messages.begin(), messages.end(), random);
  const Bytes gathered = comm.all_gather(std::as_bytes(std::span(row)));
  // Some ranks enter late, so that exchanges of different rounds overlap in time.
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
  const auto received = comm.sparse_exchange(std::move(messages));
  const auto* matrix = reinterpret_cast<const std::uint64_t*>(gathered.data());
  std::size_t next = 0;
  for (std::size_t from = 0; from < n; ++from) {
    const std::uint64_t entry = matrix[from * n + static_cast<std::size_t>(comm.rank())];
    if (entry == 0) continue;
    CHECK_THAT(next < received.size() && received[next].rank == static_cast<int>(from));
    const auto seed = pair_seed(static_cast<int>(from), comm.rank(), salt);
    CHECK_THAT(received[next].data == pattern(seed, entry - 1));
    ++next;
  }
  CHECK_THAT(next == received.size());
}

inline void random_exchanges(Communicator& comm, std::uint64_t seed, int rounds) {
  std::mt19937_64 random(seed * 1'000'003U + unsigned_rank(comm));
  for (int round = 0; round < rounds; ++round) random_exchange(comm, random, round);
}

inline void random_exchanges_match_the_oracle(Communicator& comm) {
  random_exchanges(comm, 42, 20);
}

inline void consecutive_exchanges_do_not_mix(Communicator& comm) {
  // No collective call in between: only the exchange itself keeps the rounds apart.
  std::mt19937_64 random(7 + unsigned_rank(comm));
  for (int round = 0; round < 60; ++round) {
    const int shift = round % comm.size();
    const int to = (comm.rank() + shift) % comm.size();
    const int from = (comm.rank() + comm.size() - shift) % comm.size();
    if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
    const auto received =
        comm.sparse_exchange({{to, pattern(pair_seed(comm.rank(), to, round), 40)}});
    CHECK_THAT(received.size() == 1 && received[0].rank == from);
    CHECK_THAT(received[0].data == pattern(pair_seed(from, comm.rank(), round), 40));
  }
}

// --- split, duplicate ----------------------------------------------------------------------------

inline void a_split_orders_by_key(Communicator& comm) {
  const int color = comm.rank() % 2;
  const auto half = comm.split(color, -comm.rank());
  CHECK_THAT(half != nullptr);
  const int expected_size = (comm.size() + 1 - color) / 2;
  CHECK_THAT(half->size() == expected_size);
  CHECK_THAT(half->rank() == expected_size - 1 - comm.rank() / 2);
  const auto sum = half->all_reduce(std::int64_t{comm.rank()}, ReduceOp::kSum);
  std::int64_t expected = 0;
  for (int rank = color; rank < comm.size(); rank += 2) expected += rank;
  CHECK_THAT(sum == expected);
  const auto quarter = half->split(half->rank() % 2, 0);
  CHECK_THAT(quarter->size() == (half->size() + 1 - half->rank() % 2) / 2);
  an_exchange_reaches_self_and_neighbours(*quarter);
  an_exchange_reaches_self_and_neighbours(*half);
}

inline void ranks_may_stay_out_of_a_split(Communicator& comm) {
  const bool inside = comm.rank() != 0;
  const auto others = comm.split(inside ? 7 : Communicator::kNoColor, 0);
  CHECK_THAT((others != nullptr) == inside);
  if (inside) CHECK_THAT(others->size() == comm.size() - 1 && others->rank() == comm.rank() - 1);
  if (inside) others->barrier();
}

inline void a_duplicate_keeps_its_messages_apart(Communicator& comm) {
  const auto copy = comm.duplicate();
  CHECK_THAT(copy->rank() == comm.rank() && copy->size() == comm.size());
  const Bytes one = pattern(1, 16);
  const Bytes two = pattern(2, 16);
  Request send_one = comm.start_send(one, right_of(comm), 0);
  Request send_two = copy->start_send(two, right_of(comm), 0);
  Bytes received(16);
  copy->receive(received, left_of(comm), 0);
  CHECK_THAT(received == two);
  comm.receive(received, left_of(comm), 0);
  CHECK_THAT(received == one);
}

// --- hashes --------------------------------------------------------------------------------------

inline Hash rank_hash(int rank) {
  Hash hash;
  hash.set_value("RANK", rank);
  hash.set_kv("FILES", "rank_" + std::to_string(rank) + ".h5");
  return hash;
}

inline void hashes_are_sent_and_merged(Communicator& comm) {
  Hash received;
  received.set_value("KEPT", "yes");
  if (comm.rank() > 0) CHECK_THAT(receive_hash(comm, received, comm.rank() - 1).ok());
  if (comm.rank() + 1 < comm.size()) {
    CHECK_THAT(send_hash(comm, rank_hash(comm.rank()), comm.rank() + 1).ok());
  }
  Hash expected = comm.rank() > 0 ? rank_hash(comm.rank() - 1) : Hash();
  expected.set_value("KEPT", "yes");
  CHECK_THAT(received == expected);
}

inline void hashes_are_swapped_without_deadlock(Communicator& comm) {
  Hash large = rank_hash(comm.rank());
  for (int i = 0; i < 2000; ++i) {
    large.set_kv("BLOCK", std::string(40, 'b') + std::to_string(i));
  }
  Hash received;
  CHECK_THAT(send_receive_hash(comm, large, right_of(comm), received, left_of(comm)).ok());
  CHECK_THAT(received.value("RANK") == std::to_string(left_of(comm)));
  CHECK_THAT(received.get("BLOCK")->size() == 2000);
}

inline void hashes_are_broadcast(Communicator& comm) {
  const int root = comm.size() - 1;
  Hash hash;
  if (comm.rank() == root) hash = rank_hash(root);
  if (comm.rank() != root) hash.set_kv("FILES", "mine.h5");
  CHECK_THAT(broadcast_hash(comm, hash, root).ok());
  Hash expected = rank_hash(root);
  if (comm.rank() != root) expected.set_kv("FILES", "mine.h5");
  CHECK_THAT(hash == expected);
}

inline void hashes_are_exchanged(Communicator& comm) {
  Hash send;
  send.set(std::to_string(comm.rank()), rank_hash(comm.rank()));
  send.set(std::to_string(right_of(comm)), rank_hash(comm.rank()));
  Hash received;
  CHECK_THAT(exchange_hashes(comm, send, received).ok());
  Hash expected;
  expected.set(std::to_string(comm.rank()), rank_hash(comm.rank()));
  expected.set(std::to_string(left_of(comm)), rank_hash(left_of(comm)));
  CHECK_THAT(received == expected);
}

inline void bad_hashes_are_errors_and_do_not_hang(Communicator& comm) {
  for (const std::string& key :
       {std::string("no rank"), std::to_string(comm.size()), std::string("-1")}) {
    Hash send;
    send.set(key, rank_hash(0));
    Hash received;
    const Status status = exchange_hashes(comm, comm.rank() == 0 ? send : Hash(), received);
    CHECK_THAT(status.ok() == (comm.rank() != 0) && received.empty());
  }
  Hash unpackable;
  unpackable.set(std::string_view("a\0b", 3), Hash());
  Hash received;
  Hash& mine = comm.rank() == 0 ? unpackable : received;
  CHECK_THAT(!broadcast_hash(comm, mine, 0).ok());
  Hash swapped;
  const Hash& sent = comm.rank() == 0 ? unpackable : received;
  const bool ok = send_receive_hash(comm, sent, right_of(comm), swapped, left_of(comm)).ok();
  CHECK_THAT(ok == (comm.rank() != 0 && left_of(comm) != 0));
}

// --- groups --------------------------------------------------------------------------------------

// Checks the grouping of ranks named by `name_of` against one worked out from all names.
template <typename NameOf>
void check_groups(Communicator& comm, NameOf name_of) {
  std::map<std::string, int> id_of_name;
  std::map<std::string, std::vector<int>> ranks_of_name;
  for (int rank = 0; rank < comm.size(); ++rank) {
    id_of_name.try_emplace(name_of(rank), static_cast<int>(id_of_name.size()));
    ranks_of_name[name_of(rank)].push_back(rank);
  }
  const std::string name = name_of(comm.rank());
  const StringGroups groups = group_by_string(comm, name);
  CHECK_THAT(groups.group_count == static_cast<int>(id_of_name.size()));
  CHECK_THAT(groups.group_id == id_of_name[name]);
  const auto part = split_by_string(comm, name);
  const auto& members = ranks_of_name[name];
  CHECK_THAT(part->size() == static_cast<int>(members.size()));
  CHECK_THAT(members[static_cast<std::size_t>(part->rank())] == comm.rank());
}

inline void ranks_are_grouped_by_name(Communicator& comm) {
  const int n = comm.size();
  check_groups(comm, [](int) { return std::string("the only node"); });
  check_groups(comm, [](int) { return std::string(); });
  check_groups(comm, [](int rank) { return "node" + std::to_string(rank); });
  check_groups(comm, [](int rank) { return "node" + std::to_string(rank / 4); });
  check_groups(comm, [](int rank) { return "node" + std::to_string(rank % 3); });
  check_groups(comm, [n](int rank) { return "node" + std::to_string((n - rank) / 2); });
  check_groups(comm, [](int rank) { return std::string(static_cast<std::size_t>(rank % 5), 'x'); });
  check_groups(comm, [](int rank) { return std::string("a\0b", rank % 2 == 0 ? 3 : 2); });
  for (unsigned seed = 0; seed < 5; ++seed) {
    check_groups(comm, [seed](int rank) {
      std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
      return std::to_string(random() % 6);
    });
  }
}

inline void node_communicators_cross_over(Communicator& comm) {
  // Nodes of three ranks, the last one perhaps smaller.
  const int node = comm.rank() / 3;
  const int place = comm.rank() % 3;
  const auto nodes = make_node_communicators(comm, "host" + std::to_string(node));
  CHECK_THAT(nodes.node_count == (comm.size() + 2) / 3 && nodes.node_id == node);
  CHECK_THAT(nodes.node->rank() == place);
  CHECK_THAT(nodes.node->size() == std::min(3, comm.size() - node * 3));
  CHECK_THAT(nodes.across->rank() == node);
  CHECK_THAT(nodes.across->size() == (comm.size() - place + 2) / 3);
  const auto places = nodes.across->all_reduce(std::int64_t{place}, ReduceOp::kMax);
  CHECK_THAT(places == place);
}

// --- all of them ---------------------------------------------------------------------------------

struct Check {
  const char* name;
  void (*run)(Communicator&);
};

inline std::vector<Check> all_checks() {
#define CHECK_ENTRY(function) \
  Check { #function, function }
  return {
      CHECK_ENTRY(ranks_count_from_zero),
      CHECK_ENTRY(messages_go_round_a_ring),
      CHECK_ENTRY(blocking_messages_pass_along_a_chain),
      CHECK_ENTRY(a_rank_can_send_to_itself_in_either_order),
      CHECK_ENTRY(tags_choose_the_message),
      CHECK_ENTRY(messages_of_one_tag_keep_their_order),
      CHECK_ENTRY(requests_can_be_polled),
      CHECK_ENTRY(one_rank_receives_from_all_in_any_order),
      CHECK_ENTRY(a_barrier_holds_the_fast_ranks),
      CHECK_ENTRY(every_rank_can_broadcast),
      CHECK_ENTRY(reductions_reach_every_rank),
      CHECK_ENTRY(truths_combine),
      CHECK_ENTRY(exclusive_scans_leave_out_the_own_value),
      CHECK_ENTRY(gathered_blocks_come_in_rank_order),
      CHECK_ENTRY(an_exchange_may_be_empty),
      CHECK_ENTRY(an_exchange_reaches_self_and_neighbours),
      CHECK_ENTRY(all_may_send_to_one),
      CHECK_ENTRY(large_messages_are_exchanged_whole),
      CHECK_ENTRY(random_exchanges_match_the_oracle),
      CHECK_ENTRY(consecutive_exchanges_do_not_mix),
      CHECK_ENTRY(a_split_orders_by_key),
      CHECK_ENTRY(ranks_may_stay_out_of_a_split),
      CHECK_ENTRY(a_duplicate_keeps_its_messages_apart),
      CHECK_ENTRY(hashes_are_sent_and_merged),
      CHECK_ENTRY(hashes_are_swapped_without_deadlock),
      CHECK_ENTRY(hashes_are_broadcast),
      CHECK_ENTRY(hashes_are_exchanged),
      CHECK_ENTRY(bad_hashes_are_errors_and_do_not_hang),
      CHECK_ENTRY(ranks_are_grouped_by_name),
      CHECK_ENTRY(node_communicators_cross_over),
  };
#undef CHECK_ENTRY
}

}  // namespace scr::checks
