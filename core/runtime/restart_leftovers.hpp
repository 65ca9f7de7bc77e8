// What killed runs leave besides datasets: files under temporary names in the cache, and datasets
// that went past the cache and were cut.
#pragma once

#include <set>
#include <string>

#include "core/runtime/cache.hpp"
#include "core/runtime/context.hpp"

namespace scr {

// Not collective. Removes what a move or rebuild of this rank's files left. Before any process
// moves or rebuilds a file.
void remove_leftovers(Context& context, const Cache& cache, int rank, int id);

// Of a dataset that went past the cache.
struct LeftInPrefix {
  std::set<std::string> directories;  // of the prefix directory, that this process's ranks wrote to
  bool complete = true;               // every rank's files are listed by some process
};

// Collective. Before the dataset's entries leave the filemap.
LeftInPrefix left_in_prefix(Context& context, const Cache& cache, const DatasetDescriptor& dataset);

// Collective. Files of ranks whose node is lost lie beside those of others: one process looks
// there, and only if there can be some. What cannot be removed is in nobody's way.
void remove_orphans(Context& context, const DatasetDescriptor& dataset, const LeftInPrefix& left);

// Not collective, before a process that works alone deletes what its filemap lists of a dataset:
// one that went past the cache may have been committed when its run was killed. Then its files are
// not the cache's any more; its flush is ended. (A job of several processes has ended all such
// flushes by then.)
Status end_committed_bypass(Context& context, const Cache& cache, int dataset);

}  // namespace scr
