#include "core/mpi/single_communicator.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/mpi/mailbox.hpp"

namespace scr {
namespace {

using in_process::Mailbox;
using in_process::Message;
using in_process::PostedReceive;

void require_rank_zero(int rank) {
  if (rank != 0) {
    throw std::logic_error("rank " + std::to_string(rank) +
                           " does not exist: this program is one process, rank 0");
  }
}

class SelfReceive final : public Request::State {
 public:
  SelfReceive(std::shared_ptr<Mailbox> mailbox, std::span<std::byte> buffer, int tag)
      : mailbox_(std::move(mailbox)), buffer_(buffer), tag_(tag) {
    mailbox_->post(0, tag_, posted_);
  }
  ~SelfReceive() override {
    if (!posted_.message) mailbox_->withdraw(0, tag_, posted_);
  }
  SelfReceive(const SelfReceive&) = delete;
  SelfReceive& operator=(const SelfReceive&) = delete;

  void wait() override {
    if (!test()) {
      throw std::logic_error("the only process waits for a message to itself with tag " +
                             std::to_string(tag_) + ", which it has not sent");
    }
  }

  bool test() override {
    if (!posted_.message) return false;
    const auto& data = posted_.message->data;
    if (data.size() != buffer_.size()) {
      throw std::logic_error("a message with tag " + std::to_string(tag_) + " has " +
                             std::to_string(data.size()) + " bytes, its receiver expects " +
                             std::to_string(buffer_.size()));
    }
    std::ranges::copy(data, buffer_.begin());
    return true;
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::span<std::byte> buffer_;
  int tag_;
  PostedReceive posted_;
};

}  // namespace

SingleCommunicator::SingleCommunicator() : mailbox_(std::make_shared<Mailbox>()) {}
SingleCommunicator::~SingleCommunicator() = default;

void SingleCommunicator::send(std::span<const std::byte> data, int to, int tag) {
  require_rank_zero(to);
  auto message = std::make_shared<Message>();
  message->data.assign(data.begin(), data.end());
  mailbox_->deliver(0, tag, message);
}

void SingleCommunicator::receive(std::span<std::byte> buffer, int from, int tag) {
  start_receive(buffer, from, tag).wait();
}

Request SingleCommunicator::start_send(std::span<const std::byte> data, int to, int tag) {
  send(data, to, tag);
  return {};
}

Request SingleCommunicator::start_receive(std::span<std::byte> buffer, int from, int tag) {
  require_rank_zero(from);
  return Request(std::make_unique<SelfReceive>(mailbox_, buffer, tag));
}

void SingleCommunicator::broadcast(std::span<std::byte> /*buffer*/, int root) {
  require_rank_zero(root);
}

void SingleCommunicator::all_reduce(std::span<std::int64_t> /*values*/, ReduceOp /*op*/) {}
void SingleCommunicator::all_reduce(std::span<std::uint64_t> /*values*/, ReduceOp /*op*/) {}
void SingleCommunicator::all_reduce(std::span<double> /*values*/, ReduceOp /*op*/) {}

std::uint64_t SingleCommunicator::exclusive_scan(std::uint64_t /*value*/, ReduceOp op) {
  return op == ReduceOp::kMin ? std::numeric_limits<std::uint64_t>::max() : 0;
}

std::vector<std::byte> SingleCommunicator::gather(std::span<const std::byte> block, int root) {
  require_rank_zero(root);
  return {block.begin(), block.end()};
}

std::vector<std::byte> SingleCommunicator::all_gather(std::span<const std::byte> block) {
  return {block.begin(), block.end()};
}

std::vector<RankMessage> SingleCommunicator::sparse_exchange(std::vector<RankMessage> messages) {
  for (const RankMessage& message : messages) require_rank_zero(message.rank);
  if (messages.size() > 1) throw std::logic_error("sparse_exchange: two messages for rank 0");
  return messages;
}

std::unique_ptr<Communicator> SingleCommunicator::split(int color, int /*key*/) {
  return color == kNoColor ? nullptr : duplicate();
}

std::unique_ptr<Communicator> SingleCommunicator::duplicate() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace scr
