// StoredDescriptor: how a dataset is protected, as kept with it in the filemap (REDDESC), so that a
// later run rebuilds it the way it was written, whatever its own configuration says.
#pragma once

#include <string>
#include <vector>

#include "core/base/filemap.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/scheme.hpp"

namespace scr {

struct StoredDescriptor {
  std::uint64_t index = 0;  // of the CKPT descriptor
  std::string store;        // base directory of the store
  std::string directory;    // dataset directory, relative to the job's directory on the store
  std::vector<redundancy::RedundancySet> sets;  // own set first, then guest sets

  Hash to_hash() const;
  static Result<StoredDescriptor> from_hash(const Hash& hash);
};

// The files of a rank in one of its sets: application files in its own, none where it is a guest;
// and the redundancy file, if it is listed.
redundancy::MemberFiles member_files(const FilemapEntry& entry, const StoredDescriptor& descriptor,
                                     const redundancy::RedundancySet& set, int rank);

}  // namespace scr
