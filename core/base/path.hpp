// Safe paths: what may be done with a path that came from a file, and where h5scr may put files.
//
// Those before prepare_private_directory() look at text only and touch no file; all are
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/filesystem.hpp"
#include "core/base/status.hpp"

namespace scr {

// Every path read from metadata goes through here before it is used. It must be relative and
// normalised: components that are not empty, "." or "..", without control characters, of at most
// 255 bytes each and 4095 in all. Returns it unchanged, or kCorrupt with the path and what is
// wrong.
Result<std::string> safe_relative_path(std::string_view path);

// The path as an absolute one without "//", "." and "..", by its text alone: symbolic links are not
// looked at. A relative path starts at `working_directory`, which must be absolute.
std::string normalize(std::string_view path, std::string_view working_directory);
// The same from the working directory of the process; fails only if that is gone.
Result<std::string> normalize(std::string_view path);

// If `path` is `base` or inside it, the way from `base` to it ("." if they are the same). Both must
// be normalised.
std::optional<std::string> relative_to(std::string_view path, std::string_view base);

// The directory of a file: what is before the last slash; empty if there is none.
std::string parent_of(std::string_view path);

// The path of a file beside another one: its name between a beginning and an ending, cut and with a
// checksum where a file system would find it too long.
std::string path_beside(const std::string& path, std::string_view beginning,
                        std::string_view ending);

// Makes the directories of `below` (for example "alice/scr.1234") one in the other under `base`,
// which must exist, and opens the last. Each is made with mode 0700; one that exists is used only
// if it is a real directory, owned by this user, and not writable by group or others. A failure
// (kPermissionDenied) names the directory and the condition. Several processes may do this at once.
Result<std::unique_ptr<Directory>> prepare_private_directory(FileSystem& fs,
                                                             const std::string& base,
                                                             std::string_view below);

}  // namespace scr
