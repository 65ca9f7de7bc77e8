// Runtime: the life of datasets in one process (docs/design.md). One per process, shared by all
// front ends.
//
// Functions are collective over the run unless they say otherwise, and return the same success or
// failure on every rank. A call at the wrong moment fails at once, on the rank that makes it,
// without waiting for anybody. Failures are logged where they happen, so callers only pass the code
// on. Used by one thread at a time; the caller holds no lock while calling.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/flush_file.hpp"
#include "core/base/halt_file.hpp"
#include "core/base/job_owner.hpp"
#include "core/runtime/cache.hpp"
#include "core/runtime/checkpoint_timer.hpp"
#include "core/runtime/context.hpp"
#include "core/runtime/event_log.hpp"
#include "core/runtime/flusher.hpp"
#include "core/runtime/program.hpp"
#include "core/runtime/restart.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/index.hpp"
#include "flush/rank2file.hpp"

namespace scr {

enum DatasetFlags : int { kFlagNone = 0, kFlagCheckpoint = 1, kFlagOutput = 2 };

// The dataset being written.
struct DatasetInWriting {
  DatasetDescriptor dataset;
  const ActiveRedundancy* redundancy = nullptr;
  std::unique_ptr<Directory> directory;  // in the cache; none when bypassing
  bool bypass = false;                   // files go straight to the prefix directory
  std::vector<std::string> made;         // directories there that this process has made for them
  EventToken event;
  Status refused;  // the first name that this process could not get a path for
};

class Runtime {
 public:
  // Reads the configuration, makes directories, restores cached datasets.
  static Result<std::unique_ptr<Runtime>> start(FileSystem& fs, std::unique_ptr<Communicator> world,
                                                const std::string& host, const RunOptions& options);
  // Ends the run and leaves the reason in the halt file. The object is of no use afterwards.
  Status finalize();
  // Ends it without a flush or a reason to halt: another runtime of this process takes over.
  void withdraw();

  // --- writing (runtime_write.cpp)

  // No name: "scr.dataset.<id>". A rank whose arguments are bad says so by `arguments`; it must
  // come here all the same, so that nobody waits for it.
  Status start_dataset(const std::optional<std::string>& name, int flags,
                       const Status& arguments = {});
  Status complete_dataset(bool valid);
  // The path to open for a file: registers it while a dataset is written, finds it while one is
  // read. Not collective.
  Result<std::string> route_file(std::string_view name);
  bool in_dataset() const { return writing_.has_value(); }

  // --- windows, for programs that do not know of h5scr (runtime_window.cpp)

