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

// Collective: `mine` is this process's open file, or why it could not be opened; if that failed
// anywhere, all get the error. Several processes must be on one node (their shared pointer and lock
// are). `closed` is called when this process has closed its file.
Result<std::unique_ptr<SharedFile>> open_file_backed(std::shared_ptr<Communicator> comm,
                                                     Result<std::unique_ptr<File>> mine,
                                                     std::function<void()> closed = {});

}  // namespace scr::shared_file
