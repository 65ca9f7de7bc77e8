// What every command needs to know of the job it works for: configuration, ids, directories.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/halt_file.hpp"
#include "core/runtime/event_log.hpp"
#include "core/runtime/job.hpp"

namespace scr::job {

struct JobOverrides {
  std::optional<std::string> prefix = {};
  std::optional<std::string> user = {};
  std::optional<std::string> job_id = {};
};

class JobSettings {
 public:
  // From the environment and the configuration files, as a run of the job would read them; the
  // overrides are put into the environment first.
  static Result<JobSettings> load(FileSystem& fs, const JobOverrides& overrides = {});

  FileSystem& fs() const { return *fs_; }
  const config::Environment& environment() const { return environment_; }
  const config::Config& config() const { return config_; }
  const JobInfo& info() const { return info_; }

  const std::string& prefix() const { return info_.prefix; }
  std::string prefix_scr() const { return info_.prefix + "/.scr"; }
  std::string halt_file() const;
  // Asks the batch system, if SCR_END_TIME is not set.
  JobLimits limits() const;
  // `<base>/<user>/scr.<job id>`
  std::string control_directory() const;
  // Of every enabled store, each once.
  std::vector<std::string> cache_directories() const;
  std::vector<const config::StoreDescriptor*> stores() const;

  // The job's event log, as SCR_LOG_* say; with `always` also without SCR_LOG_ENABLE. `run_id`
  // tells who writes.
  EventLog open_log(std::string run_id, bool always = false) const;

 private:
  JobSettings(FileSystem& fs, config::Environment environment, config::Config config, JobInfo info)
      : fs_(&fs),
        environment_(std::move(environment)),
        config_(std::move(config)),
        info_(std::move(info)) {}
  FileSystem* fs_;
  config::Environment environment_;
  config::Config config_;
  JobInfo info_;
};

}  // namespace scr::job
