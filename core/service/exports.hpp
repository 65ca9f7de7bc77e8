// Exports: which files of this node the range service may read, by id.
//
// An export is a small hash file in the node's control directory; all processes of the node publish
// there, and the server of the node resolves from it (docs/formats/range-service.md). Files are
// opened below the job's cache directories only, without following symbolic links. Thread-safe, and
// safe between processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/base/hash.hpp"
#include "core/service/range_service.hpp"

namespace scr::service {

// An id that is unique in a job: dataset below 2^28, rank below 2^24, index (of the file among
// those of the rank in the dataset) below 2^12; kInvalidArgument otherwise.
Result<std::uint64_t> make_id(std::int64_t dataset, std::int64_t rank, std::int64_t index);

// What the file of an export holds.
struct Export {
  std::string cache;  // path of the cache directory
  std::string file;   // relative to it

  Hash to_hash() const;
  static Result<Export> from_hash(const Hash& hash);
  bool operator==(const Export&) const = default;
};

class Exports {
 public:
  // `control` and `caches` (this job's directories on all stores of the node) must outlive the
  // object and what resolver() returns.
  Exports(FileSystem& fs, const Directory& control, std::vector<const Directory*> caches)
      : fs_(fs), control_(control), caches_(std::move(caches)) {}

  // Lets the file at `path`, relative to `cache`, be read as `id`; replaces what was published
  // under the id. The file need not exist yet.
  Status publish(std::uint64_t id, const Directory& cache, const std::string& path);
  // No longer; an id that is not published is fine.
  Status withdraw(std::uint64_t id);
  // Withdraws all that any process of the node has published: for the first process of a node at
  // the start of a run.
  Status withdraw_all();

  // Opens the file of an id. kNotFound if it is not published, or the file is not there;
  // kPermissionDenied if it is not a regular file below one of the caches.
  Result<std::unique_ptr<File>> resolve(std::uint64_t id) const;
  Resolver resolver() const;

 private:
  FileSystem& fs_;
  const Directory& control_;
  std::vector<const Directory*> caches_;
};

}  // namespace scr::service
