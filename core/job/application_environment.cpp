#include "core/job/application_environment.hpp"

#include <fmt/format.h>

#include "core/base/progress.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/installation.hpp"
#include "core/job/leftovers.hpp"
#include "core/job/process.hpp"

namespace scr::job {
namespace {

bool is_set(const JobSettings& job, std::string_view parameter) {
  return job.config().origin(parameter).source != config::Source::kDefault;
}

// Ours first, then the user's, without the ones that are there already.
std::string prepended(const Words& ours, const std::string& users) {
  std::string result;
  for (const std::string& one : ours) result += (result.empty() ? "" : ":") + one;
  if (users.empty() || users == result || users.starts_with(result + ":")) {
    return users.empty() ? result : users;
  }
  return result + ":" + users;
}

}  // namespace

std::map<std::string, std::string> application_environment(const JobSettings& job,
                                                           const EnvironmentRequest& request) {
  const Installation& parts = find_installation();
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : job.environment().values()) {
    if (name.starts_with("SCR_")) variables[name] = value;
  }
  const auto users = [&](std::string_view name) {
    return job.environment().get(name).value_or("");
  };
  Words preload = {parts.mpi_preload()};
  const bool legacy = (request.hdf5 == Hdf5Way::kLegacy || request.hdf5 == Hdf5Way::kUnknown) &&
                      job.fs().info(parts.legacy_preload(), /*follow=*/true).ok();
  if (legacy) preload.push_back(parts.legacy_preload());
  variables["LD_PRELOAD"] = prepended(preload, users("LD_PRELOAD"));
  // HDF5 fails in every call if it cannot find the driver that is named.
  const bool served = legacy || !parts.plugins.empty();
  const bool asked = request.hdf5 == Hdf5Way::kPlugin || request.hdf5 == Hdf5Way::kLegacy;
  if (asked || (request.hdf5 == Hdf5Way::kUnknown && served)) variables["HDF5_DRIVER"] = "scr";
  if (request.hdf5 != Hdf5Way::kNone && !parts.plugins.empty()) {
    variables["HDF5_PLUGIN_PATH"] = prepended({parts.plugins}, users("HDF5_PLUGIN_PATH"));
  }
  variables["SCR_PREFIX"] = job.prefix();
  variables["SCR_JOB_ID"] = job.info().job_id;
  variables["SCR_NODELIST"] = compress_hosts(request.nodes);
  variables[std::string(kRunIdVariable)] = request.run_id;
  if (!is_set(job, "SCR_HALT_EXIT")) variables["SCR_HALT_EXIT"] = "1";
  if (request.log) variables["SCR_LOG_ENABLE"] = "1";
  // It was for the first run; what that has written since is what the next goes on from.
  if (request.again && variables.contains("SCR_CURRENT")) variables["SCR_CURRENT"] = "";
  // An empty variable does not take back what a file says.
  if (request.again) variables[std::string(kRunAgainVariable)] = "1";
  // One that this was started by may have set it.
  if (request.terminal || variables.contains(kTerminalVariable)) {
    variables[kTerminalVariable] = request.terminal ? "1" : "";
  }
  if (const auto end = job_end_time(job.config(), job.environment())) {
    variables["SCR_END_TIME"] = fmt::format("{}", *end);
  }
  return variables;
}

}  // namespace scr::job
