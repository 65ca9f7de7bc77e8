// Session: what h5scr does for a program that does not know of it. One per process, shared by all
// front ends.
//
// Front ends open files through it. A file that is created under a routed name is written to the
// cache, in the present *window*, the dataset of all that is written until it is sealed
// (runtime.hpp). Files of an earlier dataset are never changed in place. A read gets the newest
// copy there is.
//
// Where windows are sealed: with MPI at the collective points of the program (vote() and decide(),
// called by the MPI hooks); in a process by itself whenever the last routed file is closed. All
// else is local: no call of a front end ever waits for another rank, except where a ROUTE rule says
// COMPLETE=CLOSE.
//
// Any thread may call. After fork() the child passes everything through. What h5scr cannot do (no
// configuration, no room for its directories, another job in the prefix directory) is said once,
// and the program runs as without it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/routing/file_names.hpp"
#include "core/routing/given_files.hpp"
#include "core/routing/marker_store.hpp"
#include "core/routing/node_services.hpp"
#include "core/routing/presence.hpp"
#include "core/routing/route_rules.hpp"
#include "core/routing/routed_file.hpp"
#include "core/routing/run_report.hpp"
#include "core/runtime/runtime.hpp"
#include "core/shared_file/log_file.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::routing {

struct SharedOpen;

class Session {
 public:
  // The one of this process; it is never destroyed, since files may be closed after main().
  static Session& process();
  explicit Session(FileSystem& fs);  // tests
  ~Session();

  // --- front ends

  struct Opened {
    std::unique_ptr<File> file;
    RoutedFile* routed = nullptr;  // the same, if it is not simply the file of that name
    std::optional<FileInfo> info;  // if it has been looked at
  };
  // Opens as the options say. `swmr`: for a writer and readers at the same time, which files that
  // are not at their names cannot offer.
  Result<Opened> open(std::string_view name, const OpenOptions& options, bool swmr = false);
  // Deletes a file: the copy in the window, and what is at the name.
  Status remove(std::string_view name);
  // unlink(), rename() and truncate() of the program. False: nothing to do with h5scr, do the
  // system call.
  Result<bool> unlinked(std::string_view name);
  Result<bool> truncated(std::string_view name, std::uint64_t size);
  enum class Rename { kReplace, kNoReplace, kExchange };  // as the flags of renameat2()
  Result<bool> renamed(std::string_view from, std::string_view to, Rename how = Rename::kReplace);
  Result<bool> linked(std::string_view from, std::string_view to);
  // The program is about to start another one by this command, which knows nothing of the cache;
  // and the command has ended.
  void starts_command(std::string_view command);
  void ends_command();
  // How many files this thread has opened here so far, routed or not.
  static std::uint64_t opens_of_thread() { return opens_; }
  // The program has opened a file for writing with a driver that h5scr does not serve: warns, once,
  // if a rule is for it.
  void went_past(std::string_view name);

  // As routing::open_shared() (shared_open.hpp).
  Result<std::unique_ptr<shared_file::SharedFile>> open_shared(
      const std::shared_ptr<Communicator>& comm, const SharedOpen& how);

  std::map<std::string, std::string> hints_in_force(const SharedOpen& how);

  // Settings as for SCR_Config, before the first file is opened; from the front end's own source.
  Status configure(const std::vector<std::string>& calls);
  // Nobody calls unlinked() and renamed() for this process.
  void names_are_not_watched() { names_are_watched_ = false; }
  // SCR_VFD_TRACE, for the front end; empty if it is not set.
  std::string trace_file();

  // --- the life of the process