  // A window is a dataset whose name and kind are known only when it is sealed. It is opened as
  // soon as the one before is sealed, so that files can be routed at any time without asking the
  // other ranks.
  Status open_window();
  // Completes the window as a dataset. A rank without files gives no name; the lowest rank that has
  // one decides, and all flags are put together. Not valid on some rank: the window is dropped, as
  // complete_dataset() does.
  Status seal_window(const std::string& name, int flags, bool valid = true);
  // Gives up a window in which nothing was written; its id is used again.
  void close_window();
  int window() const { return writing_ ? writing_->dataset.id : 0; }
  const DatasetDescriptor& window_dataset() const { return writing_->dataset; }
  // Where a file of the window is, whichever process of this node writes it.
  std::string window_path(const std::string& relative) const;
  // The window goes straight to the prefix directory.
  bool window_bypasses() const { return writing_ && writing_->bypass; }
  // The window had no room in the cache for what this process wrote: the next one has to find more,
  // or goes straight to the prefix directory. Not collective.
  void note_no_room() { outgrown_ = true; }
  // Lists this rank's log of a file that several write together, and gives its path; not
  // collective.
  Result<std::string> route_log(const std::string& relative);
  void use_shared_logs(Flusher::SharedLogs logs) { flusher_->use_shared_logs(std::move(logs)); }
  // Takes a file off the window's list; not collective. Its data is left to the caller.
  Status unregister_file(const std::string& absolute);
  // The checksum of a file of the window, by its path in the cache, from who wrote it: the file
  // need not be read for it. None: it is not known, or no longer.
  void note_checksum(const std::string& path, std::optional<std::uint32_t> crc);
  // Datasets that are complete in the cache, oldest first, and where they are on this node.
  const std::vector<CachedDataset>& cached() const { return cached_; }
  // Collective, at the start: reads all of them in full, and repairs what is damaged. One that
  // cannot be read or repaired is not `verified` afterwards.
  void verify_cached();
  std::string cached_directory(int dataset) const;
  const Filemap& filemap() const { return cache_->filemap(); }
  // What this process has of a dataset (restart_elsewhere.hpp).
  std::vector<const FilemapEntry*> own_entries(const DatasetDescriptor& dataset) const;
  bool is_in_prefix(int dataset) const;
  // Collective, at the start, when logs of shared files can be read: ends flushes that were cut.
  void resume_flushes();
  // Ends background flushes whose data is there. Collective; cheap when `idle()`.
  void poll() { poll_flushes(); }
  // Collective: waits for all that is in background flushes.
  void wait_for_flushes() { settle(flusher_->wait()); }
  bool idle() const { return flusher_->idle(); }
  // True if the work of this rank for the oldest background flush is done, so that poll() goes on.
  bool flush_ready() const { return flusher_->ready(); }
  // Called, not collectively, with this rank's part of each dataset that leaves the cache, before
  // its files go: one that was complete, or one that could not be completed.
  using Observer = std::function<void(const FilemapEntry&)>;
  void on_forget(Observer observer) { on_forget_ = std::move(observer); }
  // False from this one: the files could not be saved elsewhere, and stay until the next run.
  void on_abandon(std::function<bool(const FilemapEntry&)> observer) {
    on_abandon_ = std::move(observer);
  }

  // --- restart (runtime_restart.cpp)

  // Name of the checkpoint to restart from, if there is one.
  Result<std::optional<std::string>> have_restart();
  Result<std::string> start_restart();
  Status complete_restart(bool valid);

  // --- flush (runtime_flush.cpp)

  // Bytes of this rank that are in the prefix directory, and in all; not collective. Of the newest
  // dataset of that name, in the cache or gone from it in this run.
  Result<std::pair<std::uint64_t, std::uint64_t>> flush_progress(const std::string& name) const;
  // Waits until a dataset, or with an empty name every dataset, has reached the prefix directory.
  Status flush_wait(const std::string& name);

  // --- questions

  Result<bool> need_checkpoint();
  Result<bool> should_exit();
  // After complete_dataset: a halt condition holds and SCR_HALT_EXIT is set, so the front end ends
  // the run.
  bool must_exit() const { return must_exit_; }

  // --- datasets by name (runtime_datasets.cpp)

  Status set_current(const std::string& name);
  Status drop(const std::string& name);
  Status remove(const std::string& name);

  Context& context() const { return *context_; }

 private:
  Runtime() = default;
  // Logs it, too.
  static Status wrong_moment(std::string message);
  double now() const;

  // --- start and end (runtime.cpp)

  Status open_job();
  At halt_file() const { return context_->prefix_scr() + "/" + std::string(kHaltFileName); }
  // Collective: asks the halt file on rank 0.
  std::optional<std::string> halt_reason(bool count_checkpoint);

  // --- the prefix directory (runtime_prefix.cpp)

  // Takes the prefix directory for this job, ends flushes that a killed run left.
  Status open_prefix();
  Status take_prefix();
  Status sign_prefix(bool locked);
  Status count_on_from_index();
  Status clean_prefix();
  void give_sign_of_life(bool alive);
  void tell_alive();
  // Keeps the newest SCR_PREFIX_SIZE checkpoints in the prefix directory; output stays. Those that
  // are known to be damaged do not count.
  void trim_prefix(std::uint64_t keep);
  Status begin_prefix();
  Status make_room_for(const std::function<Status()>& step);

