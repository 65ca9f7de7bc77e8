// DatasetDescriptor: what h5scr knows of one checkpoint or output as a whole. Stored in the filemap
// when the dataset starts, copied to redundancy headers, the summary and the index.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/hash.hpp"

namespace scr {

struct DatasetDescriptor {
  int id = 0;                // counts up from 1
  std::string name;          // the application's, or "scr.dataset.<id>"
  std::int64_t created = 0;  // microseconds since the epoch
  std::string user;
  std::string job_name;
  std::string job_id;
  std::string cluster;
  int checkpoint = 0;       // checkpoint id, 0 if this is no checkpoint
  bool output = false;      // must reach the prefix directory
  int ranks = 0;            // ranks of the run that wrote it
  std::uint64_t size = 0;   // bytes of all application files; known when complete
  std::uint64_t files = 0;  // application files of all ranks
  bool complete = false;    // every rank wrote valid files and redundancy data is in place

  bool is_checkpoint() const { return checkpoint > 0; }

  Hash to_hash() const;
  static Result<DatasetDescriptor> from_hash(const Hash& hash);
  bool operator==(const DatasetDescriptor&) const = default;
};

}  // namespace scr
