// Several datasets with one id in the cache: a node that was away for some runs may bring files of
// an id that was written anew since. Before one of them takes the place of the others it must be
// known that it can be restored.
#pragma once

#include "core/runtime/cache.hpp"
#include "core/runtime/context.hpp"

namespace scr {

// Collective, the same on all ranks: whether what is left of the dataset that was created then is
// enough to restore it. All its files are read and nothing is changed. kUnrecoverable if too much
// is lost or damaged; an error that may hide sound data if some of it only could not be read.
Status check_restorable(Context& context, const Cache& cache, int dataset, std::int64_t created);

}  // namespace scr
