// What `scr_index` changes in an index, and the check of checksums without HDF5.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flush/index.hpp"

namespace scr::tools {

// Takes the dataset directory `directory` (below .scr) into the index; returns the dataset's name.
// It has a summary, or a scavenge has brought there all that is needed to make one: files of ranks
// that are missing are rebuilt then. kUnrecoverable if too much is missing; nothing changes.
Result<std::string> add_dataset(FileSystem& fs, const std::string& prefix,
                                const std::string& directory);

struct BuiltIndex {
  int added = 0;
  std::string set_aside;              // where an index that was damaged is now; empty if it was not
  std::vector<std::string> left_out;  // why, one line each
};
// Finishes flushes that were cut short, and adds every dataset directory that has a summary. An
// index that is damaged is set aside first; what only it knew (failed fetches, what was dropped) is
// not known any more.
Result<BuiltIndex> build_index(FileSystem& fs, const std::string& prefix);

Status set_current(FileSystem& fs, const std::string& prefix, const std::string& name);
// The current dataset; kNotFound if there is none.
Result<flush::IndexEntry> current_dataset(FileSystem& fs, const std::string& prefix);

// What a restart begins with once a dataset may be fetched again.
struct RestartAfterClear {
  std::string cleared = {};  // the dataset's name
  std::string restart = {};  // of the checkpoint that is taken; empty if there is none
  // The one that was cleared is a newer checkpoint, and is not taken: a run that fell back has made
  // an older one current meanwhile.
  bool passes_over = false;
};
Result<RestartAfterClear> clear_failed(FileSystem& fs, const std::string& prefix,
                                       const std::string& name);
// Its files stay.
Status drop_dataset(FileSystem& fs, const std::string& prefix, const std::string& name);
Status delete_dataset_and_files(FileSystem& fs, const std::string& prefix, const std::string& name);

}  // namespace scr::tools
