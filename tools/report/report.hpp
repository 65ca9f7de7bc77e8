// The report of a job: one HTML page that needs nothing else, or JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/report/interval.hpp"
#include "tools/report/run_log.hpp"

namespace scr::tools {

std::string report_html(const RunLog& log, const IntervalInput& input);
nlohmann::ordered_json report_json(const RunLog& log, const IntervalInput& input);

}  // namespace scr::tools
