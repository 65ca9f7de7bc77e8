// InProcessWorld: many ranks as threads of one process, so that tests of communicating code need
// neither MPI nor a launcher.
//
// It is strict where MPI leaves room: a message above kEagerLimit waits in send() until it is
// received, so that code which only works by MPI's buffering fails here; all ranks must call the
// same collective function with the same root and lengths; a message must have the length its
// receiver expects. Such a mistake, a rank that ends with an exception, and a state in which every
// rank that still runs waits, end the run: every waiting rank gets a std::runtime_error that says
// what it waits for and why that will not come. Nothing hangs.
//
// A rank's communicators may be used by that rank's thread only: helper threads would be unknown to
// the deadlock detection.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "core/mpi/communicator.hpp"

namespace scr {

class InProcessWorld {
 public:
  static constexpr std::size_t kEagerLimit = 64 * 1024;
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::seconds(120);

  // Calls `body` once per rank, each in a thread of its own, and returns when all have returned.
  // Rethrows the first exception of a body; one that is the cause comes before those that follow
  // from it in waiting ranks. `timeout` bounds a single wait, for ranks that run but never answer.
  static void run(int ranks, const std::function<void(Communicator&)>& body,
                  std::chrono::milliseconds timeout = kDefaultTimeout);
};

}  // namespace scr
