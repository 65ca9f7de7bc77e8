// What scr_run would do, in words: what is routed, where it is kept, which losses it survives.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/job/run_loop.hpp"

namespace scr::job {

std::string describe_plan(const JobSettings& job, RunLoop& loop);
// The same for scripts.
nlohmann::ordered_json plan_json(const JobSettings& job, RunLoop& loop);

}  // namespace scr::job
