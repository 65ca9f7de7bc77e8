// Dataset directories below .scr: what is in them, and whether it counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "flush/rank2file.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

// Names of all of them.
Result<std::vector<std::string>> dataset_directories(FileSystem& fs, const std::string& prefix);

// "scr.dataset.<id>", or with a number behind it where there are several of one id.
bool is_directory_of(const std::string& name, int id);

// Whether there is a summary. A damaged one commits nothing; one that cannot be read now is an
// error, not a no.
Result<bool> is_committed(FileSystem& fs, const std::string& directory);
// What read_summary() gives where nothing is committed.
bool commits_nothing(const Status& status);

// Calls `action(base, file)` for every file of a dataset that the flush itself wrote: plain files,
// and with a summary also containers.
Status for_each_flushed_file(
    FileSystem& fs, const std::string& prefix, const std::string& directory, const Summary* summary,
    const std::function<Status(const std::string&, const StoredFile&)>& action);

// What a killed write_file_atomically() leaves.
bool is_hash_file_temporary(const std::string& name);
Status remove_hash_file_temporaries(FileSystem& fs, const std::string& directory);

// Removes our own files of a dataset directory (summary, rank2file, containers, temporary ones),
// then the directory; what else is in it stays, and is named in the error.
Status remove_dataset_directory(FileSystem& fs, const std::string& prefix,
                                const std::string& directory_name);

}  // namespace scr::flush
