// Save: brings what a job would lose with its caches to the prefix directory, at the end of an
// allocation (scr_postrun, scr_scavenge).
//
// The nodes that are left are asked what they have; what is not in the index yet and must be kept
// (the newest checkpoint, every output) is copied by scr_copy on each node, rebuilt where nodes are
// lost, and added to the index (scavenge.hpp). A checkpoint that cannot be rebuilt is left as it
// is, and the one before it in the caches is tried; the index keeps its current one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "flush/node_command.hpp"
#include "flush/scavenge.hpp"

namespace scr::flush {

// A dataset that some node has in its cache.
struct CandidateDataset {
  DatasetDescriptor dataset;
  Layout layout;
  bool keep_newer = false;                    // as in FlushOptions
  bool in_prefix = false;                     // some node says so
  std::map<std::string, RankRanges> holders;  // by host
};

// Puts what the nodes said together: by id, newest last. Of several datasets with one id, which a
// node that was away may bring, the newest complete one counts.
std::vector<CandidateDataset> merge_surveys(const std::map<std::string, NodeReport>& reports);

struct SaveRequest {
  NodeJob job;
  std::vector<std::string> nodes;  // to ask; those that do not answer count as down
  std::set<std::string> down;      // known to be
  // Starts scr_copy with a command on nodes, each of which reports under its name in this list, and
  // waits for all of them; what fails there shows in the reports, so only a failure that concerns
  // all is returned.
  std::function<Status(const std::vector<std::string>& nodes, const NodeCommand& command)> run;
  CopyOptions copy;
  std::optional<int> dataset = {};  // only this one, whether it has to be kept or not
  // Told what happens, a line at a time.
  std::function<void(const std::string& line)> say = {};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // of rebuilds
};

enum class SaveState {
  kSaved,          // in the index now, and complete
  kThere,          // it was already
  kUnrecoverable,  // too much of it is lost
  kFailed,         // could not be done now, perhaps later
};
std::string_view save_state_name(SaveState state);  // saved, there, unrecoverable, failed

struct SavedDataset {
  DatasetDescriptor dataset;
  std::string job_id;  // of the process that worked alone; empty: of the job itself
  SaveState state = SaveState::kFailed;
  std::string message;       // why not
  std::string directory;     // below .scr
  std::vector<int> rebuilt;  // ranks
};

struct SaveOutcome {
  std::vector<SavedDataset> datasets;  // in the order they were tried
  std::vector<std::string> silent;     // nodes that did not answer
  std::vector<std::string> problems;   // that nodes told
  // Why it is not known whether there is something to save: no dataset was found, and not every
  // node could tell. Empty if it is known.
  std::string unknown;
  std::string why_nothing;  // no node has ever worked for the job

  // Everything that must be kept is in the prefix directory: all outputs, and the newest checkpoint
  // of those that were in the caches.
  bool all_saved() const;
};

// Makes h5scr's directory in a prefix directory. One that is not there is not made: nobody would
// look for datasets in it.
Status open_prefix(FileSystem& fs, const std::string& prefix);

// kFailedPrecondition if what the nodes have is of runs in another prefix directory.
Result<SaveOutcome> save_datasets(FileSystem& fs, const SaveRequest& request);

// Saves what several processes left that each worked alone, with a cache of its own (`job.control`)
// and numbers of its own for its datasets: every output of each, and its newest checkpoint. The
// oldest first, by the time they were created, so that of two files with one name the newer one
// stays. A process whose cache cannot be read keeps nobody from saving the others.
struct AloneProcess {
  std::string job_id;
  SaveRequest request;
};
Result<SaveOutcome> save_alone_processes(FileSystem& fs,
                                         const std::vector<AloneProcess>& processes);

// Keeps programs and other commands away from a prefix directory as long as it lives.
// kFailedPrecondition if somebody works there, for longer than `patience`.
Result<std::unique_ptr<File>> lock_prefix(FileSystem& fs, const std::string& prefix,
                                          std::chrono::milliseconds patience);

}  // namespace scr::flush
