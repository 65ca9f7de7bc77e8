#include "core/job/leftovers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "core/base/text.hpp"

namespace scr::job {

std::vector<pid_t> processes_of_run(FileSystem& fs, const std::string& run_id) {
  const std::string wanted = fmt::format("{}={}", kRunIdVariable, run_id);
  std::vector<pid_t> found;
  const auto entries = fs.list("/proc");
  if (!entries.ok()) return found;
  for (const DirectoryEntry& entry : *entries) {
    const auto pid = text::parse_int(entry.name);
    if (!pid || *pid == ::getpid()) continue;
    const auto environment = fs.read_file("/proc/" + entry.name + "/environ");
    if (!environment.ok()) continue;  // not ours, or gone
    const std::string_view text(reinterpret_cast<const char*>(environment->data()),
                                environment->size());
    const auto variables = text::split(text, '\0');
    if (std::find(variables.begin(), variables.end(), wanted) != variables.end()) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

Result<std::size_t> kill_processes_of_run(FileSystem& fs, const std::string& run_id) {
  constexpr int kTries = 100;
  std::set<pid_t> killed;
  for (int i = 0; i < kTries; ++i) {
    const std::vector<pid_t> left = processes_of_run(fs, run_id);
    if (left.empty()) return killed.size();
    for (pid_t pid : left) {
      killed.insert(pid);
      ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return failed_precondition(fmt::format("processes of run {} do not end", run_id));
}

}  // namespace scr::job
