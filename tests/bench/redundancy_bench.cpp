// Cost of encode and rebuild as a ratio to a parallel `cp` of the same bytes in the same storage.
//
//   cluster with 4 --light --size 4g -- cluster run --per-node 1 redundancy_bench [MiB...]
//   mpirun --oversubscribe -n 4 redundancy_bench --directory /dev/shm/some-directory [MiB...]
//
// For tuning: --piece BYTES, --only PART-OF-AN-OPERATION'S-NAME.
//
// Every rank plays a node of its own. In each repetition cp and all operations take turns; a ratio
// is the median over the repetitions of (time of the operation / time of the cp before it), and
// `best/best` the ratio of the shortest times, which other work on the machine disturbs least.
// Checksums of all data are computed (encode) or verified (rebuild). `aim` is what the project
// wants to reach.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>

#include "core/base/text.hpp"
#include "core/mpi/mpi_communicator.hpp"
#include "redundancy/redundancy.hpp"
#include "tests/bench/mpi_bench.hpp"

namespace scr::redundancy {
namespace {

using bench::median;
using bench::now;
using bench::require;
using bench::sleeping_barrier;

double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }

struct Operation {
  std::string name;
  Scheme scheme;
  int failures;
  std::vector<int> lost;  // empty: encode
  double aim;
};

const std::vector<Operation> kOperations = {
    {"encode PARTNER", Scheme::kPartner, 1, {}, 1.0},
    {"encode XOR", Scheme::kXor, 1, {}, 0.6},
    {"rebuild XOR, 1 lost", Scheme::kXor, 1, {1}, 0.6},
    {"encode RS k=2", Scheme::kReedSolomon, 2, {}, 1.1},
    {"rebuild RS k=2, 2 lost", Scheme::kReedSolomon, 2, {1, 2}, 1.2},
};

class Bench {
 public:
  Bench(Communicator& comm, std::filesystem::path directory, std::size_t piece, std::string only)
      : comm_(comm), path_(std::move(directory)), options_{piece}, only_(std::move(only)) {
    std::filesystem::create_directories(path_);
    directory_ = real_file_system().open_directory(path_.string()).value();
  }
  ~Bench() { std::filesystem::remove_all(path_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run(std::size_t mebibytes) {
    size_ = mebibytes << 20U;
    const int repetitions = mebibytes >= 256 ? 5 : mebibytes >= 16 ? 15 : 25;
    write_source();
    std::map<std::string, std::vector<double>> ratios;
    std::map<std::string, std::vector<double>> seconds;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      for (const Operation& operation : kOperations) {
        if (operation.name.find(only_) == std::string::npos) continue;
        const double copied = copy();
        if (!only_.empty() && !operation.lost.empty()) encode(operation);
        const double taken = operation.lost.empty() ? encode(operation) : rebuild(operation);
        ratios[operation.name].push_back(taken / copied);
        seconds[operation.name].push_back(taken);
        seconds["cp"].push_back(copied);
      }
    }
    if (comm_.rank() != 0) return;
    const double copied = median(seconds["cp"]);
    fmt::print("{:<24} {:>5} MiB {:>9.1f} ms\n", "cp", mebibytes, copied * 1e3);
    for (const Operation& operation : kOperations) {
      if (ratios[operation.name].empty()) continue;
      const double ratio = median(ratios[operation.name]);
      const double best = least(seconds[operation.name]) / least(seconds["cp"]);
      fmt::print("{:<24} {:>5} MiB {:>9.1f} ms  ratio {:>5.2f}  best/best {:>5.2f}  aim {:.1f}{}\n",
                 operation.name, mebibytes, median(seconds[operation.name]) * 1e3, ratio, best,
                 operation.aim, ratio <= operation.aim ? "" : "  missed");
    }
    std::fflush(stdout);
  }

 private:
  static constexpr const char* kSource = "data.h5";

  void write_source() {
    std::mt19937_64 random(static_cast<unsigned>(comm_.rank()));
    std::vector<std::uint64_t> block(1U << 17U);
    for (auto& word : block) word = random();
    auto file =
        real_file_system().open(At(*directory_, kSource), OpenOptions::create_truncate()).value();
    for (std::uint64_t offset = 0; offset < size_; offset += 1U << 20U) {
      block[0] = offset;
      require(file->write_all(std::as_bytes(std::span(block)), offset));
    }
  }

  double copy() {
    const std::string to = path_ / "copy";
    std::filesystem::remove(to);
    sleeping_barrier();
    const double start = now();
    bench::run_command({"cp", path_ / kSource, to});
    const double end = now();
    sleeping_barrier();
    std::filesystem::remove(to);
    return span_of(start, end);
  }

  RedundancySet set_for(const Operation& operation) const {
    RedundancySet set;
    set.scheme = operation.scheme;
    set.failures = operation.failures;
    for (int i = 0; i < comm_.size(); ++i)
      set.members.push_back({i, "node" + std::to_string(i), false});
    return set;
  }

  double encode(const Operation& operation) {
    const RedundancySet set = set_for(operation);
    DatasetDescriptor dataset;
    dataset.id = 1;
    dataset.name = "bench";
    dataset.ranks = comm_.size();
    member_ = {};
    member_.index = comm_.rank();
    member_.files.emplace_back();
    member_.files[0].file = kSource;
    member_.files[0].size = size_;
    std::filesystem::remove(path_ / set.file_name(comm_.rank()));
    sleeping_barrier();
    const double start = now();
    require(redundancy::encode(comm_, real_file_system(), *directory_, dataset, set, member_,
                               options_));
    const double end = now();
    keep_ = set.file_name(comm_.rank());
    if (operation.scheme == Scheme::kPartner) std::filesystem::remove(path_ / keep_);
    return span_of(start, end);
  }

  // Of what the encode before it left.
  double rebuild(const Operation& operation) {
    const RedundancySet set = set_for(operation);
    std::vector<int> hosts;
    for (int i = 0; i < comm_.size(); ++i) hosts.push_back(i);
    std::vector<HostedMember> mine(1);
    mine[0].index = comm_.rank();
    mine[0].directory = directory_.get();
    mine[0].present = std::ranges::find(operation.lost, comm_.rank()) == operation.lost.end();
    if (mine[0].present) {
      mine[0].content = member_;
    } else {
      std::filesystem::remove(path_ / kSource);
      std::filesystem::remove(path_ / keep_);
    }
    sleeping_barrier();
    const double start = now();
    auto result = redundancy::rebuild(comm_, real_file_system(), set, hosts, mine, false, nullptr,
                                      nullptr, options_);
    const double end = now();
    require(result.ok() ? Status() : result.status());
    std::filesystem::remove(path_ / keep_);
    return span_of(start, end);
  }

  // From the first rank's start to the last one's end: with fewer cores than ranks, one that is
  // done with a barrier may get a core only when others are half through. All ranks have one clock.
  double span_of(double start, double end) {
    double span[] = {-start, end};
    comm_.all_reduce(span, ReduceOp::kMax);
    return span[0] + span[1];
  }

  Communicator& comm_;
  std::filesystem::path path_;
  std::unique_ptr<Directory> directory_;
  EncodeOptions options_;
  std::string only_;  // part of the name of the operations to run
  std::size_t size_ = 0;
  MemberFiles member_;
  std::string keep_;  // redundancy file of the last encode
};

int run_bench(std::span<char*> arguments) {
  const char* local = std::getenv("H5SCR_NODE_LOCAL");
  std::string directory = local == nullptr ? "/dev/shm" : local;
  std::vector<std::size_t> sizes;
  std::size_t piece = 0;
  std::string only;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (word == "--directory" && has_value) {
      directory = arguments[++i];
    } else if (word == "--piece" && has_value) {
      piece = text::parse_uint(arguments[++i]).value_or(0);
    } else if (word == "--only" && has_value) {
      only = arguments[++i];
    } else {
      sizes.push_back(text::parse_uint(word).value_or(1));
    }
  }
  if (sizes.empty()) sizes = {1, 64, 512};
  const auto comm = MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
  if (comm->size() < 4) {
    fmt::print(stderr, "redundancy_bench: needs 4 ranks\n");
    return 2;
  }
  Bench bench(*comm, fmt::format("{}/redundancy_bench.{}", directory, comm->rank()), piece, only);
  for (const std::size_t size : sizes) bench.run(size);
  return 0;
}

}  // namespace
}  // namespace scr::redundancy

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = scr::redundancy::run_bench({argv, static_cast<std::size_t>(argc)});
  MPI_Finalize();
  return code;
}
