// Markers: small files that stand under an application's file name while the data is elsewhere (in
// the cache, or inside a container), so that a program that looks for its restart file by stat or
// glob finds the name.
//
// A marker begins like an HDF5 file of a superblock version that does not exist: H5Fis_accessible
// says yes, and every open without h5scr is refused; then follows text for people and programs. All
// markers have the same size, so that other files are told apart by a stat. Format:
// docs/formats/marker.md. Functions are thread-safe; several processes may use one name at once. A
// marker never takes the place of a real file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/filesystem.hpp"
#include "core/base/status.hpp"

namespace scr::routing {

// Bytes of every marker: fits a block of a file system, and few other files have it.
inline constexpr std::size_t kMarkerSize = 3989;
// The bytes that tell a marker from any other file: signature and superblock version.
inline constexpr std::size_t kMarkerHeadSize = 9;

struct Marker {
  std::string file;              // relative to the prefix directory, as the application wrote it
  std::uint64_t id = 0;          // of the file; stays when the file is renamed
  int dataset = 0;               // id; 0 if it is not known yet
  int rank = 0;                  // that wrote the file
  std::string job;               // job id
  std::string host;              // node whose cache has the data
  std::string service;           // host:port of its range service; empty if there is none
  bool container = false;        // the data is in a container in the prefix directory
  bool shared = false;           // several ranks wrote it: the data is in the caches of all
  bool gone = false;             // the program has deleted it; only in notes (marker_store.hpp)
  bool replaced = false;         // gone, but only once a real file has its name
  std::uint64_t generation = 0;  // which version of this name; larger is newer
  std::int64_t created = 0;      // creation of the dataset, microseconds since the epoch
  std::int64_t written = 0;      // last change of the data, nanoseconds since the epoch
  bool operator==(const Marker&) const = default;
};

// The bytes of a marker, kMarkerSize of them. kInvalidArgument for a file name that is not a safe
// relative path, and for texts that do not fit.
Result<std::string> encode(const Marker& marker);
// Any byte sequence is safe: what is not a whole marker gives kCorrupt.
Result<Marker> decode(std::span<const std::byte> bytes);
// True if a file that begins so is a marker, perhaps a damaged one.
bool has_marker_head(std::span<const std::byte> bytes);

// The marker at that name; nothing if another file or none is there. Costs one stat unless the size
// is that of a marker. Follows a symbolic link in the last component unless below a Directory.
// kCorrupt if it is a marker whose text is damaged.
Result<std::optional<Marker>> read_marker(FileSystem& fs, const At& at);

// Puts a marker there, whole at every instant, if no file or only a marker has that name.
// kFailedPrecondition (EEXIST) if something else is there, which stays as it is, also if it comes
// at the same moment. The directory must exist. Not synced: a marker is a hint, not data.
Status write_marker(FileSystem& fs, const At& at, const Marker& marker, mode_t mode = 0666);

// Removes the marker if it still is the one with the id of `expected`. Ok also if there is no file,
// or another one, which stays as it is.
Status remove_marker(FileSystem& fs, const At& at, const Marker& expected);

}  // namespace scr::routing
