#include "core/mpi/in_process_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "core/mpi/in_process_group.hpp"

namespace scr {
namespace in_process {
namespace {

// --- started sends and receives ------------------------------------------------------------------

class SendState final : public Request::State {
 public:
  SendState(std::shared_ptr<Group> group, std::shared_ptr<Message> message, int from, int to,
            int tag)
      : group_(std::move(group)), message_(std::move(message)), from_(from), to_(to), tag_(tag) {}

  void wait() override {
    Lock lock = group_->world->lock();
    group_->world->wait(
        lock, group_->world_rank(from_), [this] { return message_->taken; },
        [this] {
          return "rank " + text(group_->world_rank(to_)) + " to receive its message of " +
                 text(message_->data.size()) + " bytes with tag " + text(tag_);
        });
  }

  bool test() override {
    const Lock lock = group_->world->lock();
    if (!message_->taken) group_->world->throw_if_failed();
    return message_->taken;
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Message> message_;
  int from_;
  int to_;
  int tag_;
};

// The receiver's own thread fills the buffer, when it waits or tests.
class ReceiveState final : public Request::State {
 public:
  ReceiveState(std::shared_ptr<Group> group, std::span<std::byte> buffer, int from, int to, int tag)
      : group_(std::move(group)), buffer_(buffer), from_(from), to_(to), tag_(tag) {
    const Lock lock = group_->world->lock();
    if (group_->mailbox(to_).post(from_, tag_, posted_)) {
      group_->world->wake(group_->world_rank(from_));
    }
  }
  ~ReceiveState() override {
    const Lock lock = group_->world->lock();
    if (!posted_.message) group_->mailbox(to_).withdraw(from_, tag_, posted_);
  }
  ReceiveState(const ReceiveState&) = delete;
  ReceiveState& operator=(const ReceiveState&) = delete;

  void wait() override {
    Lock lock = group_->world->lock();
    group_->world->wait(
        lock, group_->world_rank(to_), [this] { return posted_.message != nullptr; },
        [this] {
          return "a message from rank " + text(group_->world_rank(from_)) + " with tag " +
                 text(tag_);
        });
    fill_buffer(lock);
  }

  bool test() override {
    Lock lock = group_->world->lock();
    if (!posted_.message) {
      group_->world->throw_if_failed();
      return false;
    }
    fill_buffer(lock);
    return true;
  }

 private:
  void fill_buffer(Lock& lock) {
    const auto& data = posted_.message->data;
    if (data.size() != buffer_.size()) {
      const std::string mistake = "rank " + text(group_->world_rank(to_)) + " expects " +
                                  text(buffer_.size()) + " bytes from rank " +
                                  text(group_->world_rank(from_)) + " with tag " + text(tag_) +
                                  ", but the message has " + text(data.size());
      group_->world->fail(mistake);
      throw std::runtime_error(mistake);
    }
    lock.unlock();
    std::ranges::copy(data, buffer_.begin());
  }

  std::shared_ptr<Group> group_;
  std::span<std::byte> buffer_;
  int from_;
  int to_;
  int tag_;
  PostedReceive posted_;
};

template <typename T>
void reduce_into(T& total, const T& value, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      total = static_cast<T>(total + value);
      break;
    case ReduceOp::kMin:
      total = std::min(total, value);
      break;
    case ReduceOp::kMax:
      total = std::max(total, value);
      break;
  }
}

template <typename T>
T load(const std::vector<std::byte>& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// --- the communicator ----------------------------------------------------------------------------

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  using Communicator::all_reduce;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->size()); }

  void send(std::span<const std::byte> data, int to, int tag) override {
    start_send(data, to, tag).wait();
  }
  void receive(std::span<std::byte> buffer, int from, int tag) override {
    start_receive(buffer, from, tag).wait();
  }
  Request start_send(std::span<const std::byte> data, int to, int tag) override;
  Request start_receive(std::span<std::byte> buffer, int from, int tag) override {
    require_rank(from);
    return Request(std::make_unique<ReceiveState>(group_, buffer, from, rank_, tag));
  }

