// Where the parts of h5scr are that a launched program gets, seen from the library that runs now:
// in a build directory or where it was installed to.
#pragma once

#include <string>

namespace scr::job {

struct Installation {
  std::string bin = {};      // commands
  std::string lib = {};      // libscr.so, and what is preloaded
  std::string plugins = {};  // folder of the HDF5 plug-in; empty if it was not built

  std::string mpi_preload() const { return lib + "/libscr_mpiio.so"; }
  std::string legacy_preload() const { return lib + "/libscr_hdf5_legacy.so"; }
  std::string plugin() const { return plugins + "/libh5fd_scr.so"; }
};

const Installation& find_installation();

}  // namespace scr::job
