// Flush: brings a dataset from the cache to the prefix directory.
//
// Three steps, of which only the middle one moves data and needs no other process, so that it can
// run in a background thread:
//   prepare  (collective)  takes a dataset directory below .scr and records there what will come
//   copy     (local)       writes all data under temporary names, durably
//   finish   (collective)  writes the summary (from here on the flush will be completed, by this
//   run
//                          or a later one), gives the files their names, adds the dataset to the
//                          index
// A run killed before the summary leaves temporary files only, which the same dataset's next flush
// takes up again or clean_up() removes; killed later, roll_forward() ends what was begun.
// flush_prepare.cpp has the first step, flush.cpp the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/file_meta.hpp"
#include "core/mpi/communicator.hpp"
#include "flush/copy.hpp"
#include "flush/delete_dataset.hpp"
#include "flush/intent.hpp"
#include "flush/parity.hpp"
#include "flush/rank2file.hpp"
#include "flush/replay.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

struct FlushOptions {
  bool containers = false;
  std::uint64_t container_size = 100ull << 30;
  std::uint64_t container_parity = 0;
  int width = 256;          // processes that copy at the same time (synchronous flush)
  bool keep_newer = false;  // a file at the name that is younger than the cached one stays there
  CopyOptions copy;
  OpenSharedLog open_log = {};  // for files that several processes have written together
};

class Flush {
 public:
  // `files` are this rank's application files with size and checksum, below `cache_directory`.
  // `node` are the processes that share the cache storage; with containers its first rank copies
  // for all of them. `logs` are this rank's logs of shared files, which become plain ones.
  static Result<std::unique_ptr<Flush>> prepare(Communicator& world, Communicator& node,
                                                FileSystem& fs, const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const std::string& cache_directory,
                                                const std::vector<FileMeta>& files,
                                                const FlushOptions& options,
                                                const std::vector<SharedLog>& logs = {});

  // The same for files that the program has written to the prefix directory itself, under their
  // temporary names (SCR_CACHE_BYPASS): they are durable and `files` has their checksums, so there
  // is nothing to copy. `made` are directories that this process has made for them.
  static Result<std::unique_ptr<Flush>> adopt(Communicator& world, FileSystem& fs,
                                              const std::string& prefix,
                                              const DatasetDescriptor& dataset, RankFiles files,
                                              const std::vector<std::string>& made = {},
                                              bool keep_newer = false);

  // Not collective. Never throws; the outcome is for finish().
  void copy();
  // Collective: the same, at most `width` processes at a time.
  void copy_in_turns(Communicator& world);
  // Instead of copy(): another process has copied `tasks()`; `copied` are the same with the
  // checksums of all pieces. Fails, and changes nothing, if they are not the same or their
  // checksums not right.
  Status adopt_copies(const std::vector<CopyTask>& copied);
  const std::vector<CopyTask>& tasks() const { return tasks_; }
  const CopyOptions& copy_options() const { return options_.copy; }
  // Before copy(), if others may have written a part: what is there and right is kept.
  void keep_what_is_there() { options_.copy.resume = true; }
  // Before copy(): who is told how many bytes of this process are copied, in the copying thread.
  void set_observer(std::function<void(std::uint64_t)> observer) {
    options_.copy.progress = std::move(observer);
  }
  void set_bytes_done(std::uint64_t bytes) { progress_.bytes_done = bytes; }
  bool copied() const { return copied_; }  // from any thread
  // After copy() has ended everywhere: whether something is left to compute from all that was
  // copied (parity containers). Then encode(), not collective and in any thread, does this
  // process's share; without it, finish() does.
  bool needs_encoding() const {
    return copy_status_.ok() && !done_ && summary_.container_parity > 0;
  }
  void encode();
  bool encoded() const { return encoded_; }  // from any thread
  void cancel() { progress_.cancel = true; }

