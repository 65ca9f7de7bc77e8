// From a Status to the error classes of MPI, and to the error handler of a file.
#pragma once

#include "core/base/status.hpp"
#include "core/mpi/datatype.hpp"

namespace scr::mpiio {

// MPI_ERR_NO_SUCH_FILE, ...; MPI_SUCCESS for ok.
int error_class(const Status& status);

// Logs the failure, which MPI's error classes cannot tell, and returns its class.
int report(const Status& status);

// Calls the error handler of `file` (MPI_FILE_NULL: that of failed opens), which may end the
// program, if `code` is not MPI_SUCCESS. Returns the code.
int raise(MPI_File file, int code);

}  // namespace scr::mpiio
