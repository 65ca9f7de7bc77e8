// How a collective step ends on all ranks alike.
#pragma once

#include <string_view>

#include "core/mpi/communicator.hpp"

namespace scr::flush {

// Collective: ok if every rank is. Else a rank that failed keeps its own status; the others get the
// code and message of the first that failed, after "<what> failed on rank <r>: ".
Status agree_all(Communicator& comm, const Status& mine, std::string_view what);

}  // namespace scr::flush