  // Collective: takes over a runtime that has just been started with all ranks of the program, and
  // with these settings of the front end.
  void attach(std::unique_ptr<Runtime> runtime, const std::vector<std::string>& calls = {});
  // Passes everything through from here on.
  void disable() { off_ = true; }
  // From here on files are written as without h5scr, but what is in a cache or a container is
  // found.
  void only_read() { only_reads_ = true; }
  // The program will call SCR_Init, as it seems: until then, or until it writes a file that is to
  // be protected, nothing is done. Such a file is written as without h5scr, and noted.
  // The same on all ranks of the program, whatever they find in their configuration.
  void wait_for_need() { waits_ = true; }
  bool waits() const { return waits_; }
  void note_need(const SharedOpen& how);
  bool is_needed() const { return needed_; }
  void wait_no_more() { waits_ = false; }
  // Not collective: files of programs that do not call SCR_* are known of that are not at their
  // names. Nothing is said or decided here, not even about a configuration that is wrong.
  bool has_files_elsewhere() const;
  // SCR_Init: the program does all by itself from here on. As finish(), but nothing is flushed,
  // written or said if no file was routed.
  void give_way();
  // Collective if attached: seals what can be sealed, moves files that are still open to their
  // names, flushes, and prints one line. Afterwards everything passes through.
  void finish();
  bool attached() const { return attached_; }

  // What a rank brings to a collective point: each number is to be reduced to the largest of all
  // ranks.
  using Vote = std::array<std::int64_t, 4>;
  Vote vote();
  // Collective, with the reduced votes: seals the window if there is something to seal. True if
  // something happened or is about to: look again soon.
  bool decide(const Vote& votes);
  // True in a thread that is sealing: its collective calls are h5scr's own.
  static bool is_sealing() { return sealing_depth > 0; }
  // A halt condition holds: the front end ends the run.
  bool must_exit() const { return runtime_ && runtime_->must_exit(); }

 private:
  friend class RoutedFile;

  // A file of this process in the present window.
  struct WindowFile {
    Route route;
    std::string path;  // of the data
    Marker marker;
    int open = 0;
    Status failure;                      // of the first write that failed
    std::shared_ptr<Presence> presence;  // from the first open to the last close
  };
  // The newest copy of a file.
  struct Copy {
    enum class Where { kNowhere, kPlain, kCache, kRemote, kStored, kShared };
    Where where = Where::kNowhere;
    std::string path;  // in the cache
    int dataset = 0;
    std::int64_t created = 0;      // of the dataset, if this process has no runtime
    bool flushed = false;          // the same dataset, is in the prefix directory
    Marker marker;                 // if there is one
    std::uint64_t generation = 0;  // of the marker
    bool lost = false;             // nowhere, but its marker is there
    std::string prefix;            // of a stored one
    std::optional<flush::StoredLocation> stored;
  };
  // What there is of a name beside the window and what is at the name.
  struct Older {
    std::optional<Marker> note;  // by which the newest version that is not at the name is forgotten
    std::optional<Marker> before;           // the note that there is
    std::map<int, std::int64_t> unflushed;  // datasets that have the name, and when it was written
  };
  // A file of an earlier dataset that was renamed in this window.
  struct Renamed {
    Copy copy;  // under the old name
    Route route;
    std::string to;  // absolute
    std::int64_t written = 0;
    ino_t left = 0;  // inode of an older file that is still at the old name; 0 if there is none
  };

  // This process's part of a file of the window that several write together.
  struct SharedWindowFile {
    Route route;
    std::string path;  // of the log
    Marker marker;     // put by the first rank
    std::uint64_t log_id = 0;
    int first_rank = 0;
    int processes = 0;
    int number = 0;
    bool open = false;
    bool noted = false;                    // there is a marker already, although it is open
    bool gone = false;                     // this process has deleted it while it was open
    shared_file::LogFile* file = nullptr;  // while it is open
    int passed = 0;                        // as of RoutedFile
    std::chrono::steady_clock::time_point opened;
    std::shared_ptr<SharedWindowFile> older;  // of the same window, which this one has bytes of
  };
  // A file that this process has open while its snapshots are in windows (session_snapshot.cpp).
  struct LiveFile {
    std::vector<RoutedFile*> handles;  // at least one
    Status failure;                    // of the first write that failed
  };

  static thread_local int sealing_depth;
  static thread_local std::uint64_t opens_;
  struct Sealing {
    Sealing() { ++sealing_depth; }
    ~Sealing() { --sealing_depth; }
    Sealing(const Sealing&) = delete;
    Sealing& operator=(const Sealing&) = delete;
  };

  bool passive() const;
  // Config and job of this process, for decisions before there is a runtime.
  const config::Config* config();
  Result<config::Config> read_config(const std::vector<std::string>& calls) const;
  void use(config::Config config);
  const std::string& prefix() { return names_.prefix(); }
  MarkerStore& markers();
  bool has_note(const std::string& relative);
  std::string host() const;
  // A runtime for this process alone. False: pass through.
  bool start_alone();
  bool open_window();

