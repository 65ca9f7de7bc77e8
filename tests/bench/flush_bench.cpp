// Cost of flush and fetch as ratios to dd, cp and each other, on a real disk.
//
//   mpirun --oversubscribe -n 4 flush_bench DIRECTORY-ON-DISK flush|fetch|fetch-cold|small|compute
//   [MiB] flush_bench DIRECTORY-ON-DISK lists
//
// The cache is a directory in /dev/shm; every rank plays a node of its own. Baseline and
// measurement take turns in one run, and a ratio is the median over the repetitions of (time of
// the operation / time of the baseline before it). `aim` is what the project wants to reach.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "core/base/text.hpp"
#include "core/mpi/mpi_communicator.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/rank2file.hpp"
#include "redundancy/redundancy.hpp"
#include "tests/bench/mpi_bench.hpp"

namespace scr::flush {
namespace {

namespace fs = std::filesystem;

using bench::median;
using bench::now;
using bench::require;
using bench::run_command;
using bench::sleeping_barrier;

// The time that all ranks together take.
double timed(const std::function<void()>& action) {
  sleeping_barrier();
  const double start = now();
  action();
  sleeping_barrier();
  return now() - start;
}

std::vector<std::byte> random_block(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> block(size);
  for (std::byte& byte : block) byte = static_cast<std::byte>(random() & 0xffU);
  return block;
}

// The next reader has to go to the disk.
void drop_pages(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool dropped =
      file >= 0 && ::fsync(file) == 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
  if (file >= 0) ::close(file);
  require(dropped ? Status() : internal_error("cannot drop the pages of " + path));
}

class Bench {
 public:
  Bench(Communicator& world, const std::string& disk) : world_(world) {
    prefix_ = fmt::format("{}/flush_bench.d", disk);
    cache_ = fmt::format("/dev/shm/flush_bench.{}.{}", ::getuid(), world.rank());
    clear();
    fs::create_directories(cache_);
    self_ = world.split(world.rank(), 0);
  }
  ~Bench() {
    world_.barrier();
    fs::remove_all(cache_);
    if (world_.rank() == 0) fs::remove_all(prefix_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Each begins with an empty directory, and they take turns to be first: memory that removed files
  // have just left is cheaper to fill than other memory, so of two `dd`, too, the second takes up
  // to twice as long if the files of the first are still there.
  void flush_against_dd(std::size_t bytes) {
    write_dataset(1, bytes);
    std::vector<double> ratios;
    std::vector<double> dd_seconds;
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) {
      const bool flush_first = i % 2 == 1;
      double taken = flush_first ? flush_and_clear() : 0;
      const double base = dd_and_clear();
      if (!flush_first) taken = flush_and_clear();
      ratios.push_back(taken / base);
      dd_seconds.push_back(base);
      seconds.push_back(taken);
    }
    report(fmt::format("flush {} MiB a rank", bytes >> 20U), "dd conv=fsync", dd_seconds, seconds,
           ratios, 1.05);
  }

  // `cold`: what is in the prefix directory comes from the disk, as after a failure on other nodes;
  // else from the memory of this machine.
  void fetch_against_cp(std::size_t bytes, bool cold) {
    write_dataset(1, bytes);
    flush(FlushOptions(), *self_);
    std::vector<double> ratios;
    std::vector<double> reading_ratios;
    std::vector<double> cp_seconds;
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) {
      if (cold) drop_pages(prefix_ + "/" + files_[0].file);
      const double base = timed([&] {
        run_command({"cp", prefix_ + "/" + files_[0].file, cache_ + "/copy"});
      });
      fs::remove(cache_ + "/copy");
      if (cold) drop_pages(prefix_ + "/" + files_[0].file);
      const double taken = timed([&] { fetch(); });
      fs::remove_all(cache_ + "/fetched");
      ratios.push_back(taken / base);
      reading_ratios.push_back(reading_ / base);
      cp_seconds.push_back(base);
      seconds.push_back(taken);
    }
    if (world_.rank() == 0)
      fmt::print("  of this, reading and verifying on rank 0: ratio {:.2f}\n",
                 median(reading_ratios));
    report(fmt::format("fetch {} MiB a rank, XOR, {}", bytes >> 20U, cold ? "disk" : "memory"),
           "cp", cp_seconds, seconds, ratios, 1.8);
  }

  void containers_against_files() {
    write_dataset(10000 / static_cast<std::size_t>(world_.size()), 4096);
    FlushOptions contained;
    contained.containers = true;
    std::vector<double> ratios;
    std::vector<double> plain_seconds;
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
      const double plain = flush(FlushOptions(), *self_);
      clear();
      const double taken = flush(contained, *self_);
      clear();
      ratios.push_back(taken / plain);
      plain_seconds.push_back(plain);
      seconds.push_back(taken);
    }
    report("10,000 files, containers", "one by one", plain_seconds, seconds, ratios, 0.1);
  }

