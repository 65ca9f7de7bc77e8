// Restart from the cache: what SCR_Init does with the datasets that earlier runs left on the nodes.
//
// Newest first, each dataset is brought to where its ranks now run, and what is missing or damaged
// is rebuilt with the redundancy descriptor that is stored with it.
// Only the checkpoint that the run will restart from is read in full. Nothing is deleted but
// datasets that were never complete: one that cannot be rebuilt stays until a newer one is
// complete; and an older dataset with the id of one that is found to be restorable.
#pragma once

#include <optional>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/runtime/cache.hpp"
#include "core/runtime/context.hpp"

namespace scr {

struct CachedDataset {
  DatasetDescriptor dataset;
  bool usable = false;    // every rank has its files, verified or with the right sizes
  bool verified = false;  // read in full
  std::uint64_t rebuilt_ranks = 0;
  std::uint64_t rebuilt_bytes = 0;
  std::vector<std::string> lost_nodes = {};  // that had what was rebuilt; on rank 0
  std::string store = {};                    // the directory of its store; the same on all ranks
};

// Collective. Ascending by id. Fails on all ranks if the cache holds a file-per-process dataset of
// another number of ranks, without touching it; also if data that may be sound cannot be read
// (an I/O error), redundancy cannot do without it, and no newer checkpoint takes its place.
Result<std::vector<CachedDataset>> restore_cache(Context& context, Cache& cache);

// Collective: reads a dataset in full, repairs what is damaged; it is not `usable` afterwards if it
// is lost. Fails only if it could not be read but may be sound. For a checkpoint that was not
// chosen first.
Status verify_cached_dataset(Context& context, Cache& cache, CachedDataset& dataset);

}  // namespace scr
