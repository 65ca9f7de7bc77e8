// Work with HDF5 in a process of its own: a damaged file may crash libhdf5 or keep it busy for
// ever, and neither may end the command. A child process loads libscr_hdf5_reader and does one
// piece of work after the other; when it dies, the piece it was at is told as failed, and the next
// child goes on with the next one.
//
// Call it while the process has no other threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/status.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::tools {

// What the child can do in a piece of work.
class WorkerChannel {
 public:
  virtual ~WorkerChannel() = default;
  virtual void send(const nlohmann::json& message) = 0;
  // To be called often in long work; one that is silent for too long is killed.
  virtual void alive() = 0;
};

struct Hdf5Work {
  std::size_t count = 0;  // pieces
  // In the child, which has a copy of all that this process had.
  std::function<void(std::size_t piece, vfd::Hdf5Reader& reader, WorkerChannel& channel)> run = {};
  // In this process, in order: the messages of a piece, then how it ended, once for each piece.
  std::function<void(std::size_t piece, nlohmann::json message)> received = {};
  std::function<void(std::size_t piece, const Status& how)> finished = {};
  std::chrono::seconds patience{300};
  std::string library = {};  // empty: libscr_hdf5_reader.so beside libscr_base.so
};

// Fails only if HDF5 cannot be used at all; nothing was finished then.
Status run_hdf5_work(const Hdf5Work& work);

}  // namespace scr::tools
