// What processes outside of MPI, which each work alone, have left in the caches of a node: a serial
// program is a job `<job id>.s<number>` of its own. For scr_flush_file there, and scr_postrun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::job {

struct AloneDataset {
  std::string job_id = {};  // of the process
  int id = 0;
  std::string name = {};
};

// Those that must be kept and are not in the prefix directory, of the processes of the job that has
// this control directory, on this node. A flush file that cannot be read tells of none.
std::vector<AloneDataset> find_alone_datasets(FileSystem& fs, const std::string& control_directory);

// What `scr_flush_file --list-alone --json` of a node printed; what is no such list, or not of
// processes of this job, is left out.
std::vector<AloneDataset> parse_alone_datasets(std::string_view json, std::string_view job_id);

}  // namespace scr::job
