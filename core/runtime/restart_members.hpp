// Members of redundancy sets as filemaps list them, for both kinds of restart: on the same number
// of ranks and elsewhere.
#pragma once

#include <string>

#include "core/base/filemap.hpp"
#include "core/base/filesystem.hpp"
#include "core/runtime/context.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

// Makes the directory of a dataset's files below the job's private directory on its store.
Result<std::string> make_dataset_directory(Context& context, const StoredDescriptor& descriptor);

// What this process has of a rank's part of a set, of which `entry` (none: nothing) tells.
// `directory` is of the rank's files. Never fails: every member must come to redundancy::rebuild.
redundancy::HostedMember hosted_member(FileSystem& fs, const Directory& directory,
                                       const FilemapEntry* entry,
                                       const StoredDescriptor& descriptor,
                                       const redundancy::RedundancySet& set, int rank);

// Lists the files of a rebuilt member.
void list_rebuilt(FilemapEntry& entry, const redundancy::MemberFiles& rebuilt);

// Of these ranks nothing is left, nor of those that could tell of them.
Status all_gone(const std::string& ranks);

}  // namespace scr
