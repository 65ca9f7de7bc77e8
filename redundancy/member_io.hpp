// Opening, reading through and finishing the files of a member.
#pragma once

#include "redundancy/logical_file.hpp"
#include "redundancy/redundancy.hpp"

namespace scr::redundancy {

// The application's files, for reading; kCorrupt if one has not its recorded size.
Status open_member_files(const MemberFiles& member, LogicalFile& files);

// Reads all of it, for the checksums.
Status read_through(LogicalFile& files, std::size_t piece_size);

// Puts the final header, which must be `length` bytes, before the payload; closes the file and says
// what it is in `meta`.
Status write_redundancy_header(const RedundancyHeader& header, std::size_t length,
                               LogicalFile& payload, FileMeta& meta);

// kCorrupt, with the name, if a file has passed whose checksum is not the one recorded for it.
Status compare_checksums(const MemberFiles& member, const LogicalFile& files);

Status compare_checksum(const std::string& file, std::optional<std::uint32_t> passed,
                        std::optional<std::uint32_t> recorded);

}  // namespace scr::redundancy
