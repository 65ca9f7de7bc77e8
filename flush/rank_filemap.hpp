// Rank filemaps: what scr_copy has brought of a rank to the dataset directory in the prefix
// (`<rank>.scrfilemap`, docs/formats/filemap.md).
//
// A file is listed before it is copied and marked COMPLETE when its copy is durable and has the
// right checksum, so a copy killed at any instant leaves nothing that is not listed, and nothing
// that is taken for whole. Application files lie under their temporary names or in containers
// (their segments, with checksums, are in the flush descriptor); redundancy files lie beside the
// rank filemaps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/filemap.hpp"

namespace scr::flush {

inline constexpr std::string_view kRankFilemapEnd = ".scrfilemap";

std::string rank_filemap_name(int rank);
// The rank, if it is such a name.
std::optional<int> rank_of_filemap_name(std::string_view name);
// Is it the name of a redundancy file, "<i>_of_<n>_in_<id>.xor" (.rs, .partner)?
bool is_redundancy_file_name(std::string_view name);

// kCorrupt if a file of a rank can have no such name in a scavenge: one of h5scr's own, redundancy
// data that is none, a log that is not the rank's.
Status check_rank_file(int rank, const FileMeta& meta);

// kCorrupt, with the file's name, if it is not about this rank in this very dataset (id and time of
// creation) alone, or has what a rank filemap has not.
Result<FilemapEntry> read_rank_filemap(FileSystem& fs, const Directory& directory, int rank,
                                       const DatasetDescriptor& dataset);
// Durable. Directory and redundancy descriptor, which are about the cache, are left out.
Status write_rank_filemap(FileSystem& fs, const Directory& directory, int rank, FilemapEntry entry);

}  // namespace scr::flush
