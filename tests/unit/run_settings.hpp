// What SCR_Config is told in tests of the runtime: a job of its own below one directory.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/temporary_directory.hpp"

namespace scr::testing {

inline std::vector<std::string> run_settings(const TemporaryDirectory& root,
                                             const std::string& prefix,
                                             const std::vector<std::string>& more) {
  std::vector<std::string> all = {"SCR_PREFIX=" + prefix,
                                  "SCR_CNTL_BASE=" + (root / "control"),
                                  "SCR_CACHE_BASE=" + (root / "cache"),
                                  "SCR_COPY_TYPE=SINGLE",
                                  "SCR_JOB_ID=7",
                                  "SCR_USER_NAME=someone",
                                  "SCR_FLUSH=0"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace scr::testing
