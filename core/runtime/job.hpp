// Who runs: user, job, node. From the configuration, then the batch system's variables, then the
// system.
#pragma once

#include <string>

#include "core/base/config.hpp"

namespace scr {

struct JobInfo {
  std::string user;
  std::string job_id;
  std::string job_name;
  std::string cluster;
  std::string prefix;  // absolute, normalised

  // `environment` is that of rank 0. Without a batch system the job id is made from the prefix
  // directory, so that a restart in the same directory finds its cache, and two programs with
  // different directories do not share one. Every part is safe to use as one component of a path.
  static Result<JobInfo> detect(const config::Config& config,
                                const config::Environment& environment);

  Hash to_hash() const;
  static Result<JobInfo> from_hash(const Hash& hash);

  // "<user>/scr.<jobid>": the private part of every control and cache directory.
  std::string private_path() const { return user + "/scr." + job_id; }
};

}  // namespace scr