  // --- flush (runtime_flush.cpp)

  bool is_native(const DatasetDescriptor& dataset);
  Status flush_dataset(const DatasetDescriptor& dataset, bool background);
  Status flush_if_due();
  void settle(const std::vector<FlushOutcome>& outcomes);
  Status settle_one(FlushOutcome outcome);
  bool repair_for_flush(const FlushOutcome& outcome);
  void note_cut_flush(const FlushOutcome& outcome);
  void remove_cut_flushes();
  void poll_flushes() { settle(flusher_->poll()); }
  void set_flush_state(const DatasetDescriptor& dataset, bool flushing, bool in_prefix);
  Status final_flush();
  std::uint64_t own_bytes(const DatasetDescriptor& dataset) const;

  // --- fetch (runtime_fetch.cpp)

  Status fetch_newest();
  void tell_of_unfetched(const CachedDataset* cached);
  Result<Hash> list_restarts(const CachedDataset* cached);
  bool user_chose(flush::Index& index, const CachedDataset* cached);
  bool is_usable_in_cache(const DatasetDescriptor& dataset);
  void restart_from(const DatasetDescriptor& dataset);
  Status try_fetch(const DatasetDescriptor& dataset, const std::string& directory_name,
                   bool make_current);
  Status fetch(const DatasetDescriptor& dataset, const std::string& directory_name);
  Status fetch_to_cache(const DatasetDescriptor& dataset, const std::string& directory_name,
                        const flush::RankFiles& files);
  Status keep_rival(const DatasetDescriptor& dataset, const DatasetDescriptor& rival,
                    bool contained);
  Status make_way(const DatasetDescriptor& dataset, const std::string& directory_name,
                  const flush::RankFiles& files);
  Status verify_in_prefix(const DatasetDescriptor& dataset, const std::string& directory_name,
                          const flush::RankFiles& files);
  Status read_or_repair(const std::string& directory_name, const flush::RankFiles& files,
                        const std::function<Status()>& read);
  Result<std::optional<flush::RankFiles>> shared_files_of(const std::string& directory);
  // Whether a restart reads the files in the prefix directory where they are.
  bool reads_in_place() const;
  Status offer_in_place(const DatasetDescriptor& dataset, const std::string& directory_name,
                        flush::RankFiles files);
  bool is_in_place(const CachedDataset* candidate) const {
    return in_place_ && candidate == &in_place_->dataset;
  }
  Status fetch_in_turns(
      const flush::RankFiles& files, const std::string& what,
      const std::function<Status(const std::function<void(std::uint64_t)>& progress)>& read);
  Status read_to_cache(const std::string& directory_name, const flush::RankFiles& files);
  Status check_fetched(const flush::RankFiles& files);
  void mark_fetched(const std::string& directory_name, bool ok, bool make_current);

  // --- writing (runtime_write.cpp, runtime_bypass.cpp)

  DatasetDescriptor describe(const std::string& name, int flags);
  Status announce(const std::string& name, int flags);
  Status begin_writing(bool fetching = false);
  Result<std::string> route_for_writing(const std::string& absolute,
                                        const std::string& shared = {});
  Result<std::string> relative_to_prefix(const std::string& absolute) const;
  Status check_writers();
  Status check_routes() const;
  Status record_files(bool valid);
  void plan_containers(const FilemapEntry& entry, flush::FlushDescriptor& descriptor);
  Status encode();
  Status seal();
  Status complete_bypassed(bool valid);
  Result<bool> is_committed(const std::string& directory);
  Status abandon(const Status& why);
  void end_writing(const Status& status);

  // --- what is in the cache (runtime_cache.cpp)

