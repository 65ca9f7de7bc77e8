#include "core/runtime/job.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr {

namespace {

std::string first_set(const config::Environment& environment,
                      std::span<const std::string_view> names) {
  for (std::string_view name : names) {
    if (auto value = environment.get(name); value && !value->empty()) return *value;
  }
  return {};
}

std::string system_user_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found) {
    return found->pw_name;
  }
  return "uid" + std::to_string(geteuid());
}

// Job ids and user names become parts of paths: what is not a letter, digit or one of "._-" is
// replaced.
std::string as_component(std::string_view text) {
  std::string result(text);
  std::replace_if(
      result.begin(), result.end(),
      [](char c) {
        return !(std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' ||
                 c == '-');
      },
      '_');
  if (result == "." || result == "..") result = "_";
  return result;
}

std::string prefix_job_id(const std::string& prefix) {
  return "prefix-" + crc32_to_text(crc32(std::as_bytes(std::span(prefix)))).substr(2);
}

}  // namespace

Result<JobInfo> JobInfo::detect(const config::Config& config,
                                const config::Environment& environment) {
  static constexpr std::array<std::string_view, 6> kJobIds = {
      "SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "COBALT_JOBID"};
  static constexpr std::array<std::string_view, 4> kJobNames = {"SLURM_JOB_NAME", "PBS_JOBNAME",
                                                                "LSB_JOBNAME", "FLUX_JOB_NAME"};
  static constexpr std::array<std::string_view, 2> kClusters = {"SLURM_CLUSTER_NAME",
                                                                "LMOD_SYSTEM_NAME"};
  auto choose = [&](std::string_view parameter, std::string fallback) {
    std::string value = config.get_string(parameter);
    return value.empty() ? std::move(fallback) : value;
  };
  JobInfo job;
  job.prefix = normalize(config.get_path("SCR_PREFIX"), environment.working_directory());
  job.user = as_component(choose("SCR_USER_NAME", system_user_name()));
  job.job_id = choose("SCR_JOB_ID", first_set(environment, kJobIds));
  job.job_id = as_component(job.job_id.empty() ? prefix_job_id(job.prefix) : job.job_id);
  job.job_name = choose("SCR_JOB_NAME", first_set(environment, kJobNames));
  job.cluster = choose("SCR_CLUSTER_NAME", first_set(environment, kClusters));
  if (job.user.empty()) return invalid_argument("cannot tell the user's name; set SCR_USER_NAME");
  return job;
}

Hash JobInfo::to_hash() const {
  Hash hash;
  hash.set_value("USER", user);
  hash.set_value("JOBID", job_id);
  hash.set_value("JOBNAME", job_name);
  hash.set_value("CLUSTER", cluster);
  hash.set_value("PREFIX", prefix);
  return hash;
}

Result<JobInfo> JobInfo::from_hash(const Hash& hash) {
  JobInfo job;
  SCR_ASSIGN_OR_RETURN(job.user, hash.require_value("USER"));
  SCR_ASSIGN_OR_RETURN(job.job_id, hash.require_value("JOBID"));
  SCR_ASSIGN_OR_RETURN(job.job_name, hash.require_value("JOBNAME"));
  SCR_ASSIGN_OR_RETURN(job.cluster, hash.require_value("CLUSTER"));
  SCR_ASSIGN_OR_RETURN(job.prefix, hash.require_value("PREFIX"));
  return job;
}

}  // namespace scr
