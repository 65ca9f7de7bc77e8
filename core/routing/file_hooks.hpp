// Joins the session of the process with the preload, if there is one (file_hooks.h).
#pragma once

namespace scr::routing {

void register_file_hooks();
// A preload of h5scr is in this process.
bool preload_is_here();

}  // namespace scr::routing