  // Collective, after copy() has ended everywhere.
  Status finish(Communicator& world, Communicator& node);
  // Collective: removes what this flush has written so far.
  void abandon(Communicator& world);

  const DatasetDescriptor& dataset() const { return dataset_; }
  std::string directory() const { return prefix_ + "/.scr/" + directory_name_; }
  std::int64_t attempt() const { return intent_.attempt; }
  std::uint64_t bytes_done() const { return progress_.bytes_done; }
  std::uint64_t bytes_total() const { return bytes_total_; }

 private:
  Flush(FileSystem& fs, std::string prefix, const DatasetDescriptor& dataset,
        const FlushOptions& options)
      : fs_(fs), prefix_(std::move(prefix)), dataset_(dataset), options_(options) {}

  static Status check_options(Communicator& world, const std::vector<FileMeta>& files,
                              const FlushOptions& options);
  Status take_directory(Communicator& world);
  Status take_directory_alone(bool& resumed);
  void share_bandwidth(Communicator& world);
  Status make_parents(Communicator& world);
  Status note_directories(Communicator& world, const std::vector<std::string>& made);
  void add_task(const StoredFile& file, const std::string& cache_directory);
  void plan_files(const std::string& cache_directory);
  Status plan_containers(Communicator& world, Communicator& node,
                         const std::string& cache_directory);
  void list_shared(const std::vector<SharedLog>& logs);
  Status plan_shared(Communicator& world, const std::vector<SharedLog>& logs);
  Status make_shared_files(const std::vector<SharedLog>& logs);
  Status collect_shared_checksums(Communicator& world);
  Status set_shared_times();
  Status collect_segment_checksums(Communicator& node);
  ParityWriter parity_writer() const;
  Status collect_parity(Communicator& world);
  Status sync_plan();
  Status commit();
  void make_private_copies();
  // By the program, which gives and takes names as it likes while they are flushed.
  bool was_deleted(const std::string& file) const;
  bool has_left(const std::string& file) const;
  Result<bool> rename_own(Communicator& world);
  Status end_with_others();

  FileSystem& fs_;
  std::string prefix_;
  DatasetDescriptor dataset_;
  FlushOptions options_;
  std::string directory_name_;
  int rank_ = 0;
  Intent intent_;                // on rank 0; elsewhere only its attempt
  bool plan_synced_ = false;     // intent and rank2file are durable
  RankFiles files_;              // of this rank
  std::vector<CopyTask> tasks_;  // of this process
  std::vector<int> task_owner_;  // node rank and file of each task, with containers
  std::vector<std::size_t> task_file_;
  std::vector<ReplayRegion> regions_;  // of shared files, whose tasks are the last of tasks_
  std::map<std::string, std::int64_t> shared_times_;  // of shared files that this rank lists
  bool any_shared_ = false;                           // on some rank
  Summary summary_;
  CopyProgress progress_;
  std::uint64_t bytes_total_ = 0;
  Status copy_status_;
  std::atomic<bool> copied_ = false;
  int ranks_ = 1;
  double bandwidth_ = 0;                // of all processes together, 0: no limit
  std::optional<ParityWriter> parity_;  // once encode() has begun
  Status encode_status_;
  std::atomic<bool> encoded_ = false;
  bool done_ = false;  // an earlier try came as far as the summary, and has been completed
};

// The name under which a file waits for its flush to be complete: in the same directory, so that
// owner, group and access list are those of the final file.
std::string temporary_name(const std::string& file, const DatasetDescriptor& dataset);

// What tells the dataset in such a name (without directories), ".scr-<id>-<time>.tmp"; empty if it
// is no such name.
std::string temporary_ending(const std::string& name);

// Where the bytes of a file go, in order, before they get their names: to a file below `prefix`, or
// to containers in the dataset directory.
std::vector<CopyPiece> places_of(const StoredFile& file, const DatasetDescriptor& dataset,
                                 const std::string& prefix, const std::string& directory);

}  // namespace scr::flush
