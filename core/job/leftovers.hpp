// Processes that a run of scr_run left behind on this node: found by SCR_RUN_ID, which scr_run
// gives every process of the program and which its children inherit.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::job {

inline constexpr std::string_view kRunIdVariable = "SCR_RUN_ID";

// Those of this user, but not this process.
std::vector<pid_t> processes_of_run(FileSystem& fs, const std::string& run_id);

// Kills them, until there are none; how many there were.
Result<std::size_t> kill_processes_of_run(FileSystem& fs, const std::string& run_id);

}  // namespace scr::job
