// Deletes a dataset from the prefix directory so that a crash at any instant leaves it whole, or
// gone in the end.
//
// It leaves the index first, and in the same write the index notes that its directory is being
// deleted. Then its summary goes, so that nobody takes what is left for a dataset; then its files,
// one by one, rank2file (which names them) after them, the directory, and the note. roll_forward()
// goes on where a run was cut.
#pragma once

#include <string>

#include "core/base/filesystem.hpp"
#include "flush/index.hpp"

namespace scr::flush {

// Only files that still are the dataset's own are deleted: a later dataset or the user may have
// written the same name. A file that cannot be looked at stays for the next try, which the error
// says. Not collective.
Status delete_dataset(FileSystem& fs, const std::string& prefix, const std::string& directory_name);

// Ends deletions that were cut. What fails is a warning, and is tried again at the next start.
Status finish_deletions(FileSystem& fs, const std::string& prefix, const Index& index);

}  // namespace scr::flush