  // session_find.cpp
  Result<Copy> find(const Route& route, const std::string& absolute);
  Result<Copy> find_stored(const std::string& absolute, std::optional<Marker> marker);
  std::optional<Copy> find_in_cache(const std::string& relative,
                                    const std::optional<Marker>& marker);
  std::optional<Copy> find_version(const Marker& marker);
  void tell_of_missing_marker(const Marker& marker, const std::string& absolute);
  bool is_sound(const CachedDataset& dataset, const std::string& relative, const std::string& path);
  bool at_name_is_newer(const FileInfo& info, const Copy& copy);
  void tell_of_newer(const std::string& absolute, const Marker& marker);
  Result<std::unique_ptr<File>> open_copy(const Copy& copy, const std::string& absolute);
  bool is_own(const std::string& absolute, const Copy& copy);
  bool is_shared_here(const Marker& marker) const;

  // session_open.cpp
  Result<Opened> open_plain(std::string_view name, const OpenOptions& options);
  Result<Opened> open_in_place(std::string_view name, const OpenOptions& options);
  Result<Opened> create(const Route& route, const std::string& absolute, std::string_view name,
                        const OpenOptions& options);
  Result<Opened> open_existing(const Route& route, const std::string& absolute,
                               std::string_view name, const OpenOptions& options, bool swmr);
  // How a file of the window is opened for writing: with new contents, or with those that it has,
  // which are made if it has none, or with those that it must have.
  enum class InWindow { kAnew, kMake, kJoin };
  Result<std::unique_ptr<File>> open_in_window(const Route& route, const std::string& absolute,
                                               std::uint64_t generation, InWindow how,
                                               const std::function<Status(File&)>& fill = {});
  Result<std::unique_ptr<File>> open_present(const std::string& relative, const std::string& path,
                                             std::shared_ptr<Presence>& presence, InWindow how,
                                             const std::function<Status(File&)>& fill);
  std::optional<Marker> marker_in_window(const std::string& relative);
  bool is_real(const std::string& absolute);
  bool joins_at_name(File& plain);
  Result<Opened> open_once(const Route& route, const std::string& absolute, std::string_view name,
                           const OpenOptions& options, bool swmr);
  void leave_window(const std::string& absolute);
  WindowFile* file_in_window(const std::string& absolute);
  WindowFile& enter_window(const Route& route, const std::string& absolute, const std::string& path,
                           std::uint64_t generation);

  // session_update.cpp
  Status become_writer(RoutedFile& file);
  Status begin_update(RoutedFile& file);
  Status change_at_name(RoutedFile& file, const Status& why);
  bool gave_way(RoutedFile& file, const Status& why);
  void tell_no_room(const std::string& absolute);
  void note_no_room();
  Status flushed(RoutedFile& file);
  void failed(RoutedFile& file, const Status& why);
  Status closed(RoutedFile& file, const Status& status);
  Status closed_beside_others(const std::string& absolute);
  void drop_failed(const std::string& absolute);
  Status move_flushed(RoutedFile& file);
  bool is_alone_with(const RoutedFile& file);
  void move_flushed_files();
  void move_passed_files();
  // Copies an open file to its name in the prefix directory, where it lives on.
  Status move_to_name(RoutedFile& file);
  Status bring_to_name(const std::string& absolute);
  Status rename_durably(const std::string& from, const std::string& to);
  Result<std::unique_ptr<File>> write_at_name(File& source, const std::string& to, int lock);
  bool must_be_at_names();
  Status forget_file(const std::string& absolute);

  // session_snapshot.cpp
  bool keeps_snapshots(const RoutedFile& file);
  Status keep_snapshot(RoutedFile& file);
  Status seal_snapshot(const std::string& absolute);
  Status write_snapshot(RoutedFile& file);
  bool take_changes(RoutedFile& file);
  Status replace_in_window(File& source, const std::string& absolute, const std::string& path);
  Status stop_snapshots(RoutedFile& file, const Status& why);
  Status move_live(const std::string& absolute);
  void end_live();
  Result<Opened> open_live(const std::string& absolute, const OpenOptions& options, bool swmr);
  Status closing(RoutedFile& file);
  Status closed_live(RoutedFile& file);
  Status refuse_if_live(const std::string& absolute, std::string_view what) const;
  void forget_live(const std::string& absolute);

