// What h5scr knows of the contents of HDF5 files: where they say that somebody writes them.
//
// HDF5 sets a flag in the superblock of the newest format (version 3) while a file is open for
// writing, and refuses to open a file that has it. A copy that was made right after a flush is
// whole and nobody writes it, so the flag is wrong there; HDF5's command h5clear does the same.
#pragma once

#include "core/base/filesystem.hpp"

namespace scr::routing {

// Takes the flag away. Ok without effect on older formats, on files that are not HDF5's, and on a
// superblock whose checksum is wrong. Not thread-safe on one file.
Status clear_open_flag(File& file);

}  // namespace scr::routing
