// A read-only HDF5 driver over a FileSource. Unlike the driver "scr" (vfd/hdf5) it opens the file
// of one dataset that the command has chosen, not the newest of that name, needs no configuration
// and can reach nothing else.
#pragma once

#include "vfd/reader/handle.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::vfd {

// Opens a file for reading; closing it closes all ids of objects in it. Invalid on failure, with
// the reason on HDF5's error stack. The source must outlive the file.
Handle open_hdf5(FileSource& source, const std::string& name);

}  // namespace scr::vfd
