// MpiCommunicator: a Communicator on an MPI communicator of its own.
//
// It works on a private copy of the application's communicator, so that none of our messages can
// match one of the application's, and frees it (collectively) when destroyed, unless MPI has been
// finalized by then. It calls PMPI_*, not MPI_*: tools and our own interposition layer, which wrap
// MPI_*, do not see our traffic. A failed call ends the program. Used by one thread at a time;
// MPI_THREAD_SINGLE is enough if that is the thread that calls MPI.
#pragma once

// The old C++ bindings of MPI would bring in a library of their own.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "core/mpi/communicator.hpp"

namespace scr {

class AttendanceList;

class MpiCommunicator final : public Communicator {
 public:
  // A copy of an intracommunicator: same ranks, but neither its attributes (whose callbacks belong
  // to the application), nor its topology or its error handler. Collective over `comm`.
  static std::unique_ptr<MpiCommunicator> duplicate_of(MPI_Comm comm);
  // Takes over `owned`, which nothing else may use.
  explicit MpiCommunicator(MPI_Comm owned);
  ~MpiCommunicator() override;

  using Communicator::all_reduce;

  MPI_Comm native() const { return comm_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(std::span<const std::byte> data, int to, int tag) override;
  void receive(std::span<std::byte> buffer, int from, int tag) override;
  Request start_send(std::span<const std::byte> data, int to, int tag) override;
  Request start_receive(std::span<std::byte> buffer, int from, int tag) override;
  void barrier() override;
  void meet(const Meeting& meeting) override;
  void broadcast(std::span<std::byte> buffer, int root) override;
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) override;
  void all_reduce(std::span<std::uint64_t> values, ReduceOp op) override;
  void all_reduce(std::span<double> values, ReduceOp op) override;
  std::uint64_t exclusive_scan(std::uint64_t value, ReduceOp op) override;
  std::vector<std::byte> gather(std::span<const std::byte> block, int root) override;
  std::vector<std::byte> all_gather(std::span<const std::byte> block) override;
  std::vector<RankMessage> sparse_exchange(std::vector<RankMessage> messages) override;
  // MPI gathers the colours of all ranks at each rank for this.
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> duplicate() override;

  // --- for tests ---------------------------------------------------------------------------------
  // Point-to-point messages this process has sent through any MpiCommunicator.
  static std::uint64_t messages_sent();
  // The most bytes that one MPI call moves, 1 GiB by default; longer data goes in pieces. All ranks
  // must set the same. Returns the limit before.
  static std::size_t set_piece_limit(std::size_t bytes);

 private:
  template <typename T>
  void reduce(std::span<T> values, MPI_Datatype type, ReduceOp op);
  template <typename Collect>
  std::vector<std::byte> collect(std::span<const std::byte> block, bool wanted, Collect collect);
  RankMessage receive_matched(MPI_Message& matched, const MPI_Status& status);
  void exchange_first_pieces(const std::vector<RankMessage>& messages,
                             std::vector<RankMessage>& received);
  void exchange_remainders(const std::vector<RankMessage>& messages,
                           std::vector<RankMessage>& received);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  unsigned exchanges_ = 0;
  std::unique_ptr<AttendanceList> attendance_;  // once a meeting has taken long
  std::uint64_t meetings_ = 0;
};

}  // namespace scr
