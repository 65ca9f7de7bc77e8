// Joins the session of the process with the preload, if there is one (file_hooks.h).
#pragma once

namespace scr::routing {

void register_file_hooks();
// The preload that hooks MPI is in this process.
bool mpi_layer_is_here();

}  // namespace scr::routing
