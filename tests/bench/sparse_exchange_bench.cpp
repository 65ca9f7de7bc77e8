// How long a sparse exchange with two partners takes, against MPI_Alltoall of the lengths followed
// by MPI_Alltoallv of the data, which is what a program without sparse exchange would do.
//
//   mpirun -n P sparse_exchange_bench [bytes per message, default 64] [repetitions, default 200]
//
// Prints one line; `ratio` is ours / baseline of the medians, each time being that of the slowest
// rank.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "core/mpi/mpi_communicator.hpp"

namespace scr {
namespace {

std::vector<int> partners_of(const Communicator& comm) {
  const int n = comm.size();
  std::vector<int> partners = {(comm.rank() + 1) % n, (comm.rank() + n - 1) % n};
  std::ranges::sort(partners);
  partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
  return partners;
}

void exchange_sparse(Communicator& comm, std::size_t bytes) {
  std::vector<RankMessage> messages;
  for (const int to : partners_of(comm)) messages.push_back({to, std::vector<std::byte>(bytes)});
  const auto received = comm.sparse_exchange(std::move(messages));
  if (received.size() != partners_of(comm).size()) std::abort();
}

void exchange_dense(MpiCommunicator& comm, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<int> send_counts(n);
  std::vector<int> send_offsets(n);
  std::vector<int> receive_counts(n);
  std::vector<int> receive_offsets(n);
  int total = 0;
  for (const int to : partners_of(comm)) {
    send_counts[static_cast<std::size_t>(to)] = static_cast<int>(bytes);
    send_offsets[static_cast<std::size_t>(to)] = total;
    total += static_cast<int>(bytes);
  }
  const std::vector<std::byte> sent(static_cast<std::size_t>(total));
  PMPI_Alltoall(send_counts.data(), 1, MPI_INT, receive_counts.data(), 1, MPI_INT, comm.native());
  int expected = 0;
  for (std::size_t from = 0; from < n; ++from) {
    receive_offsets[from] = expected;
    expected += receive_counts[from];
  }
  std::vector<std::byte> received(static_cast<std::size_t>(expected));
  PMPI_Alltoallv(sent.data(), send_counts.data(), send_offsets.data(), MPI_BYTE, received.data(),
                 receive_counts.data(), receive_offsets.data(), MPI_BYTE, comm.native());
}

double seconds_of_slowest(MpiCommunicator& comm, const std::function<void()>& exchange) {
  comm.barrier();
  const double start = PMPI_Wtime();
  exchange();
  double seconds = PMPI_Wtime() - start;
  comm.all_reduce(std::span(&seconds, 1), ReduceOp::kMax);
  return seconds;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The two take turns, so that a busy machine slows both alike.
void measure(MpiCommunicator& comm, std::size_t bytes, int repetitions) {
  constexpr int kWarmUp = 10;
  std::vector<double> sparse;
  std::vector<double> dense;
  for (int i = -kWarmUp; i < repetitions; ++i) {
    const double ours = seconds_of_slowest(comm, [&] { exchange_sparse(comm, bytes); });
    const double baseline = seconds_of_slowest(comm, [&] { exchange_dense(comm, bytes); });
    if (i < 0) continue;
    sparse.push_back(ours);
    dense.push_back(baseline);
  }
  if (comm.rank() != 0) return;
  const double ours = median(std::move(sparse)) * 1e6;
  const double baseline = median(std::move(dense)) * 1e6;
  std::printf("ranks=%d bytes=%zu sparse_us=%.1f alltoallv_us=%.1f ratio=%.2f\n", comm.size(),
              bytes, ours, baseline, ours / baseline);
}

}  // namespace
}  // namespace scr

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const auto comm = scr::MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
    const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
    const int repetitions = argc > 2 ? std::max(1, std::atoi(argv[2])) : 200;
    scr::measure(*comm, bytes, repetitions);
  }
  MPI_Finalize();
  return 0;
}
