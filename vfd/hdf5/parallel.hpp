// Parallel files: a property list with the driver scr and a communicator (H5Pset_mpi_params).
//
// HDF5's own driver mpio serves them. It alone can read the library's collective datatypes, and
// functions such as H5Fset_mpi_atomicity expect its structure. What makes its files those of h5scr
// is the MPI-IO layer beneath, libscr_mpiio, which routes them as those of any program.
#pragma once

#include "vfd/hdf5/hdf5_library.hpp"

namespace scr::vfd {

// Whether the list has a communicator. Collective over it if so.
bool is_parallel(Hdf5Library& library, hid_t fapl_id);

// As the callbacks of the class, for such lists. Collective.
H5FD_t* open_parallel(Hdf5Library& library, const char* name, unsigned flags, hid_t fapl_id,
                      haddr_t largest);
herr_t remove_parallel(Hdf5Library& library, const char* name, hid_t fapl_id);

// To be called at the start of `query`. HDF5 queries a file as soon as it has entered the driver of
// the list into it, and before anything else: if it is one of open_parallel(), it becomes a file of
// mpio here, and true is returned with what that says.
bool hand_over(const H5FD_t* file, unsigned long* flags, herr_t& result);

}  // namespace scr::vfd