  // session_names.cpp
  bool is_at_name(const Copy& copy, const std::string& absolute);
  Result<bool> renamed_in_cache(const Copy& copy, const Route& old_route, const Copy& replaced,
                                const Route& route);
  Result<bool> renamed_away(const Copy& copy, const Route& route, const std::string& from,
                            const std::string& to);
  void forget_replaced(const Copy& replaced, const std::string& absolute);
  Result<bool> replaced_by(std::string_view from, std::string_view to, const Route& route);
  Result<bool> replace_at_name(std::string_view from, std::string_view to, const Route& route,
                               const Copy& replaced);
  Result<Copy> find_to_change(const Route& route, const std::string& absolute);
  bool is_ended_copy(const std::string& absolute);
  bool is_link(const std::string& absolute);
  Status save_renamed(const std::string& absolute);
  void hide(const std::string& absolute);
  bool is_open_shared(const Copy& copy, const Route& route);
  Status refuse_if_open(const Copy& copy, const Route& route, std::string_view what);

  // session_let_go.cpp
  Status let_go(const Copy& copy, const Route& route, const std::string& absolute);
  Status let_go_in_window(const Copy& copy, const Route& route, const std::string& absolute);
  Status let_go_older(const Copy& copy, const Route& route, const std::string& absolute);
  void detach_writers(const std::string& absolute);
  Result<Older> older_versions(const Copy& copy, const std::string& relative);
  Status add_marked(Marker marker, Older& older);
  std::optional<Marker> stored_version(const std::string& relative);
  bool is_in_window(const Copy& copy, const std::string& absolute);
  void seal_if_all_closed();
  Status let_go_when_sealed(const Copy& copy, const Route& route, const std::string& from,
                            const std::string& to);
  void end_renames(bool sealed, const std::set<std::string>& written_again);
  void end_renames_to(const std::string& absolute);
  void end_rename(const std::string& from, const Renamed& renamed);
  static bool is_left_behind(const FileInfo& info, const Renamed& renamed);
  const Renamed* renamed_before(const std::string& absolute, const std::optional<Marker>& marker);
  std::int64_t time_written(const Copy& copy, const std::string& absolute);

  // session_directories.cpp
  Status move_open_file_to_name(const std::string& absolute, std::string_view what);
  // What becomes of the version in the cache when the file is brought to its name: it is what is
  // there, as after a flush, or it is let go.
  enum class Cached { kStays, kGoes };
  Status bring(const Route& route, const std::string& absolute, std::string_view what,
               Cached cached);
  Status leave_name(const std::string& relative, std::string_view what);
  Status refuse_if_there(const Route& route, std::string_view to);
  Status exchange(std::string_view from, std::string_view to);
  std::set<std::string> names_of_ours();
  bool is_open_here(const std::string& absolute);
  Result<bool> has_changed(const GivenFiles::Given& given, const std::string& absolute);
  Status settle_given(const std::string& name, const GivenFiles::Given& given);
  Result<bool> directory_leaves(const std::string& absolute);

  // session_shared_plan.cpp
  Route shared_route(const std::string& absolute, const SharedOpen& how);
  Route hinted_route(const SharedOpen& how);
  std::string name_to_claim(const SharedOpen& how);
  Hash claim_and_plan(const SharedOpen& how, int processes);
  void release_claim(const Hash& plan) const;
  std::string why_no_logs(const std::string& relative);
  Hash plan_shared(const SharedOpen& how, int processes);
  Hash plan_without_homes(const SharedOpen& how, int processes);