  // A loop that streams through memory, alone and while a thread copies as the background flush
  // does.
  void compute_during_flush(std::size_t bytes) {
    write_dataset(1, bytes);
    std::vector<double> ratios;
    std::vector<double> alone_seconds;
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      const double alone = timed([&] { triad(20); });
      auto flush = prepare(FlushOptions(), *self_);
      std::thread thread([&] { flush->copy(); });
      // Compared sweep by sweep: the copy may end before or after a fixed amount of work.
      int sweeps = 0;
      const double start = now();
      do {
        triad(1);
        ++sweeps;
      } while (!flush->copied());
      const double taken = (now() - start) / sweeps * 20;
      thread.join();
      require(flush->finish(world_, *self_));
      clear();
      ratios.push_back(taken / alone);
      alone_seconds.push_back(alone);
      seconds.push_back(taken);
    }
    report("compute during a flush", "compute alone", alone_seconds, seconds, ratios, 0);
  }

 private:
  void report(const std::string& what, const std::string& baseline,
              const std::vector<double>& base_seconds, const std::vector<double>& seconds,
              const std::vector<double>& ratios, double aim) const {
    if (world_.rank() != 0) return;
    const double ratio = median(ratios);
    const auto [low, high] = std::ranges::minmax(ratios);
    fmt::print("{:<28} {:>9.1f} ms, {} {:>9.1f} ms: ratio {:.2f} ({:.2f} to {:.2f})", what,
               median(seconds) * 1e3, baseline, median(base_seconds) * 1e3, ratio, low, high);
    if (aim > 0) fmt::print("  aim {}{}", aim, ratio <= aim ? "" : "  missed");
    fmt::print("\n");
    std::fflush(stdout);
  }

  void clear() {
    world_.barrier();
    if (world_.rank() == 0) {
      fs::remove_all(prefix_);
      fs::create_directories(prefix_ + "/.scr");
      ::sync();
    }
    world_.barrier();
  }

  void write_dataset(std::size_t count, std::size_t bytes) {
    const auto block = random_block(std::min<std::size_t>(bytes, 1U << 20U),
                                    static_cast<unsigned>(world_.rank()) + 1);
    for (std::size_t i = 0; i < count; ++i) {
      FileMeta meta;
      meta.file = fmt::format("rank_{}.{}.h5", world_.rank(), i);
      meta.size = bytes;
      auto file =
          real_file_system().open(cache_ + "/" + meta.file, OpenOptions::create_truncate()).value();
      for (std::uint64_t offset = 0; offset < bytes; offset += block.size())
        require(file->write_all(block, offset));
      meta.crc = checksum_file(real_file_system(), cache_ + "/" + meta.file)->second;
      files_.push_back(std::move(meta));
    }
    dataset_.id = 1;
    dataset_.name = "bench";
    dataset_.created = 1700000000000000;
    dataset_.checkpoint = 1;
    dataset_.ranks = world_.size();
    dataset_.complete = true;
  }

  std::unique_ptr<Flush> prepare(const FlushOptions& options, Communicator& node) {
    auto flush = Flush::prepare(world_, node, real_file_system(), prefix_, dataset_, cache_, files_,
                                options);
    require(flush.status());
    return std::move(*flush);
  }

  double flush(const FlushOptions& options, Communicator& node) {
    return timed([&] {
      auto flush = prepare(options, node);
      flush->copy_in_turns(world_);
      require(flush->finish(world_, node));
    });
  }

  double flush_and_clear() {
    const double taken = flush(FlushOptions(), *self_);
    clear();
    return taken;
  }
  double dd_and_clear() {
    const double taken = timed([&] {
      run_command({"dd", "if=" + cache_ + "/" + files_[0].file,
                   fmt::format("of={}/dd.{}", prefix_, world_.rank()), "bs=1M", "conv=fsync",
                   "status=none"});
    });
    clear();
    return taken;
  }

  // As at a restart: verified as it is read, then encoded again.
  void fetch() {
    FileSystem& files = real_file_system();
    const std::string directory = prefix_ + "/.scr/scr.dataset.1";
    const double start = now();
    auto listed = read_rank2file(world_, files, directory);
    require(listed.status());
    fs::create_directories(cache_ + "/fetched");
    require(fetch_files(files, prefix_, "scr.dataset.1", *listed, cache_ + "/fetched",
                        std::size_t{1} << 20U));
    reading_ = now() - start;
    redundancy::RedundancySet set;
    set.scheme = redundancy::Scheme::kXor;
    set.failures = 1;
    for (int i = 0; i < world_.size(); ++i)
      set.members.push_back({i, "node" + std::to_string(i), false});
    redundancy::MemberFiles member;
    member.index = world_.rank();
    member.files = files_;
    auto opened = files.open_directory(cache_ + "/fetched");
    require(opened.status());
    require(redundancy::encode(world_, files, **opened, dataset_, set, member));
  }

  void triad(int sweeps) {
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = b_[i] + 1.5 * c_[i];
      std::swap(a_, b_);
    }
  }

  Communicator& world_;
  std::unique_ptr<Communicator> self_;
  std::string prefix_;
  std::string cache_;
  double reading_ = 0;  // part of the last fetch
  DatasetDescriptor dataset_;
  std::vector<FileMeta> files_;
  std::vector<double> a_ = std::vector<double>(std::size_t{1} << 21U, 1.0);
  std::vector<double> b_ = a_;
  std::vector<double> c_ = a_;
};