  void barrier() override { meet({"barrier"}, {}); }
  void broadcast(std::span<std::byte> buffer, int root) override;
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) override { reduce(values, op); }
  void all_reduce(std::span<std::uint64_t> values, ReduceOp op) override { reduce(values, op); }
  void all_reduce(std::span<double> values, ReduceOp op) override { reduce(values, op); }
  std::uint64_t exclusive_scan(std::uint64_t value, ReduceOp op) override;
  std::vector<std::byte> gather(std::span<const std::byte> block, int root) override;
  std::vector<std::byte> all_gather(std::span<const std::byte> block) override;
  std::vector<RankMessage> sparse_exchange(std::vector<RankMessage> messages) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> duplicate() override { return split(0, 0); }

 private:
  using Finish = std::function<void(Round&)>;

  // Leaves the contribution and returns when all ranks have; the last one calls `finish` first.
  std::shared_ptr<Round> meet(const Call& call, Contribution contribution,
                              const Finish& finish = {});
  std::shared_ptr<Round> join_round(const Call& call);
  template <typename T>
  void reduce(std::span<T> values, ReduceOp op);
  void require_rank(int rank) const {
    if (rank < 0 || rank >= size()) {
      throw std::out_of_range("rank " + text(rank) + " is none of a communicator of " +
                              text(size()));
    }
  }
  const std::vector<std::byte>& bytes_of(const Round& round, int rank) const {
    return round.contributions[static_cast<std::size_t>(rank)].bytes;
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

Request InProcessCommunicator::start_send(std::span<const std::byte> data, int to, int tag) {
  require_rank(to);
  auto message = std::make_shared<Message>();
  message->data.assign(data.begin(), data.end());
  {
    const Lock lock = group_->world->lock();
    if (group_->mailbox(to).deliver(rank_, tag, message)) {
      group_->world->wake(group_->world_rank(to));
    }
  }
  if (data.size() <= InProcessWorld::kEagerLimit) return {};
  return Request(std::make_unique<SendState>(group_, std::move(message), rank_, to, tag));
}

std::shared_ptr<Round> InProcessCommunicator::join_round(const Call& call) {
  if (!group_->round) {
    group_->round = std::make_shared<Round>();
    group_->round->call = call;
    group_->round->first_rank = group_->world_rank(rank_);
    group_->round->present.resize(group_->size());
    group_->round->contributions.resize(group_->size());
  }
  auto round = group_->round;
  if (round->call != call) {
    const std::string mistake = "rank " + text(group_->world_rank(rank_)) + " calls " + text(call) +
                                " where rank " + text(round->first_rank) + " calls " +
                                text(round->call);
    group_->world->fail(mistake);
    throw std::runtime_error(mistake);
  }
  return round;
}

std::shared_ptr<Round> InProcessCommunicator::meet(const Call& call, Contribution contribution,
                                                   const Finish& finish) {
  Lock lock = group_->world->lock();
  auto round = join_round(call);
  round->present[static_cast<std::size_t>(rank_)] = true;
  round->contributions[static_cast<std::size_t>(rank_)] = std::move(contribution);
  if (++round->arrived == group_->size()) {
    group_->round.reset();
    if (finish) finish(*round);
    round->done = true;
    for (const int member : group_->world_ranks) group_->world->wake(member);
  }
  group_->world->wait(
      lock, group_->world_rank(rank_), [&] { return round->done; },
      [&] { return std::string(call.name) + " of rank(s)" + absent_ranks(*round, *group_); });
  return round;
}

void InProcessCommunicator::broadcast(std::span<std::byte> buffer, int root) {
  require_rank(root);
  Contribution mine;
  if (rank_ == root) mine.bytes.assign(buffer.begin(), buffer.end());
  const auto round = meet({"broadcast", root, buffer.size()}, std::move(mine));
  if (rank_ != root) std::ranges::copy(bytes_of(*round, root), buffer.begin());
}

template <typename T>
void InProcessCommunicator::reduce(std::span<T> values, ReduceOp op) {
  const auto bytes = std::as_bytes(values);
  const auto finish = [op, count = values.size()](Round& round) {
    round.result = round.contributions.front().bytes;
    for (std::size_t rank = 1; rank < round.contributions.size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        T total = load<T>(round.result, i);
        reduce_into(total, load<T>(round.contributions[rank].bytes, i), op);
        std::memcpy(round.result.data() + i * sizeof(T), &total, sizeof(T));
      }
    }
  };
  const auto round = meet({"all_reduce", static_cast<int>(op), bytes.size()},
                          {.bytes = {bytes.begin(), bytes.end()}}, finish);
  std::ranges::copy(round->result, std::as_writable_bytes(values).begin());
}

std::uint64_t InProcessCommunicator::exclusive_scan(std::uint64_t value, ReduceOp op) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  const auto round =
      meet({"exclusive_scan", static_cast<int>(op)}, {.bytes = {bytes.begin(), bytes.end()}});
  std::uint64_t total = op == ReduceOp::kMin ? std::numeric_limits<std::uint64_t>::max() : 0;
  for (int rank = 0; rank < rank_; ++rank) {
    reduce_into(total, load<std::uint64_t>(bytes_of(*round, rank), 0), op);
  }
  return total;
}

