// Prefix reader: opens a file of a flushed dataset by its application name, also if only containers
// hold it, without extracting anything. For the HDF5 driver, tools and programs without a
// configuration.
//
// All functions are thread-safe. What was read of index and rank2file, and which files were
// verified, is remembered per process: opening a thousand files of one dataset reads its metadata
// once. What was remembered is dropped when the index changes on disk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "flush/rank2file.hpp"

namespace scr::flush {

// The prefix directory that a file belongs to: the nearest directory, from that of the file
// upwards, with a `.scr` that may be trusted: a real directory, owned by this user or by the owner
// of the file (of its directory if there is no such file), which nobody else can write to. (A
// group that may write to the prefix directory itself may write to its .scr, too.) kNotFound if
// there is none, kPermissionDenied if there are only others; the message names the nearest and
// what is wrong with it. The path must be absolute and normalised.
Result<std::string> find_prefix(FileSystem& fs, const std::string& absolute_path);

struct StoredLocation {
  DatasetDescriptor dataset;
  std::string directory;  // of the dataset, below .scr
  int rank = 0;           // that wrote the file
  StoredFile file;
};

// Where a file is, by its path relative to the prefix directory: in the newest dataset of the index
// that is complete, has no failed fetch and has such a file; or in the dataset of that id, whatever
// its state. kNotFound if no dataset has it. A dataset whose metadata is damaged is passed over
// with a warning; if no other has the file, that damage (kCorrupt) is what is returned.
Result<StoredLocation> locate(FileSystem& fs, const std::string& prefix,
                              const std::string& relative, std::optional<int> dataset_id = {});

enum class Verify {
  kNone,
  kWhole,  // all bytes are read and compared with their checksums before the open returns
};

// Opens it for reading. A plain file is the file itself; one in containers is a view over them,
// which refuses changes (kPermissionDenied), has no descriptor (-1), and whose info() has a device
// and inode of its own, the same at each open. kCorrupt names container and segment, and says
// whether `scr_index --repair` can help.
Result<std::unique_ptr<File>> open_stored(FileSystem& fs, const std::string& prefix,
                                          const StoredLocation& location, Verify verify);

}  // namespace scr::flush
