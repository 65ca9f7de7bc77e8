// SingleCommunicator: the communicator of a program that is one process, without MPI.
//
// Rank 0 of 1. A message to oneself is buffered, so a send never waits. A mistake that would hang
// an MPI program (waiting for a message that was not sent) or that MPI would refuse (another rank
// than 0, a message of the wrong length) throws std::logic_error.
#pragma once

#include "core/mpi/communicator.hpp"

namespace scr {

namespace in_process {
class Mailbox;
}

class SingleCommunicator final : public Communicator {
 public:
  SingleCommunicator();
  ~SingleCommunicator() override;

  using Communicator::all_reduce;

  int rank() const override { return 0; }
  int size() const override { return 1; }
  void send(std::span<const std::byte> data, int to, int tag) override;
  void receive(std::span<std::byte> buffer, int from, int tag) override;
  Request start_send(std::span<const std::byte> data, int to, int tag) override;
  Request start_receive(std::span<std::byte> buffer, int from, int tag) override;
  void barrier() override {}
  void broadcast(std::span<std::byte> buffer, int root) override;
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) override;
  void all_reduce(std::span<std::uint64_t> values, ReduceOp op) override;
  void all_reduce(std::span<double> values, ReduceOp op) override;
  std::uint64_t exclusive_scan(std::uint64_t value, ReduceOp op) override;
  std::vector<std::byte> gather(std::span<const std::byte> block, int root) override;
  std::vector<std::byte> all_gather(std::span<const std::byte> block) override;
  std::vector<RankMessage> sparse_exchange(std::vector<RankMessage> messages) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> duplicate() override;

 private:
  // Shared with started receives, which may outlive the communicator.
  std::shared_ptr<in_process::Mailbox> mailbox_;
};

}  // namespace scr
