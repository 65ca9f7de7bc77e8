// Hints of h5scr, those named scr_*: in the MPI_Info of an open, and for programs that give none in
// the file that the variable ROMIO_HINTS names, by lines "key value" (ROMIO's own form).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/mpi/communicator.hpp"
#include "core/mpi/datatype.hpp"

namespace scr::mpiio {

using Hints = std::map<std::string, std::string>;

// All of a file in ROMIO's form, also those of others. Lines that are not "key value" are skipped,
// as ROMIO does.
Hints parse_hints(std::string_view text);

// Those named scr_* of an info object; one that nobody knows, or with an impossible value, is told
// once.
Hints hints_of(MPI_Info info);

// Tells, once for each value, of hints that a program has given in vain.
void warn_if_not_in_force(const Hints& wanted, const Hints& in_force);

// The hints for an open, which are those of rank 0: its info object, then the file. Collective.
Hints collect_hints(Communicator& comm, MPI_Info info);

}  // namespace scr::mpiio
