// Who a cache or control directory belongs to, and whether that job still runs.
//
// Every process of a job holds `owner.lock` in each of its directories, shared; the kernel lets go
// of it when the process dies, however it dies. Who gets it exclusively (scr_clean) knows that no
// process of the job is left on this node. `owner.scr` says whose it is. A job between two runs
// holds nothing either: what protects its data is that scr_clean spares datasets that are not in
// the prefix (docs/administrators.md). Format: docs/formats/filemap.md, "Owner file".
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hash_file.hpp"

namespace scr {

inline constexpr std::string_view kOwnerFileName = "owner.scr";
inline constexpr std::string_view kOwnerLockName = "owner.lock";

struct JobOwnerInfo {
  std::string user = {};
  std::string job_id = {};
  std::string host = {};
  std::string boot_id = {};  // of the host's kernel: another one means that all processes are gone
  std::int64_t heartbeat = 0;  // seconds since the epoch: the last sign of life
  std::string prefix = {};     // absolute

  Hash to_hash() const;
  static Result<JobOwnerInfo> from_hash(const Hash& hash);
  bool operator==(const JobOwnerInfo&) const = default;
};

// The id of the running kernel; empty if it does not tell.
std::string current_boot_id(FileSystem& fs);

Result<JobOwnerInfo> read_owner_file(FileSystem& fs, const Directory& directory);
Status write_owner_file(FileSystem& fs, const Directory& directory, const JobOwnerInfo& info);

// For a directory without locks: kFailedPrecondition if the owner file is that of another job that
// gave a sign of life in the last ten minutes.
Status check_no_other_job(FileSystem& fs, const Directory& directory, const JobOwnerInfo& mine);

// The lock on one directory; dropping the object lets go. Not to be kept over fork() without exec:
// the child would hold it on.
class JobOwner {
 public:
  // For a process of the job: takes the lock together with the other processes of the job, and
  // writes the owner file; host, boot id and heartbeat are filled in if they are not set. Waits
  // while scr_clean looks at the directory. kUnavailable if scr_clean removed the directory
  // meanwhile (make it again and try once more), or did not let go in time.
  static Result<JobOwner> hold(FileSystem& fs, const Directory& directory, JobOwnerInfo info,
                               std::chrono::milliseconds patience = std::chrono::seconds(60));

  // A sign of life, which `scr_clean --older-than` looks at. One process of a node is enough, at
  // each dataset.
  Status beat(FileSystem& fs, const Directory& directory);

  // For scr_clean: takes the lock alone, without waiting. kUnavailable if the job is alive,
  // kNotFound if there is no lock.
  static Result<JobOwner> take_over(FileSystem& fs, const Directory& directory);

 private:
  JobOwner(std::unique_ptr<File> lock, JobOwnerInfo info)
      : lock_(std::move(lock)), info_(std::move(info)) {}
  std::unique_ptr<File> lock_;
  JobOwnerInfo info_;  // empty after take_over()
};

}  // namespace scr
