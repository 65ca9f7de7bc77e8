// The driver class "scr": what HDF5 calls for each file. See driver.cpp.
#pragma once

#include "vfd/hdf5/hdf5_library.hpp"

namespace scr::vfd {

extern const H5FD_class_t kDriverClass;

}  // namespace scr::vfd
