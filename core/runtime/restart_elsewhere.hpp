// Restart on another number of processes: datasets whose files are all shared ones
// (core/shared_file) do not belong to ranks, so any process may have the logs of any rank that
// wrote them.
#pragma once

#include "core/runtime/restart.hpp"

namespace scr {

// Collective: whether every file of the dataset, as far as it is left, is the log of a shared file.
bool has_only_shared_files(Context& context, const Cache& cache, int dataset);

// Collective, like the restart with the same number of ranks: what is lost is rebuilt, by processes
// that take the lost ranks' places. Files stay on the node where they are.
Status restore_elsewhere(Context& context, Cache& cache, const DatasetDescriptor& dataset,
                         bool verify, CachedDataset& result);

// The entries of this process in a dataset: that of its rank; or those of all ranks it has taken
// the place of, if the dataset was written by another number of processes.
std::vector<const FilemapEntry*> own_entries(const Context& context, const Cache& cache,
                                             const DatasetDescriptor& dataset);

}  // namespace scr