  // session_shared.cpp
  shared_file::OpenLog log_opener(int dataset, const std::string& relative, bool sealed);
  Result<std::unique_ptr<File>> open_version(const SharedOpen& how, const Hash& plan);
  std::unique_ptr<File> open_shared_copy(const Marker& marker);
  std::unique_ptr<shared_file::LogReader> reader_of(const Marker& marker);
  Result<std::unique_ptr<shared_file::LogReader>> read_version(const SharedOpen& how,
                                                               const Hash& plan);
  std::function<Result<std::unique_ptr<File>>()> flushed_copy(const Marker& marker);
  Result<std::unique_ptr<shared_file::SharedFile>> open_each(
      const std::shared_ptr<Communicator>& comm, const SharedOpen& how, const Hash& plan);
  Result<std::unique_ptr<shared_file::SharedFile>> open_logs(
      const std::shared_ptr<Communicator>& comm, const SharedOpen& how, const Hash& plan);
  struct LogsToOpen;
  Result<std::uint64_t> agree_generation(Communicator& comm, const Hash& plan,
                                         const std::string& relative);
  Status make_log(LogsToOpen& logs, std::uint64_t generation);
  void undo_log(const LogsToOpen& logs);
  void move_open_file(const std::string& absolute, const config::RouteRule* rule,
                      shared_file::LogFile& file, Communicator& comm);
  std::unique_ptr<shared_file::LogFile> file_of(LogsToOpen& logs);
  Result<std::unique_ptr<shared_file::SharedFile>> open_beyond_ids(Communicator& comm,
                                                                   const std::string& absolute,
                                                                   const Hash& plan);
  int first_rank_of(Communicator& comm) const;
  bool is_same_shared(const std::string& absolute, const Hash& plan, int processes);
  std::int64_t number_in_window(const std::string& absolute);
  std::int64_t agree_number(Communicator& comm, std::int64_t& next);
  Status enter_shared_window(SharedWindowFile& entry, const std::string& absolute,
                             std::int64_t number, std::uint64_t generation, bool goes_on,
                             std::unique_ptr<shared_file::Log>& log);
  Result<std::unique_ptr<shared_file::Log>> make_log(SharedWindowFile& entry);
  Status publish_log(const SharedWindowFile& entry);
  Status set_aside(const std::string& absolute, SharedWindowFile& entry);
  void put_back(const std::string& absolute, const SharedWindowFile& entry);
  void forget_older(SharedWindowFile& entry);
  Status shared_synced(const std::string& absolute);
  Status shared_closed(const std::string& absolute, const shared_file::LogFile::Closed& closed,
                       bool first);
  void forget_shared(const std::string& absolute);

  // session_shared_move.cpp
  Status move_shared(const std::string& absolute, shared_file::LogFile& file, Communicator& comm);
  void forget_moved(const std::string& absolute, std::string_view why);
  static std::string path_of_more(const std::string& absolute);
  void move_outgrown(const std::string& absolute, shared_file::LogFile& file, Communicator& comm);
  Status bring_together(Communicator& comm, const SharedOpen& how, const Hash& plan);
  Status copy_together(Communicator& comm, File& from, const std::string& to, mode_t mode);
  void move_passed_shared();
  void move_all_shared();
  void move_open_shared(std::string_view why,
                        const std::function<bool(const SharedWindowFile&)>& is_due);
  using WantsShared = std::function<bool(const std::string& absolute)>;
  using VisitShared =
      std::function<void(const std::string& absolute, const SharedWindowFile* file)>;
  void each_shared(const WantsShared& wants, const VisitShared& visit);
  void tell_where_log_stays(const std::string& name, const SharedWindowFile& file) const;
  void save_shared_conflicts(const std::set<std::string>& names);
  static std::string conflict_name(const std::string& absolute, int rank);
  static void tell_of_conflict(const std::string& absolute, const std::string& kept);
  bool write_out_together(const SharedWindowFile* file, const std::string& to);
  Status write_out(const SharedWindowFile& file, const std::string& to);
  bool rescue_shared();

  // session_seal.cpp
  bool has_open_writers() const {
    const auto is_open = [](const auto& entry) { return entry.second.open; };
    return !writers_.empty() || std::ranges::any_of(shared_window_, is_open);
  }
  bool has_something_to_seal() const {
    return !window_.empty() || !shared_window_.empty() || window_is_incomplete_;
  }
  void seal();
  bool renew_window();
  void count_close(const config::RouteRule* rule, std::unique_lock<std::mutex>& lock);
  void seal_at_close(std::unique_lock<std::mutex>& lock);
  void note_passed(bool waiting, std::int64_t closes);
  void drop_missing();
  void settle_versions();
  void drop_versions(const std::string& relative, const Hash& kinds);

