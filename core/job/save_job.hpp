// Saves a job's datasets from the caches of its nodes when the allocation ends: finds the nodes,
// runs scr_copy there, tells and logs what came of it. For scr_postrun, scr_scavenge and scr_run.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/job/host_list.hpp"
#include "core/job/job_settings.hpp"
#include "flush/save.hpp"

namespace scr::job {

struct SaveJobOptions {
  std::optional<Hosts> nodes = {};  // default: those of the job
  Hosts down = {};                  // known to be, besides those that the batch system knows
  std::optional<int> dataset = {};  // only this one, whether it must be kept or not
  std::chrono::milliseconds answer_timeout = std::chrono::seconds(60);  // of a node
  std::chrono::milliseconds copy_timeout = {};                          // 0: none
  std::chrono::milliseconds patience = std::chrono::seconds(30);        // for the program to end
  std::function<void(const std::string& line)> say = {};
};

Result<flush::SaveOutcome> save_job(const JobSettings& job, const SaveJobOptions& options);

}  // namespace scr::job
