// Directories in the prefix directory that h5scr has made for files of datasets: `.scr/made.scr`
// lists them (docs/formats/index.md). When the last dataset in one of them is deleted it goes, too;
// a directory that the user or the program made stays, and one that is not empty.
//
// The list is a hint: it is not synced, and a run killed between making a directory and noting it
// leaves a directory that nobody removes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/base/hash.hpp"

namespace scr::flush {

// What the list holds: the inode of each directory by its name below the prefix directory.
struct MadeDirectories {
  std::map<std::string, std::uint64_t> inodes;

  Hash to_hash() const;
  // What names no place below the prefix directory, or no inode, is left out: it is not ours.
  static MadeDirectories from_hash(const Hash& hash);
  bool operator==(const MadeDirectories&) const = default;
};

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

}  // namespace scr::flush
