// What scr_run would do, in words: what is routed, where it is kept, which losses it survives.
#pragma once

#include <string>

#include "core/job/run_loop.hpp"

namespace scr::job {

std::string describe_plan(const JobSettings& job, RunLoop& loop);

}  // namespace scr::job