  // Collective: room for one more dataset like the last on every node?
  bool has_room(const Store& store);
  void expect_bytes(std::uint64_t bytes);
  // Collective: the same after the oldest datasets that are in the prefix directory, too, have left
  // the cache; none leaves if that would not be enough.
  bool evict_flushed(const Store& store);
  // Removes the oldest datasets of a store until `keep` are left; keeps output that is only here.
  Status evict(const std::string& store, std::uint64_t keep);
  std::string agree_on_store(int dataset);
  bool may_leave(const CachedDataset& cached) const;
  void verify_own_files(int dataset);
  Status remember(const CachedDataset& dataset);
  Status forget(int dataset);
  Status save_flush_file();
  CachedDataset* find_cached(const std::string& name);
  CachedDataset* find_cached_id(int id);

  // --- restart (runtime_restart.cpp)

  Status restore();
  Status check_expendable();
  Status clear_cache(std::string_view why);
  CachedDataset* restart_candidate();
  Result<std::string> route_for_reading(const std::string& absolute);
  void offer_older_than(const DatasetDescriptor& failed);

  // --- datasets by name (runtime_datasets.cpp)

  Status end_flushes_of(const std::function<bool(const DatasetDescriptor&)>& leaving);
  // The newest dataset of a name.
  struct Named {
    DatasetDescriptor dataset;
    std::string directory;  // in the prefix directory, below .scr; empty if it is not there
    bool complete = false;  // there
  };
  Result<Named> find_named(const std::string& name);
  Status flush_for_current(Named& named);
  Status drop_newer_cached(const DatasetDescriptor& current);
  CachedDataset* find_cached_dataset(const DatasetDescriptor& dataset);
  Status forget_named(const DatasetDescriptor& dataset);
  Status unknown_dataset(const std::string& name);
  Status check_no_dataset_in_hand(std::string_view call) const;

  std::unique_ptr<Context> context_;
  RunLock run_lock_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Flusher> flusher_;
  std::optional<JobOwner> owner_;
  std::unique_ptr<File> prefix_lock_;         // on rank 0
  bool prefix_is_shared_ = false;             // with other processes that work alone
  std::optional<JobOwnerInfo> prefix_owner_;  // on rank 0, if signs of life are written there
  EventLog log_;
  EventToken run_event_;
  EventToken compute_event_;
  Observer on_forget_;
  std::function<bool(const FilemapEntry&)> on_abandon_;
  CheckpointTimer timer_;
  FlushFile flush_file_;
  std::vector<DatasetDescriptor> cut_flushes_;  // on rank 0: failed in this run, and left something
  bool flush_overdue_ = false;                  // the last flush of a checkpoint has failed
  // Bytes of this rank, of datasets of this run that are in the prefix directory alone, by name.
  std::map<std::string, std::uint64_t> flushed_bytes_;
  std::vector<DatasetDescriptor> to_resume_;
  std::vector<CachedDataset> cached_;  // ascending by id, the same on all ranks
  std::optional<DatasetInWriting> writing_;
  std::map<std::string, std::uint32_t> known_checksums_;  // of its files, see note_checksum()
  // A checkpoint that a restart reads where it is in the prefix directory.
  struct InPlace {
    CachedDataset dataset;
    flush::RankFiles files;  // of this rank
  };
  std::optional<InPlace> in_place_;
  bool in_restart_ = false;
  JobLimits limits_;  // on rank 0
  bool must_exit_ = false;
  int restart_below_ = 0;  // restart candidates have smaller ids; 0: any
  int last_dataset_ = 0;
  int last_checkpoint_ = 0;
  std::int64_t last_created_ = 0;      // on rank 0: no dataset that is known is newer
  std::uint64_t last_node_bytes_ = 0;  // what the last dataset took on this node
  std::uint64_t last_available_ = 0;   // the room that it found there
  bool outgrown_ = false;              // that was not enough for this process
};

}  // namespace scr
