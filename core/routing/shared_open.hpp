// Opening a file with all processes of a communicator (MPI_File_open).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/base/filesystem.hpp"
#include "core/mpi/communicator.hpp"
#include "core/shared_file/shared_file.hpp"

namespace scr::routing {

struct SharedOpen {
  std::string name;
  bool read = true;
  bool write = false;
  bool create = false;
  bool exclusive = false;
  bool delete_on_close = false;
  std::map<std::string, std::string> hints;  // those named scr_*, from all sources
  // What a process writes is seen by the others when the call returns, and not only before it
  // communicates (hint scr_order).
  bool is_strict() const;
};

// Collective over `comm`, a private copy of the program's communicator that the file keeps. No
// file: h5scr has nothing to do with it, and MPI opens it. An error is the same on all processes.
Result<std::unique_ptr<shared_file::SharedFile>> open_shared(
    const std::shared_ptr<Communicator>& comm, const SharedOpen& how);

// Before MPI opens the file of this name: an error if that is a marker, whose bytes MPI would give
// for the data, and would overwrite. Not collective.
Status refuse_marker(FileSystem& fs, const std::string& name);

// The hints that are in force for a file that was opened so, of those that h5scr knows: redundancy
// is that of the run, whatever the program wished.
std::map<std::string, std::string> hints_in_force(const SharedOpen& how);

}  // namespace scr::routing