  // session_markers.cpp
  using NewestVersions = std::map<std::string, int>;  // relative name -> dataset
  NewestVersions newest_cached(const std::set<int>& unreadable);
  bool announce_cached(const CachedDataset& dataset, const NewestVersions& newest);
  Status announce_entry(const FilemapEntry& entry, int& number, const NewestVersions& newest);
  Status announce_log(const FilemapEntry& entry, const FileMeta& meta, bool is_newest);
  void hide_shared(const FilemapEntry& entry);
  bool is_flushed(int dataset) const;
  bool is_flushed_again(const std::string& relative, int id);
  Status settle_deletion(const std::string& relative, int id);
  void note_dataset_flushed(int id);
  void adopt_restart();
  bool rescue(const FilemapEntry& entry);
  Result<std::set<std::pair<int, std::int64_t>>> datasets_in_prefix();
  void drop_marker(const Marker& marker);
  void forget_deletion(const std::string& relative, int id);
  void dataset_gone(const FilemapEntry& entry);
  void dataset_flushed(const FilemapEntry& entry);
  void settle_markers(const FilemapEntry& entry);
  void note_flushed();
  Marker make_marker(const std::string& relative, int dataset, std::int64_t created,
                     std::int64_t index, std::uint64_t generation) const;
  void publish(Marker marker, const std::string& path, bool at_start = false);
  // `at_start`: for what an earlier run has left in the cache.
  MarkerStore::Visible markers_visible(bool at_start = false);
  void point_to_container(Marker marker);
  bool settle_flushed(const Marker& marker);
  bool is_deleted(const std::string& relative, int dataset);

  // session.cpp
  void report_unrouted();
  void move_open_files();
  bool step_aside();
  void detach();
  void leave_nothing();

  FileSystem& fs_;
  const int pid_;
  mutable std::mutex mutex_;
  std::atomic<bool> off_ = false;  // pass everything through
  std::atomic<bool> attached_ = false;
  std::atomic<bool> only_reads_ = false;
  std::atomic<bool> waits_ = false;    // see wait_for_need()
  std::atomic<bool> needed_ = false;   // while it waits
  bool names_are_watched_ = true;      // the program's renames are seen
  bool seals_shared_ = false;          // some rank has one in the window being sealed
  bool window_is_incomplete_ = false;  // a file of this process could not be written
  bool window_is_outgrown_ = false;    // a file of this process had no room in it
  std::int64_t next_index_ = 0;        // of files in the window
  std::vector<std::string> calls_;
  std::unique_ptr<config::Config> config_;
  FileNames names_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Communicator> close_point_;  // where all meet who seal at a close
  std::unique_ptr<MarkerStore> markers_;
  std::map<std::string, WindowFile> window_;               // by absolute name
  std::map<std::string, SharedWindowFile> shared_window_;  // by absolute name
  std::set<std::string> shared_moved_;                   // open, and moved to their names; absolute
  std::map<std::string, std::uint64_t> dropped_shared_;  // deleted in this window: generation
  std::int64_t readers_ = 0;                             // numbers of shared files that are read
  std::uint64_t claims_ = 0;                             // of names, by this process
  std::vector<RoutedFile*> writers_;                     // open, of this process
  std::map<std::string, LiveFile> live_;                 // by absolute name
  std::map<const config::RouteRule*, std::uint64_t> closes_;  // in this window
  std::int64_t closed_in_all_ = 0;                            // files of this process
  std::int64_t closes_seen_ = 0;            // the most of any process, at the last look
  std::set<int> flushed_;                   // datasets that are known to have been
  std::map<std::string, int> hidden_;       // absolute name -> cached copies up to this dataset
  std::map<std::string, Renamed> renamed_;  // in this window, by the name that they had
  // dataset -> names that the program has deleted, and when the file that had it was written; of
  // those that another file has got by a rename, kReplaced
  static constexpr std::int64_t kReplaced = -1;
  std::map<int, std::map<std::string, std::int64_t>> gone_;

  NodeServices services_;
  RunReport report_;
  GivenFiles given_;
};

}  // namespace scr::routing
