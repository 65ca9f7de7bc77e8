// Joins the session of the process with the preload, if there is one (file_hooks.h).
#pragma once

namespace scr::routing {

// False: there is none.
bool register_file_hooks();
// The preload that hooks MPI is in this process.
bool mpi_layer_is_here();
// The preload for HDF5 1.10 and 1.12 is in this process.
bool legacy_layer_is_here();

}  // namespace scr::routing