// --- lists ---------------------------------------------------------------------------------------

void print_growth(const std::string& what, std::size_t count, double seconds, double& first) {
  const double each = seconds / static_cast<double>(count);
  if (first == 0) first = each;
  fmt::print("{:<24} {:>8} {:>9.1f} ms {:>8.2f} us each  ratio {:.2f}\n", what, count,
             seconds * 1e3, each * 1e6, each / first);
}

Index index_of(std::size_t datasets) {
  Index index;
  for (std::size_t i = 1; i <= datasets; ++i) {
    IndexEntry entry;
    entry.dataset.id = static_cast<int>(i);
    entry.dataset.name = fmt::format("checkpoint at step {}", i * 100);
    entry.dataset.created = 1700000000000000 + static_cast<std::int64_t>(i);
    entry.dataset.checkpoint = static_cast<int>(i);
    entry.directory = fmt::format("scr.dataset.{}", i);
    entry.complete = true;
    entry.flushed = timestamp_now();
    index.put(std::move(entry));
  }
  return index;
}

void time_index(const std::string& prefix, const std::string& scr_index) {
  double loads = 0;
  double updates = 0;
  double lists = 0;
  for (const std::size_t count : {1000U, 10000U}) {
    const Index index = index_of(count);
    require(update_index(real_file_system(), prefix, [&](Index& all) {
      all = index;
      return Status();
    }));
    double start = now();
    require(read_index(real_file_system(), prefix).status());
    print_growth("index: load", count, now() - start, loads);
    start = now();
    require(update_index(real_file_system(), prefix, [](Index&) { return Status(); }));
    print_growth("index: update", count, now() - start, updates);
    start = now();
    run_command({"sh", "-c", "'" + scr_index + "' -p '" + prefix + "' >/dev/null 2>&1"});
    print_growth("index: scr_index lists", count, now() - start, lists);
    require(update_index(real_file_system(), prefix, [](Index& all) {
      all = Index();
      return Status();
    }));
  }
}

void time_rank2file(const std::string& directory) {
  double writes = 0;
  double loads = 0;
  for (const std::size_t count : {10000U, 100000U, 1000000U}) {
    const int ranks = static_cast<int>(count / 10);
    double start = now();
    for (int block = 0; block < rank2file_block_count(ranks); ++block) {
      std::map<int, RankFiles> all;
      for (int rank = block * kRanksPerBlock; rank < std::min(ranks, (block + 1) * kRanksPerBlock);
           ++rank) {
        for (int i = 0; i < 10; ++i) {
          StoredFile file;
          file.file = fmt::format("run/step_1000/rank_{}.{}.h5", rank, i);
          file.size = 1234567;
          file.crc = static_cast<std::uint32_t>(rank);
          all[rank].push_back(std::move(file));
        }
      }
      require(write_rank2file_block(real_file_system(), directory, block, all));
    }
    require(write_rank2file_top(real_file_system(), directory, ranks));
    print_growth("rank2file: write", count, now() - start, writes);
    start = now();
    std::size_t seen = 0;
    for (int block = 0; block < rank2file_block_count(ranks); ++block) {
      auto files = read_rank2file_block(real_file_system(), directory, block);
      require(files.status());
      for (const auto& [rank, list] : *files) seen += list.size();
    }
    require(seen == count ? Status() : internal_error("files are missing"));
    print_growth("rank2file: load and list", count, now() - start, loads);
  }
}

void lists(const std::string& disk) {
  const std::string prefix = disk + "/flush_bench.lists";
  fs::remove_all(prefix);
  fs::create_directories(prefix + "/.scr/scr.dataset.1");
  const fs::path self = fs::read_symlink("/proc/self/exe");
  time_index(prefix, self.parent_path().parent_path() / "bin/scr_index");
  time_rank2file(prefix + "/.scr/scr.dataset.1");
  fs::remove_all(prefix);
}

int run_bench(std::span<char*> arguments) {
  if (arguments.size() < 3) {
    fmt::print(stderr,
               "usage: flush_bench DIRECTORY flush|fetch|fetch-cold|small|compute|lists [MiB]\n");
    return 2;
  }
  const std::string disk = fs::absolute(arguments[1]);
  const std::string_view what = arguments[2];
  const std::size_t bytes =
      (arguments.size() > 3 ? text::parse_uint(arguments[3]).value_or(64) : 64) << 20U;
  if (what == "lists") {
    lists(disk);
    return 0;
  }
  const auto world = MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
  Bench bench(*world, disk);
  if (what == "flush") bench.flush_against_dd(bytes);
  if (what == "fetch") bench.fetch_against_cp(bytes, false);
  if (what == "fetch-cold") bench.fetch_against_cp(bytes, true);
  if (what == "small") bench.containers_against_files();
  if (what == "compute") bench.compute_during_flush(bytes);
  return 0;
}

}  // namespace
}  // namespace scr::flush

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = scr::flush::run_bench({argv, static_cast<std::size_t>(argc)});
  MPI_Finalize();
  return code;
}
