// Which checkpoint the next run of a program begins with, as scr_run must know it before the
// program starts: for --restart-cmd. The rule is that of the runtime (docs/after-a-failure.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/job/job_settings.hpp"

namespace scr::job {

struct CachedCheckpoint {
  int id = 0;  // 0: there is none
  std::string name = {};
  std::int64_t created = 0;  // microseconds since the epoch; 0: not known
};

// The newest one of what `scr_flush_file --list-ckpt --json` of a node printed. What is not such a
// list has none.
CachedCheckpoint newest_checkpoint_of_list(std::string_view json);

// The name of the checkpoint to begin with, empty if there is none; `cached` is the newest one in
// the cache of any node. SCR_CURRENT counts for the first run only.
Result<std::string> restart_name(const JobSettings& job, const CachedCheckpoint& cached,
                                 bool first_run);

}  // namespace scr::job
