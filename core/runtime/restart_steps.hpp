// The two steps in which a cached dataset is restored for the same number of ranks: its files are
// brought to where their ranks now run (restart_distribute.cpp), then each redundancy set rebuilds
// what is missing (restart_rebuild.cpp). Only restart.cpp takes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/runtime/restart.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

// All that is known of one dataset while it is restored.
struct Restoration {
  Context& context;
  Cache& cache;
  int id = 0;
  DatasetDescriptor dataset;
  std::optional<StoredDescriptor> descriptor;   // of this rank
  std::optional<std::string> directory;         // of this rank's files
  std::unique_ptr<Directory> opened = nullptr;  // the same, once it is certain to stay
  // The first failure on this process to reach data that may be whole all the same.
  Status unreached = {};
  // The node that had the files of this rank, if they are lost and their set could not be rebuilt.
  std::optional<std::string> lost_node = {};
  std::optional<std::string> rebuilt_node = {};  // that had what this rank has got back
  std::uint64_t failed_sets = 0;                 // that this rank is the first member of
  // Of several datasets with this id, none can be restored: all of them stay as they are.
  Status not_restorable = {};

  void note(const Status& status) {
    if (unreached.ok() && status.may_hide_sound_data()) unreached = status;
  }

  // It is known how this rank's files are protected, and so where they are to be: makes the
  // directory there.
  Status protected_by(StoredDescriptor stored);
};

// Where files of this rank would have to be to be used without moving them: on its node, or on a
// store that its nodes share.
std::string place_of(const Context& context, const std::string& store);

// Collective. Brings the files of every rank to the process that has this rank now. Incomplete
// files are not moved: redundancy rebuilds them in place.
Status distribute(Restoration& r);

// Collective. What is missing or, with `verify`, damaged; the entries of the filemaps are whole
// afterwards.
Status rebuild(Restoration& r, bool verify, CachedDataset& result);

}  // namespace scr
