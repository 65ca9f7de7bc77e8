#include "core/mpi/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

namespace scr {
namespace {

// Tags of this file; see also the reserved tags of mpi_communicator.cpp.
constexpr int kHashTag = Communicator::kMaxTag + 1;

// Sent in place of a length when the sender has nothing valid to send.
constexpr std::uint64_t kNothingToSend = std::numeric_limits<std::uint64_t>::max();

template <typename T>
std::vector<std::byte> bytes_of(const T* values, std::size_t count) {
  const auto* first = reinterpret_cast<const std::byte*>(values);
  return {first, first + count * sizeof(T)};
}

std::string_view text_of(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& data) {
  std::vector<T> values(data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

std::span<std::byte> writable_bytes(std::uint64_t& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

// --- helpers of the interface --------------------------------------------------------------------

std::int64_t Communicator::all_reduce(std::int64_t value, ReduceOp op) {
  all_reduce(std::span(&value, 1), op);
  return value;
}

std::uint64_t Communicator::all_reduce(std::uint64_t value, ReduceOp op) {
  all_reduce(std::span(&value, 1), op);
  return value;
}

std::uint64_t Communicator::exclusive_scan_sum(std::uint64_t value) {
  return exclusive_scan(value, ReduceOp::kSum);
}

bool Communicator::all_true(bool value) {
  return all_reduce(std::uint64_t{value}, ReduceOp::kMin) != 0;
}

bool Communicator::any_true(bool value) {
  return all_reduce(std::uint64_t{value}, ReduceOp::kMax) != 0;
}

std::string Communicator::broadcast_string(std::string text, int root) {
  std::uint64_t length = text.size();
  broadcast(writable_bytes(length), root);
  text.resize(length);
  broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

// --- hashes between ranks ------------------------------------------------------------------------

namespace {

// A packed hash on its way: the length goes first, so that the receiver can make room.
struct Parcel {
  std::uint64_t length = kNothingToSend;
  std::vector<std::byte> data;

  Status pack(const Hash& hash) {
    auto packed = hash.pack();
    if (!packed.ok()) return packed.status().with_context("cannot pack a hash to send it");
    data = std::move(packed).value();
    length = data.size();
    return {};
  }

  // Makes room after the length has come; fails if the sender had nothing to send.
  Status make_room(int from) {
    if (length == kNothingToSend) {
      return corrupt("rank " + std::to_string(from) + " could not pack the hash it was to send");
    }
    data.resize(length);
    return {};
  }

  // Nothing of a hash that does not unpack gets into `hash`.
  Status merge_into(Hash& hash, int from) const {
    auto received = Hash::unpack(data);
    if (!received.ok()) {
      return received.status().with_context("hash received from rank " + std::to_string(from));
    }
    hash.merge(*received);
    return {};
  }
};

}  // namespace

Status send_hash(Communicator& comm, const Hash& hash, int to) {
  Parcel parcel;
  Status packed = parcel.pack(hash);
  comm.send(writable_bytes(parcel.length), to, kHashTag);
  if (packed.ok()) comm.send(parcel.data, to, kHashTag);
  return packed;
}

Status receive_hash(Communicator& comm, Hash& hash, int from) {
  Parcel parcel;
  comm.receive(writable_bytes(parcel.length), from, kHashTag);
  SCR_RETURN_IF_ERROR(parcel.make_room(from));
  comm.receive(parcel.data, from, kHashTag);
  return parcel.merge_into(hash, from);
}

Status send_receive_hash(Communicator& comm, const Hash& send, int to, Hash& receive, int from) {
  Parcel outgoing;
  Status packed = outgoing.pack(send);
  Request length_sent = comm.start_send(writable_bytes(outgoing.length), to, kHashTag);
  Request data_sent;
  if (packed.ok()) data_sent = comm.start_send(outgoing.data, to, kHashTag);
  Status received = receive_hash(comm, receive, from);
  length_sent.wait();
  data_sent.wait();
  return packed.ok() ? received : packed;
}

Status broadcast_hash(Communicator& comm, Hash& hash, int root) {
  Parcel parcel;
  Status packed;
  if (comm.rank() == root) packed = parcel.pack(hash);
  comm.broadcast(writable_bytes(parcel.length), root);
  SCR_RETURN_IF_ERROR(packed);
  SCR_RETURN_IF_ERROR(parcel.make_room(root));
  comm.broadcast(parcel.data, root);
  return comm.rank() == root ? Status() : parcel.merge_into(hash, root);
}

namespace {

Result<std::vector<RankMessage>> messages_from(const Hash& send, int size) {
  std::vector<RankMessage> messages;
  for (const std::int64_t rank : send.int_keys()) {
    if (rank < 0 || rank >= size) break;
    const Hash* hash = send.get(std::to_string(rank));
    if (hash == nullptr) break;  // a number not written the usual way, such as "007"
    if (!messages.empty() && messages.back().rank == rank) break;  // "7" and "007"
    Parcel parcel;
    SCR_RETURN_IF_ERROR(parcel.pack(*hash));
    messages.push_back({static_cast<int>(rank), std::move(parcel.data)});
  }
  if (messages.size() != send.size()) {
    return invalid_argument(
        "cannot exchange hashes: a key of the hash to send is no rank of 0 to " +
        std::to_string(size - 1));
  }
  return messages;
}

}  // namespace

Status exchange_hashes(Communicator& comm, const Hash& send, Hash& receive) {
  auto messages = messages_from(send, comm.size());
  Status status = messages.status();
  auto received =
      comm.sparse_exchange(messages.ok() ? std::move(*messages) : std::vector<RankMessage>());
  for (RankMessage& message : received) {
    const Parcel parcel{message.data.size(), std::move(message.data)};
    Status merged = parcel.merge_into(receive.at(std::to_string(message.rank)), message.rank);
    if (status.ok()) status = merged;
  }
  return status;
}

// --- groups --------------------------------------------------------------------------------------

namespace {

// FNV-1a with a final mix, for its lowest bits alone choose the home. Names with equal checksums
// only share a home: there they are compared in full.
std::uint64_t checksum_of(std::string_view name) {
  std::uint64_t sum = 14695981039346656037U;
  for (const char letter : name) {
    sum = (sum ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  }
  sum ^= sum >> 33U;
  sum *= 0xff51afd7ed558ccdU;
  return sum ^ (sum >> 33U);
}

// True if the rank before this one has another name, or there is none.
bool begins_run(Communicator& comm, std::string_view name) {
  std::vector<RankMessage> to_right;
  if (comm.rank() + 1 < comm.size()) {
    to_right.push_back({comm.rank() + 1, bytes_of(name.data(), name.size())});
  }
  const auto from_left = comm.sparse_exchange(std::move(to_right));
  return from_left.empty() || text_of(from_left.front().data) != name;
}

// At a home: for each distinct name the ranks that sent it, addressed to the lowest of them.
std::vector<RankMessage> senders_by_name(const std::vector<RankMessage>& names) {
  std::unordered_map<std::string_view, std::vector<int>> senders;
  for (const RankMessage& message : names) senders[text_of(message.data)].push_back(message.rank);
  std::vector<RankMessage> lists;
  lists.reserve(senders.size());
  for (const auto& [name, ranks] : senders) {
    lists.push_back({ranks.front(), bytes_of(ranks.data(), ranks.size())});
  }
  return lists;
}

}  // namespace

StringGroups group_by_string(Communicator& comm, std::string_view name) {
  // The first rank of each run of equal names tells its name to the home of that name ...
  const bool first = begins_run(comm, name);
  const auto home = static_cast<int>(checksum_of(name) % static_cast<std::uint64_t>(comm.size()));
  std::vector<RankMessage> names;
  if (first) names.push_back({home, bytes_of(name.data(), name.size())});
  names = comm.sparse_exchange(std::move(names));

  // ... which tells the lowest rank of each name who the others are. Those lowest ranks count
  // themselves to find their numbers, and pass them on.
  const auto lists = comm.sparse_exchange(senders_by_name(names));
  const std::uint64_t leads = lists.empty() ? 0 : 1;
  std::uint64_t id = comm.exclusive_scan_sum(leads);
  const std::uint64_t count = comm.all_reduce(leads, ReduceOp::kSum);
  std::vector<RankMessage> numbers;
  for (const RankMessage& list : lists) {
    for (const int rank : values_of<int>(list.data)) numbers.push_back({rank, bytes_of(&id, 1)});
  }
  numbers = comm.sparse_exchange(std::move(numbers));

  // Within a run the number comes from its first rank, the nearest to the left that has one: the
  // maximum of (rank, number) over the ranks before.
  std::uint64_t ranked = 0;
  if (first) {
    id = values_of<std::uint64_t>(numbers.front().data).front();
    ranked = (static_cast<std::uint64_t>(comm.rank()) << 32U) | id;
  }
  const std::uint64_t before = comm.exclusive_scan(ranked, ReduceOp::kMax);
  if (!first) id = before & 0xffffffffU;
  return {static_cast<int>(count), static_cast<int>(id)};
}

std::unique_ptr<Communicator> split_by_string(Communicator& comm, std::string_view name) {
  return comm.split(group_by_string(comm, name).group_id, comm.rank());
}

NodeCommunicators make_node_communicators(Communicator& world, std::string_view host_name) {
  const StringGroups nodes = group_by_string(world, host_name);
  NodeCommunicators result;
  result.node_count = nodes.group_count;
  result.node_id = nodes.group_id;
  result.node = world.split(nodes.group_id, world.rank());
  result.across = world.split(result.node->rank(), world.rank());
  return result;
}

Status agree_all(Communicator& comm, const Status& mine, std::string_view what) {
  const std::int64_t none = comm.size();
  const std::int64_t first =
      comm.all_reduce(std::int64_t{mine.ok() ? none : comm.rank()}, ReduceOp::kMin);
  if (first == none) return {};
  const std::string text =
      comm.broadcast_string(std::string(mine.message()), static_cast<int>(first));
  auto code = static_cast<std::int64_t>(comm.rank() == first ? mine.code() : StatusCode::kOk);
  code = comm.all_reduce(code, ReduceOp::kMax);
  if (!mine.ok()) return mine;
  return {static_cast<StatusCode>(code),
          fmt::format("{} failed on rank {}: {}", what, first, text)};
}

}  // namespace scr
