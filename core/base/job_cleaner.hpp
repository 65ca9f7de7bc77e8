// Removes what dead jobs left in cache and control directories: the work behind scr_clean.
//
// A job is `<base>/<user>/scr.<jobid>` below one or more bases. It is cleaned only if nobody holds
// its owner lock (job_owner.hpp) and, unless forced, nothing in its cache still has to reach the
// prefix. Only files that its filemaps list and its own state files are removed, then directories
// that are empty; all else stays and is named. Everything below a base is reached through open
// directories, never through a symbolic link, so that an administrator can run it on directories
// that users own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"

namespace scr {

// What the prefix directory itself says of a dataset in a cache.
enum class InPrefix {
  kUnknown,    // it cannot be read from here: the cache's own mark counts
  kNo,         // it is not there, whatever the mark says
  kYes,        // it is there, or a newer one has taken its place
  kTakenAway,  // a user has deleted it there: it need not be saved, and one before it may have to
};

struct CleanOptions {
  std::vector<std::string> bases = {};     // absolute; one that does not exist has no jobs
  std::optional<std::string> user = {};    // nothing: all users
  std::optional<std::string> job_id = {};  // and .s<n>, .p<n> of it; nothing: all jobs
  std::int64_t older_than = 0;             // seconds since the last sign of life
  bool dry_run = false;
  bool force = false;        // also datasets that are not in the prefix
  bool other_hosts = false;  // also directories (on shared storage) that another host made
  std::int64_t now = 0;      // seconds since the epoch
  std::string host = {};     // this one
  // Asks a prefix directory for a dataset; `marked`: the cache says that it has been there.
  std::function<InPrefix(const std::string& prefix, const DatasetDescriptor& dataset, bool marked)>
      look = {};
};

enum class CleanState {
  kRemoved,    // all gone (with dry_run: would go)
  kAlive,      // a process of the job runs
  kRecent,     // its last sign of life is not old enough
  kOtherHost,  // made by another host
  kUnflushed,  // has a dataset that is not in the prefix
  kPartly,     // gone but for files that no filemap lists
  kFailed,     // damaged, unsafe, or the operating system refused
};

// "removed", "alive", "recent", "other host", "unflushed", "partly", "failed".
std::string_view clean_state_name(CleanState state);

struct CleanedJob {
  std::string user = {};
  std::string job_id = {};
  std::vector<std::string> directories = {};
  CleanState state = CleanState::kRemoved;
  std::string reason = {};             // one line; empty if it is removed
  std::uint64_t files = 0;             // removed, state files not counted
  std::uint64_t bytes = 0;             // of these
  std::vector<std::string> left = {};  // paths that stay, the first hundred
  std::uint64_t left_count = 0;
};

struct CleanReport {
  std::vector<CleanedJob> jobs = {};       // by user, then job
  std::vector<std::string> problems = {};  // bases that cannot be read
};

CleanReport clean_jobs(FileSystem& fs, const CleanOptions& options);

}  // namespace scr
