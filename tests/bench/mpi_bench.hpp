// What benchmarks with MPI share: a clock, a barrier that does not spin, and commands to compare
// with.
#pragma once

#include <fmt/format.h>
#include <mpi.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace scr::bench {

inline void require(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, status.to_string());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The commands that are measured need the cores, so a rank that is done must not spin.
inline void sleeping_barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) ::usleep(20);
  }
}

inline void run_command(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  int status = -1;
  if (::posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0 ||
      ::waitpid(process, &status, 0) != process || status != 0) {
    require(internal_error(words[0] + " failed"));
  }
}

}  // namespace scr::bench
