// The variables that the processes of a launched program get, and nobody else.
#pragma once

#include <map>
#include <string>

#include "core/job/host_list.hpp"
#include "core/job/job_settings.hpp"
#include "core/job/runtime_check.hpp"

namespace scr::job {

// Set for every run of a job but the first: an SCR_CURRENT in a configuration file does not count.
inline constexpr std::string_view kRunAgainVariable = "SCR_RUN_AGAIN";

struct EnvironmentRequest {
  std::string run_id = {};
  Hosts nodes = {};
  Hdf5Way hdf5 = Hdf5Way::kUnknown;
  bool log = false;       // SCR_LOG_ENABLE whatever is configured
  bool again = false;     // not the first run of the job
  bool terminal = false;  // somebody sees what the processes write to standard error
};

// HDF5_DRIVER, HDF5_PLUGIN_PATH, LD_PRELOAD (before what the user has there), every SCR_* variable
// of this process, and what scr_run knows of the job. Launchers do not carry variables to other
// nodes by themselves.
std::map<std::string, std::string> application_environment(const JobSettings& job,
                                                           const EnvironmentRequest& request);

}  // namespace scr::job
