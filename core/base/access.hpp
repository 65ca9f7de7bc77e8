// What the system lets this process do with a path: for files that are written elsewhere first, so
// that an open is refused as a direct one would be.
#pragma once

#include <string>

#include "core/base/filesystem.hpp"

namespace scr {

struct WriteAccess {
  bool exists = false;       // there is a file
  bool replaceable = false;  // another one can take its place
};

// What is found out about writing the file at `path`, by the effective user: made if there is none.
// With the errno of open(2) if that would refuse it: EISDIR, EACCES, EROFS, ENOENT and ENOTDIR for
// its directory. Not through fault injection, but for the looks. A file of h5scr's own at that name
// counts like any other.
Result<WriteAccess> check_write_access(FileSystem& fs, const std::string& path);

// --- the mode of a file that is written under a temporary name

// What the umask of this process leaves of 0666; read without changing it, which other threads
// would notice.
mode_t mode_of_new_files(FileSystem& fs);
// For creating it: only the owner can read it if a file is at `path`, whose mode it will have.
mode_t temporary_mode(FileSystem& fs, const std::string& path);
// Makes it, empty, with that mode, if a file is at `path`; one that exists stays.
Status make_temporary(FileSystem& fs, const std::string& temporary, const std::string& path);
// Before it is renamed to `path`: gives it the mode of the file there, as a direct write would
// leave it, or of a new file if there is none any more. Permissions of a group are not given to
// another group.
Status take_mode(FileSystem& fs, const std::string& temporary, const std::string& path);

}  // namespace scr
