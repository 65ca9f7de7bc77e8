// How long scr_index takes to list a prefix directory with many datasets, in time of its own
// (processor time of the command) and by the clock.
//   index_bench SCR_INDEX DIRECTORY [DATASETS]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "flush/index.hpp"
#include "flush/rank2file.hpp"
#include "flush/summary.hpp"

namespace {

using scr::Status;

scr::DatasetDescriptor descriptor(int id) {
  scr::DatasetDescriptor dataset;
  dataset.id = id;
  dataset.name = fmt::format("step_{:06}", id);
  dataset.created = 1'700'000'000'000'000 + id * std::int64_t{60'000'000};
  dataset.user = "bench";
  dataset.job_id = "1";
  dataset.checkpoint = id;
  dataset.ranks = 64;
  dataset.size = 64 << 20;
  dataset.files = 64;
  dataset.complete = true;
  return dataset;
}

Status make_dataset(scr::FileSystem& fs, const std::string& prefix, int id) {
  const std::string directory = fmt::format("{}/.scr/scr.dataset.{}", prefix, id);
  SCR_RETURN_IF_ERROR(fs.make_directories(directory));
  scr::flush::Summary summary;
  summary.dataset = descriptor(id);
  summary.complete = true;
  SCR_RETURN_IF_ERROR(scr::flush::write_summary(fs, directory, summary));
  std::map<int, scr::flush::RankFiles> ranks;
  for (int rank = 0; rank < summary.dataset.ranks; ++rank) {
    scr::flush::StoredFile file;
    file.file = fmt::format("step_{:06}.{}.h5", id, rank);
    file.size = 1 << 20;
    ranks[rank] = {file};
  }
  SCR_RETURN_IF_ERROR(scr::flush::write_rank2file_top(fs, directory, summary.dataset.ranks));
  return scr::flush::write_rank2file_block(fs, directory, 0, ranks);
}

Status make_prefix(scr::FileSystem& fs, const std::string& prefix, int count) {
  for (int id = 1; id <= count; ++id) SCR_RETURN_IF_ERROR(make_dataset(fs, prefix, id));
  return scr::flush::update_index(fs, prefix, [count](scr::flush::Index& index) -> Status {
    for (int id = 1; id <= count; ++id) {
      scr::flush::IndexEntry entry;
      entry.directory = fmt::format("scr.dataset.{}", id);
      entry.dataset = descriptor(id);
      entry.complete = true;
      entry.flushed = scr::flush::timestamp_now();
      index.put(std::move(entry));
    }
    return {};
  });
}

// Runs it without its output; its exit code.
int run(const std::string& command, const std::string& prefix) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(126);
    ::execl(command.c_str(), command.c_str(), "-p", prefix.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

double own_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string prefix = std::string(argv[2]) + "/index_bench";
  const int most = argc > 3 ? std::atoi(argv[3]) : 1000;
  for (const int count : {most / 10, most}) {
    std::filesystem::remove_all(prefix);
    const Status made = make_prefix(scr::real_file_system(), prefix, count);
    if (!made.ok()) {
      fmt::print(stderr, "{}\n", made.message());
      return 1;
    }
    const double before = own_seconds();
    const auto start = std::chrono::steady_clock::now();
    if (run(argv[1], prefix) != 0) return 1;
    const std::chrono::duration<double> clock = std::chrono::steady_clock::now() - start;
    fmt::print("scr_index lists {:5} datasets: {:.3f} s of its own, {:.3f} s by the clock\n", count,
               own_seconds() - before, clock.count());
  }
  std::filesystem::remove_all(prefix);
  return 0;
}
