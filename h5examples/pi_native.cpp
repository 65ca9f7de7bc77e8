// pi_native: the number pi by throwing darts, in C++ with the native API (SCR_*).
//
//   pi_native MILLIONS_OF_DARTS [MILLISECONDS_PER_ROUND]
//
// Every rank throws its own darts, a million in each round, and a checkpoint holds the state of its
// random numbers: started again, the program throws just the darts that it would have thrown, and
// the result is the same to the last digit.
//
//   without h5scr:  SCR_ENABLE=0 mpirun -n 4 pi_native 40     (no checkpoints then)
//   with h5scr:     mpirun -n 4 pi_native 40
#include <mpi.h>
#include <scr.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>

namespace {

class Darts {
 public:
  explicit Darts(int rank) : rank_(rank), random_(static_cast<unsigned>(rank) + 1) {}

  void throw_round() {
    std::uniform_real_distribution<double> place(-1, 1);
    for (int i = 0; i < kRound; ++i) {
      const double x = place(random_);
      const double y = place(random_);
      if (x * x + y * y <= 1) ++hits_;
    }
    ++rounds_;
  }

  bool save(const std::string& path) const {
    std::ofstream out(path);
    out << rounds_ << ' ' << hits_ << ' ' << random_ << '\n';
    out.close();
    return !out.fail();
  }
  bool load(const std::string& path) {
    std::ifstream in(path);
    return static_cast<bool>(in >> rounds_ >> hits_ >> random_);
  }

  // The same name at every checkpoint and restart, in the folder of the dataset.
  std::string file(const std::string& dataset) const {
    return dataset + "/darts." + std::to_string(rank_);
  }
  int rounds() const { return rounds_; }
  double estimate() const {
    double sums[2] = {static_cast<double>(hits_), static_cast<double>(rounds_) * kRound};
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 4 * sums[0] / sums[1];
  }

 private:
  static constexpr int kRound = 1'000'000;
  int rank_;
  std::mt19937_64 random_;
  long long hits_ = 0;
  int rounds_ = 0;
};

void checkpoint(const Darts& darts) {
  const std::string name = "pi." + std::to_string(darts.rounds());
  if (SCR_Start_output(name.c_str(), SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) return;
  char path[SCR_MAX_FILENAME];
  const bool routed = SCR_Route_file(darts.file(name).c_str(), path) == SCR_SUCCESS;
  SCR_Complete_output(routed && darts.save(path) ? 1 : 0);
}

// Tries the newest checkpoint first; if a rank cannot read its part, all go on to the next older.
bool restart(Darts& darts) {
  int have = 0;
  char name[SCR_MAX_FILENAME];
  while (SCR_Have_restart(&have, name) == SCR_SUCCESS && have != 0) {
    SCR_Start_restart(name);
    char path[SCR_MAX_FILENAME];
    const bool routed = SCR_Route_file(darts.file(name).c_str(), path) == SCR_SUCCESS;
    if (SCR_Complete_restart(routed && darts.load(path) ? 1 : 0) == SCR_SUCCESS) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 2) {
    if (rank == 0) std::fprintf(stderr, "usage: pi_native MILLIONS_OF_DARTS [MS]\n");
    MPI_Finalize();
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  const std::chrono::milliseconds pause(argc > 2 ? std::atoi(argv[2]) : 0);
  const bool is_protected = SCR_Init() == SCR_SUCCESS;
  Darts darts(rank);
  if (is_protected && restart(darts) && rank == 0)
    std::printf("restarted after %d rounds\n", darts.rounds());
  while (darts.rounds() < rounds) {
    darts.throw_round();
    std::this_thread::sleep_for(pause);
    int wanted = 0;
    if (is_protected && SCR_Need_checkpoint(&wanted) == SCR_SUCCESS && wanted != 0)
      checkpoint(darts);
  }
  const double pi = darts.estimate();
  if (rank == 0) std::printf("pi is about %.9f after %d rounds\n", pi, rounds);
  if (is_protected) SCR_Finalize();
  MPI_Finalize();
  return 0;
}
