// Directories in the prefix directory that h5scr has made for files of datasets: `.scr/made.scr`
// lists them (docs/formats/index.md). When the last dataset in one of them is deleted it goes, too;
// a directory that the user or the program made stays, and one that is not empty.
//
// The list is a hint: it is not synced, and a run killed between making a directory and noting it
// leaves a directory that nobody removes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::flush {

// Makes a directory and those above it, as FileSystem::make_directories() does. `name` is below the
// prefix directory; if `opened` is given no symbolic link is followed. Adds the names of those that
// were not there to `made`.
Status make_missing(FileSystem& fs, const std::string& prefix, const Directory* opened,
                    const std::string& name, std::vector<std::string>& made);

// Adds names to the list. Not collective.
Status note_made(FileSystem& fs, const std::string& prefix, const std::vector<std::string>& made);

// Removes those of `directories` (names below the prefix directory, in which files were), and of
// those above them, that are in the list and empty. Not collective; may be done again.
Status remove_made(FileSystem& fs, const std::string& prefix,
                   const std::set<std::string>& directories);

// The directory of a file, both named below the prefix directory; empty if it is that itself.
std::string directory_of(const std::string& file);

}  // namespace scr::flush