std::vector<std::byte> InProcessCommunicator::gather(std::span<const std::byte> block, int root) {
  require_rank(root);
  const auto round = meet({"gather", root, block.size()}, {.bytes = {block.begin(), block.end()}});
  std::vector<std::byte> result;
  if (rank_ != root) return result;
  for (int rank = 0; rank < size(); ++rank) {
    result.insert(result.end(), bytes_of(*round, rank).begin(), bytes_of(*round, rank).end());
  }
  return result;
}

std::vector<std::byte> InProcessCommunicator::all_gather(std::span<const std::byte> block) {
  const auto round = meet({"all_gather", 0, block.size()}, {.bytes = {block.begin(), block.end()}});
  std::vector<std::byte> result;
  result.reserve(block.size() * group_->size());
  for (int rank = 0; rank < size(); ++rank) {
    result.insert(result.end(), bytes_of(*round, rank).begin(), bytes_of(*round, rank).end());
  }
  return result;
}

std::vector<RankMessage> InProcessCommunicator::sparse_exchange(std::vector<RankMessage> messages) {
  std::vector<int> destinations;
  for (const RankMessage& message : messages) {
    require_rank(message.rank);
    destinations.push_back(message.rank);
  }
  std::ranges::sort(destinations);
  if (std::ranges::adjacent_find(destinations) != destinations.end()) {
    throw std::logic_error("sparse_exchange: two messages for one rank");
  }
  const auto round = meet({"sparse_exchange"}, {.messages = std::move(messages)}, finish_exchange);
  return std::move(round->inboxes[static_cast<std::size_t>(rank_)]);
}

std::unique_ptr<Communicator> InProcessCommunicator::split(int color, int key) {
  const auto round = meet({"split"}, {.color = color, .key = key},
                          [this](Round& all) { finish_split(all, *group_); });
  const auto& [group, rank] = round->subgroups[static_cast<std::size_t>(rank_)];
  if (!group) return nullptr;
  return std::make_unique<InProcessCommunicator>(group, rank);
}

}  // namespace
}  // namespace in_process

void InProcessWorld::run(int ranks, const std::function<void(Communicator&)>& body,
                         std::chrono::milliseconds timeout) {
  const auto world = std::make_shared<in_process::World>(ranks, timeout);
  const auto all_ranks = static_cast<std::size_t>(ranks);
  std::vector<int> all(all_ranks);
  std::iota(all.begin(), all.end(), 0);
  const auto group = std::make_shared<in_process::Group>(world, std::move(all));
  {
    std::vector<std::jthread> threads;
    threads.reserve(all_ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::exception_ptr error;
        try {
          in_process::InProcessCommunicator comm(group, rank);
          body(comm);
        } catch (...) {
          error = std::current_exception();
        }
        world->finish(rank, error);
      });
    }
  }
  world->rethrow();
}

}  // namespace scr
