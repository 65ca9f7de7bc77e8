// A SharedFile over a plain file that every process of the communicator has opened by itself: for a
// file of one process, and for one that all can reach and nobody protects. A write is seen by all
// at once.
#pragma once

#include <functional>
#include <memory>

#include "core/base/filesystem.hpp"
#include "core/mpi/communicator.hpp"
#include "core/shared_file/shared_file.hpp"

namespace scr::shared_file {

struct FileBackedEvents {
  std::function<void()> closed;    // this process has closed its file
  std::function<Status()> synced;  // it has synced it; a failure is one of the sync
};

// Collective: `mine` is this process's open file, or why it could not be opened; if that failed
// anywhere, all get the error. Several processes must be on one node (their shared pointer and lock
// are).
Result<std::unique_ptr<SharedFile>> open_file_backed(std::shared_ptr<Communicator> comm,
                                                     Result<std::unique_ptr<File>> mine,
                                                     FileBackedEvents events = {});

}  // namespace scr::shared_file
