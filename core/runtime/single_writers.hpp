// Whether every file of a dataset has one rank that wrote it.
#pragma once

#include <span>

#include "core/base/file_meta.hpp"
#include "core/mpi/communicator.hpp"

namespace scr {

// Collective. kInvalidArgument on all ranks if two of them have a file of the same name, each in
// the cache of its node: both would be flushed to that name, and one of them would be lost. Costs
// eight bytes a file unless there is such a name.
Status check_single_writers(Communicator& world, std::span<const FileMeta> mine);

}  // namespace scr
