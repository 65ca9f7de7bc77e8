#include "core/job/job_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/job/batch_system.hpp"

namespace scr::job {

Result<JobSettings> JobSettings::load(FileSystem& fs, const JobOverrides& overrides) {
  config::Environment environment = config::Environment::current();
  if (overrides.prefix) environment.set("SCR_PREFIX", *overrides.prefix);
  if (overrides.user) environment.set("SCR_USER_NAME", *overrides.user);
  if (overrides.job_id) environment.set("SCR_JOB_ID", *overrides.job_id);
  SCR_ASSIGN_OR_RETURN(config::ConfigSources sources, config::read_files(fs, environment));
  SCR_ASSIGN_OR_RETURN(config::Config config, config::Config::build(std::move(sources)));
  SCR_ASSIGN_OR_RETURN(JobInfo info, JobInfo::detect(config, environment));
  return JobSettings(fs, std::move(environment), std::move(config), std::move(info));
}

std::string JobSettings::halt_file() const {
  return prefix_scr() + "/" + std::string(kHaltFileName);
}

JobLimits JobSettings::limits() const {
  return job_limits(info_.job_id, job_end_time(config_, environment_).value_or(0),
                    config_.get_double("SCR_HALT_SECONDS"));
}

std::string JobSettings::control_directory() const {
  return fmt::format("{}/{}", config_.get_path("SCR_CNTL_BASE"), info_.private_path());
}

std::vector<const config::StoreDescriptor*> JobSettings::stores() const {
  std::vector<const config::StoreDescriptor*> result;
  for (const config::StoreDescriptor& store : config_.stores()) {
    const bool known = std::any_of(result.begin(), result.end(), [&](const auto* other) {
      return other->directory == store.directory;
    });
    if (store.enabled && !known) result.push_back(&store);
  }
  return result;
}

std::vector<std::string> JobSettings::cache_directories() const {
  std::vector<std::string> result;
  for (const config::StoreDescriptor* store : stores()) {
    result.push_back(fmt::format("{}/{}", store->directory, info_.private_path()));
  }
  return result;
}

EventLog JobSettings::open_log(std::string run_id, bool always) const {
  EventLogOptions options;
  options.enable = always || config_.get_bool("SCR_LOG_ENABLE");
  options.text = config_.get_bool("SCR_LOG_TXT_ENABLE");
  options.syslog = config_.get_bool("SCR_LOG_SYSLOG_ENABLE");
  options.json = config_.get_bool("SCR_LOG_JSON_ENABLE");
  options.directory = prefix_scr();
  options.user = info_.user;
  options.job_id = info_.job_id;
  options.job_name = info_.job_name;
  options.run_id = std::move(run_id);
  return EventLog::open(*fs_, std::move(options));
}

}  // namespace scr::job
