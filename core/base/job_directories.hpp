// The directories `<base>/<user>/scr.<jobid>` that h5scr jobs made on this node, grouped by job.
// For scr_clean (job_cleaner.hpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr {

struct JobDirectory {
  // `<base>/<user>/scr.<jobid>` as text: several if one directory is reached through several bases.
  std::vector<std::string> paths = {};
  std::shared_ptr<Directory> parent = {};  // the user's directory
  std::string name = {};                   // in the parent
  std::unique_ptr<Directory> directory = {};
  FileInfo info = {};
  std::string fault = {};  // why it is not safe to touch; empty if it is
};

struct FoundJobs {
  // By user and job id.
  std::map<std::pair<std::string, std::string>, std::vector<JobDirectory>> jobs = {};
  std::vector<std::string> problems = {};
};

// Whether `id` is that of the job, or of a process of it that works alone: `<job id>.s<number>`,
// `<job id>.p<number>`.
bool is_of_job(std::string_view id, std::string_view job_id);

// Looks for real directories of that name, of one user or (nothing) of all, one job (with the
// processes of it that work alone) or all. A base that does not exist has no jobs.
FoundJobs find_job_directories(FileSystem& fs, const std::vector<std::string>& bases,
                               const std::optional<std::string>& user,
                               const std::optional<std::string>& job_id);

}  // namespace scr
