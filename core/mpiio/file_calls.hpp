// The function table of file_calls.h.
#pragma once

#include "core/mpi/datatype.hpp"
#include "core/mpiio/file_calls.h"
#include "core/routing/shared_open.hpp"

namespace scr::mpiio {

// What the table needs of the one that knows the program's collective points.
struct CollectivePoints {
  // Whether all processes of this communicator, which has no remote group, are of the program that
  // h5scr serves; the same on all of them, and none waits for another.
  bool (*serves)(MPI_Comm comm);
  // Of a communicator that it does not serve: which processes are of this one's program, all of
  // which have this layer; others may not have it. None waits for another.
  struct Kin {
    bool all = false;    // all are
    bool first = false;  // this one is the first of them
  };
  Kin (*kin)(MPI_Comm comm);
  // All processes of such a communicator are about to open a file: it may be the first that h5scr
  // is needed for.
  void (*opens)(MPI_Comm comm, const routing::SharedOpen& how);
  // Whether the close of a file that is opened on this communicator is one.
  bool (*seals)(MPI_Comm comm);
  // After such a close.
  void (*reached)(MPI_Comm file);
};

const scr_file_calls& file_calls(const CollectivePoints& points);

}  // namespace scr::mpiio
