// What the event log says of the restart after a drill (scr_run --drill).
#pragma once

#include <string>
#include <string_view>

namespace scr::job {

// "rebuild succeeded: ...; fetch FAILED: ..." after the last loss that was a drill; empty if there
// was neither. `log` is that of log.jsonl, of which any line may be damaged.
std::string drill_story(std::string_view log);

}  // namespace scr::job
