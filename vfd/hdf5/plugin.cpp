// What HDF5 looks for when it opens a file of its plug-in path. Every HDF5 program does so with
// every file there, whatever it searches: nothing happens here but the check of the version.
#include <H5PLextern.h>

#include "vfd/hdf5/driver.hpp"

extern "C" H5PL_type_t H5PLget_plugin_type() { return H5PL_TYPE_VFD; }

// The driver class, or null if HDF5 is not of the series that the plug-in is compiled for: HDF5
// does not compare versions itself.
extern "C" const void* H5PLget_plugin_info() {
  using scr::vfd::Hdf5Library;
  return Hdf5Library::of_caller(__builtin_return_address(0)) != nullptr ? &scr::vfd::kDriverClass
                                                                        : nullptr;
}
