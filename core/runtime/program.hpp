// Which program a run is of. Datasets of programs that do not call SCR_* belong to the program that
// wrote them: another one in the same job (a pre-processor, a viewer) leaves the cache alone.
#pragma once

#include "core/runtime/context.hpp"

namespace scr {

// The base name of the executable, and for an interpreter that of the script.
std::string program_name(std::string_view executable, std::span<const std::string> arguments);
// Of this process.
std::string program_name();

// Collective: fails on all ranks, with a message for the user, if the cache holds datasets of
// another program; else the cache is this program's from here on. The name is in the file
// `program.scrinfo` of every node's control directory.
Status claim_cache(Context& context, bool cache_is_empty);

}  // namespace scr
