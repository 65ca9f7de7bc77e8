// Which options of launchers are followed by values: what it takes to find the program in their
// command lines. For launch_command.cpp.
#pragma once

#include <optional>
#include <string_view>

#include "core/job/launch_command.hpp"

namespace scr::job {

// How many words after this one belong to the option; nothing if the option is not known.
std::optional<std::size_t> values_of_option(LaunchCommand::Kind kind, std::string_view word);

}  // namespace scr::job
