// Metadata of members as it is in headers and messages.
#pragma once

#include "redundancy/redundancy.hpp"

namespace scr::redundancy {

// RANK, FILES and the list of files of one member (the redundancy file is not part of it).
Hash member_to_hash(const RedundancySet& set, const MemberFiles& member);
Result<MemberFiles> member_from_hash(const RedundancySet& set, const Hash& hash);

// Bytes of all application files; kCorrupt if that is no number.
Result<std::uint64_t> total_size(const MemberFiles& member);

// Does the header of `keeper` hold the metadata of `member`?
bool keeps_metadata(const RedundancySet& set, int keeper, int member);

}  // namespace scr::redundancy
