// Files that several processes of a run write together (MPI-IO): opening, closing, finding them
// again.
//
// Each process writes to a log of its own (core/shared_file), which is a file of the window like
// any other. No lock is held in a collective call: what is collective comes first or last, and the
// steps between are each process's own.
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <mutex>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"
#include "core/shared_file/file_backed.hpp"
#include "core/shared_file/log_file.hpp"

namespace scr::routing {

namespace {

using shared_file::LogFile;
using shared_file::SharedFile;

// Ids of files that are only read have datasets that do not exist.
constexpr std::int64_t kReaderDataset = (std::int64_t{1} << 28) - 1;
constexpr std::int64_t kFilesOfDataset = std::int64_t{1} << 12;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

OpenOptions options_of(const SharedOpen& how, bool exists) {
  OpenOptions options;
  if (how.write) options.access = OpenOptions::Access::kReadWrite;
  options.create = how.create && !exists;
  options.exclusive = options.create && how.exclusive;
  options.no_follow = false;
  return options;
}

}  // namespace

// The newest version of the file, for reading, as this process can reach it.
Result<std::unique_ptr<File>> Session::open_version(const SharedOpen& how, const Hash& plan) {
  if (auto text = plan.value("SHARED")) {
    SCR_ASSIGN_OR_RETURN(const Marker marker, decode(std::as_bytes(std::span(*text))));
    const std::lock_guard lock(mutex_);
    return open_shared_copy(marker);
  }
  OpenOptions options;
  options.no_follow = false;
  SCR_ASSIGN_OR_RETURN(Opened opened, open(how.name, options));
  return std::move(opened.file);
}

shared_file::OpenLog Session::log_opener(int dataset, const std::string& relative, bool sealed) {
  return [this, open = services_.dataset_logs(dataset, sealed), relative,
          more = path_of_more(prefix() + "/" + relative)](const shared_file::LogPlace& place) {
    return place.id == shared_file::kMore.id ? fs_.open(more, OpenOptions::read())
                                             : open(relative, place);
  };
}

std::unique_ptr<shared_file::LogReader> Session::reader_of(const Marker& marker) {
  const bool sealed = marker.dataset != runtime_->window();
  auto reader = std::make_unique<shared_file::LogReader>(
      services_.homes(), marker.id, log_opener(marker.dataset, marker.file, sealed), sealed);
  reader->set_elsewhere(flushed_copy(marker));
  return reader;
}

std::unique_ptr<File> Session::open_shared_copy(const Marker& marker) {
  return shared_file::as_file(reader_of(marker), prefix() + "/" + marker.file);
}

// The same as a reader. A file of several processes is read from their logs with
// nothing in between, so that all pieces of a call are known to its reader.
Result<std::unique_ptr<shared_file::LogReader>> Session::read_version(const SharedOpen& how,
                                                                      const Hash& plan) {
  if (auto text = plan.value("SHARED")) {
    SCR_ASSIGN_OR_RETURN(const Marker marker, decode(std::as_bytes(std::span(*text))));
    const std::lock_guard lock(mutex_);
    return reader_of(marker);
  }
  SCR_ASSIGN_OR_RETURN(auto file, open_version(how, plan));
  SCR_ASSIGN_OR_RETURN(const FileInfo info, file->info());
  auto reader =
      std::make_unique<shared_file::LogReader>(services_.homes(), 0, shared_file::OpenLog(),
                                               /*sealed=*/true);
  reader->set_whole(std::move(file), info.size);
  return reader;
}

// Opens what was flushed since the marker was put. It is the same file if it is of this very
// dataset, checked as a whole.
std::function<Result<std::unique_ptr<File>>()> Session::flushed_copy(const Marker& marker) {
  return [&fs = fs_, prefix = prefix(), file = marker.file, id = marker.dataset,
          created = marker.created]() -> Result<std::unique_ptr<File>> {
    SCR_ASSIGN_OR_RETURN(const auto location, flush::locate(fs, prefix, file, id));
    if (location.dataset.created != created || !location.dataset.complete) {
      return not_found(fmt::format("'{}' of dataset {} is not in '{}'", file, id, prefix));
    }
    return flush::open_stored(fs, prefix, location, flush::Verify::kWhole);
  };
}

// A file of one process, or one that is only read: each opens it as any program would.
Result<std::unique_ptr<SharedFile>> Session::open_each(const std::shared_ptr<Communicator>& comm,
                                                       const SharedOpen& how, const Hash& plan) {
  if (comm->size() == 1) {
    (void)hinted_route(how);
    auto opened = open(how.name, options_of(how, plan.value("EXISTS") == "1"));
    RoutedFile* routed = opened.ok() ? opened->routed : nullptr;
    return shared_file::open_file_backed(
        comm,
        opened.ok() ? Result<std::unique_ptr<File>>(std::move(opened->file)) : opened.status(),
        {.closed = [this, plan] { release_claim(plan); },
         .synced = [routed] { return routed != nullptr ? routed->flush_hint() : Status(); }});
  }
  auto reader = read_version(how, plan);
  const auto size = reader.ok() ? (*reader)->size() : Result<std::uint64_t>(reader.status());
  SCR_RETURN_IF_ERROR(agree_all(*comm, size.status(), "opening a file"));
  const std::int64_t agreed = agree_number(*comm, readers_);
  LogFile::Options options;
  const std::int64_t first = first_rank_of(*comm);
  SCR_ASSIGN_OR_RETURN(options.id, service::make_id(kReaderDataset - agreed / kFilesOfDataset,
                                                    first, agreed % kFilesOfDataset));
  options.comm = comm;
  options.place.rank = static_cast<std::uint32_t>(runtime_->context().rank());
  options.name = how.name;
  const bool is_first = comm->rank() == 0;
  options.closed = [homes = services_.homes(), id = options.id, is_first](const LogFile::Closed&) {
    if (is_first) (void)homes->drop(id);
    return Status();
  };
  // Its homes know of pointer and lock only.
  Status status;
  if (is_first) status = services_.homes()->create(options.id, *size);
  SCR_RETURN_IF_ERROR(agree_all(*comm, status, "opening a file"));
  return std::unique_ptr<SharedFile>(
      std::make_unique<LogFile>(options, services_.homes(), nullptr, *std::move(reader)));
}

// Collective: the rank in the run of the communicator's first.
int Session::first_rank_of(Communicator& comm) const {
  const std::int64_t mine = comm.rank() == 0 ? runtime_->context().rank() : -1;
  return static_cast<int>(comm.all_reduce(mine, ReduceOp::kMax));
}

// What opening a file with logs finds out, step by step.
struct Session::LogsToOpen {
  std::shared_ptr<Communicator> comm;
  const Hash& plan;
  std::string absolute;
  SharedWindowFile entry;
  bool goes_on = false;  // with a file of this window
  std::int64_t number = 0;
  std::shared_ptr<File> base;  // the version that is changed
  std::uint64_t base_size = 0;
  std::unique_ptr<shared_file::Log> log;
};

// Collective. Any of them may have deleted the file before, and the new one is not to go with it.
Result<std::uint64_t> Session::agree_generation(Communicator& comm, const Hash& plan,
                                                const std::string& relative) {
  std::uint64_t generation = 0;
  if (auto text = plan.value("GENERATION")) {
    SCR_ASSIGN_OR_RETURN(generation, plan.require_uint("GENERATION"));
  }
  {
    const std::lock_guard lock(mutex_);
    const auto dropped = dropped_shared_.find(relative);
    if (dropped != dropped_shared_.end()) generation = std::max(generation, dropped->second + 1);
  }
  return comm.all_reduce(generation, ReduceOp::kMax);
}

// Not collective: the log of this process, and what the homes must know.
Status Session::make_log(LogsToOpen& logs, std::uint64_t generation) {
  SCR_RETURN_IF_ERROR(enter_shared_window(logs.entry, logs.absolute, logs.number, generation,
                                          logs.goes_on, logs.log));
  if (logs.base) {
    SCR_ASSIGN_OR_RETURN(const FileInfo info, logs.base->info());
    logs.base_size = info.size;
  }
  if (logs.comm->rank() != 0) return {};
  SCR_RETURN_IF_ERROR(services_.homes()->create(logs.entry.marker.id, logs.base_size));
  return services_.homes()->set_pointer(logs.entry.marker.id, 0);
}

// Another process could not open it.
void Session::undo_log(const LogsToOpen& logs) {
  const std::uint64_t id = logs.entry.marker.id;
  if (logs.comm->rank() == 0 && !logs.goes_on && id != 0) (void)services_.homes()->drop(id);
  const std::lock_guard lock(mutex_);
  if (logs.log && logs.goes_on) {  // as it was closed: the log changes at the first write only
    shared_window_.at(logs.absolute).open = false;
  } else if (logs.log) {  // else there is only what was there before
    forget_shared(logs.absolute);
  }
}

// A file that stays open and is flushed again and again is moved to its name.
void Session::move_open_file(const std::string& absolute, const config::RouteRule* rule,
                             LogFile& file, Communicator& comm) {
  if (!move_shared(absolute, file, comm).ok()) return;
  const std::lock_guard lock(mutex_);
  if (rule != nullptr && rule->snapshot && comm.rank() == 0) {
    report_.warn_once(
        fmt::format("'{}' is not kept at each flush", absolute),
        fmt::format("SNAPSHOT=1 of ROUTE={} has no effect on files that several processes "
                    "have open together",
                    rule->pattern));
  }
  forget_moved(absolute, "is kept open and flushed");
}

// The log becomes a file whose closing and syncing this session hears of.
std::unique_ptr<LogFile> Session::file_of(LogsToOpen& logs) {
  const std::string& absolute = logs.absolute;
  const SharedWindowFile& entry = logs.entry;
  auto reader = std::make_unique<shared_file::LogReader>(
      services_.homes(), entry.marker.id,
      log_opener(entry.marker.dataset, entry.route.relative, /*sealed=*/false), /*sealed=*/false);
  if (logs.base) reader->set_base(logs.base, logs.base_size);
  LogFile::Options options;
  options.comm = logs.comm;
  options.id = entry.marker.id;
  options.place = {static_cast<std::uint32_t>(runtime_->context().rank()),
                   static_cast<std::uint32_t>(services_.node()), entry.log_id};
  options.first_rank = static_cast<std::uint32_t>(entry.first_rank);
  options.number = static_cast<std::uint32_t>(logs.number);
  options.name = absolute;
  options.goes_on = logs.goes_on;
  options.created = logs.plan.value("EXISTS") != "1";
  options.closed = [this, absolute, plan = logs.plan,
                    first = logs.comm->rank() == 0](const LogFile::Closed& closed) {
    const Status known = shared_closed(absolute, closed, first);
    if (first) release_claim(plan);
    return known;
  };
  options.gone = [this, absolute] {
    const std::lock_guard lock(mutex_);
    const auto known = shared_window_.find(absolute);
    return known != shared_window_.end() && known->second.gone;
  };
  // Others can open the file once it is synced, but what it has of an older version they would not
  // find.
  if (!logs.base) options.synced = [this, absolute] { return shared_synced(absolute); };
  options.stays_open = [this, absolute, comm = logs.comm, rule = entry.route.rule](LogFile& file) {
    move_open_file(absolute, rule, file, *comm);
  };
  options.open_more = [this, absolute] {
    OpenOptions how = OpenOptions::read_write();
    how.create = how.no_follow = true;
    how.mode = temporary_mode(fs_, absolute);
    return fs_.open(path_of_more(absolute), how);
  };
  options.outgrown = [this, absolute, comm = logs.comm](LogFile& file) {
    move_outgrown(absolute, file, *comm);
  };
  return std::make_unique<LogFile>(options, services_.homes(), std::move(logs.log),
                                   std::move(reader));
}

// A new version of a file, or one of this window that is gone on with.
Result<std::unique_ptr<SharedFile>> Session::open_logs(const std::shared_ptr<Communicator>& comm,
                                                       const SharedOpen& how, const Hash& plan) {
  LogsToOpen logs{comm, plan, {}, {}, false, 0, nullptr, 0, nullptr};
  logs.entry.route = hinted_route(how);
  const std::string absolute = prefix() + "/" + logs.entry.route.relative;
  logs.absolute = absolute;
  logs.entry.first_rank = first_rank_of(*comm);
  logs.entry.processes = comm->size();
  logs.goes_on = comm->all_true(is_same_shared(absolute, plan, comm->size()));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t generation,
                       agree_generation(*comm, plan, logs.entry.route.relative));
  Status status;
  if (!logs.goes_on && plan.value("EXISTS") == "1") {
    auto file = open_version(how, plan);
    status = file.status();
    if (file.ok()) logs.base = std::move(*file);
  }
  logs.number = logs.goes_on ? number_in_window(absolute) : agree_number(*comm, next_index_);
  if (logs.number >= kFilesOfDataset) return open_beyond_ids(*comm, absolute, plan);
  if (status.ok()) status = make_log(logs, generation);
  status = agree_all(*comm, status, "opening a shared file");
  if (!status.ok()) {
    undo_log(logs);
    return status;
  }
  std::unique_ptr<LogFile> file = file_of(logs);
  const std::lock_guard lock(mutex_);
  if (auto known = shared_window_.find(absolute); known != shared_window_.end()) {
    known->second.file = file.get();
    known->second.passed = 0;
    known->second.opened = std::chrono::steady_clock::now();
  }
  return std::unique_ptr<SharedFile>(std::move(file));
}

// The files of a window have used up the ids that the service can give, the same on all processes.
Result<std::unique_ptr<SharedFile>> Session::open_beyond_ids(Communicator& comm,
                                                             const std::string& absolute,
                                                             const Hash& plan) {
  const std::string limit =
      fmt::format("a process can have {} files in a dataset", kFilesOfDataset);
  if (plan.value("AT_NAME") != "1") {
    return failed_precondition(fmt::format(
        "there can be no new version of '{}' in this dataset, and the old one is not at its name: "
        "{}; let all processes meet with no routed file open, so that the dataset is sealed",
        absolute, limit));
  }
  if (comm.rank() == 0) {
    const std::lock_guard lock(mutex_);
    report_.warn_once("files of several processes are opened as without h5scr",
                      limit + "; it ends when all processes meet with no routed file open");
    release_claim(plan);
  }
  return std::unique_ptr<SharedFile>();
}

// The file was written in this window by the same processes, and is closed.
bool Session::is_same_shared(const std::string& absolute, const Hash& plan, int processes) {
  const std::lock_guard lock(mutex_);
  const auto known = shared_window_.find(absolute);
  return known != shared_window_.end() && !known->second.open && !known->second.gone &&
         known->second.processes == processes &&
         plan.value("ID") == std::to_string(known->second.marker.id);
}

std::int64_t Session::number_in_window(const std::string& absolute) {
  const std::lock_guard lock(mutex_);
  return shared_window_.at(absolute).number;
}

// Collective: a number that is the same on all processes, and that none of them has given to
// another file; other threads may be about to agree on one for theirs.
std::int64_t Session::agree_number(Communicator& comm, std::int64_t& next) {
  for (;;) {
    std::int64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = next;
    }
    number = comm.all_reduce(number, ReduceOp::kMax);
    bool free = false;
    {
      const std::lock_guard lock(mutex_);
      free = number >= next;
      if (free) next = number + 1;
    }
    if (comm.all_true(free)) return number;
  }
}

// Lists the log of this process in the window and makes it.
Status Session::enter_shared_window(SharedWindowFile& entry, const std::string& absolute,
                                    std::int64_t number, std::uint64_t generation, bool goes_on,
                                    std::unique_ptr<shared_file::Log>& log) {
  const std::lock_guard lock(mutex_);
  const DatasetDescriptor& dataset = runtime_->window_dataset();
  const std::string& relative = entry.route.relative;
  entry.number = static_cast<int>(number);
  next_index_ = std::max(next_index_, number + 1);  // the window may have been sealed since
  SCR_ASSIGN_OR_RETURN(entry.log_id,
                       service::make_id(dataset.id, runtime_->context().rank(), number));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t id,
                       service::make_id(dataset.id, entry.first_rank, number));
  entry.marker = make_marker(relative, dataset.id, dataset.created, 0, generation);
  entry.marker.id = id;
  entry.marker.shared = true;
  if (goes_on) {
    entry = shared_window_.at(absolute);
    entry.marker.generation = std::max(entry.marker.generation, generation);
    SCR_ASSIGN_OR_RETURN(log, shared_file::Log::reopen(fs_, entry.path));
  } else {
    SCR_RETURN_IF_ERROR(set_aside(absolute, entry));
    auto made = make_log(entry);
    if (!made.ok()) {
      (void)runtime_->unregister_file(shared_file::log_name(absolute, runtime_->context().rank()));
      put_back(absolute, entry);
      return made.status();
    }
    log = std::move(*made);
    if (entry.first_rank == runtime_->context().rank()) report_.count_routed();
  }
  entry.open = true;
  shared_window_[absolute] = entry;
  return publish_log(entry);
}

Result<std::unique_ptr<shared_file::Log>> Session::make_log(SharedWindowFile& entry) {
  SCR_ASSIGN_OR_RETURN(entry.path, runtime_->route_log(entry.route.relative));
  return shared_file::Log::create(fs_, entry.path);
}

Status Session::publish_log(const SharedWindowFile& entry) {
  return services_.publish(runtime_->window(), entry.log_id, entry.path);
}

// An older version of the file in this window, of other processes: the new one has bytes of it
// until it is closed, so its log stays beside the new one. It is no file of the window any more.
Status Session::set_aside(const std::string& absolute, SharedWindowFile& entry) {
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end()) return {};
  auto older = std::make_shared<SharedWindowFile>(known->second);
  older->path += fmt::format(".{}", older->number);
  SCR_RETURN_IF_ERROR(fs_.rename(known->second.path, older->path));
  entry.older = older;
  shared_window_.erase(known);
  Status status = publish_log(*older);
  if (status.ok()) {
    status = runtime_->unregister_file(shared_file::log_name(absolute, runtime_->context().rank()));
  }
  if (!status.ok()) put_back(absolute, entry);
  return status;
}

// There is no new version after all.
void Session::put_back(const std::string& absolute, const SharedWindowFile& entry) {
  if (!entry.older) return;
  SharedWindowFile older = *entry.older;
  const std::string aside = older.path;
  auto path = runtime_->route_log(older.route.relative);
  Status status = path.status();
  if (status.ok()) {
    older.path = *path;
    status = fs_.rename(aside, older.path);
  }
  if (status.ok()) status = publish_log(older);
  if (!status.ok()) {
    window_is_incomplete_ = true;
    log::error("'{}' is lost, for its log cannot be put back: {}", absolute, status.message());
    return;
  }
  runtime_->note_checksum(older.path, std::nullopt);
  shared_window_[absolute] = older;
}

// The new version is complete.
void Session::forget_older(SharedWindowFile& entry) {
  if (!entry.older) return;
  services_.withdraw(entry.older->log_id);
  if (entry.older->first_rank == runtime_->context().rank()) {
    (void)services_.homes()->drop(entry.older->marker.id);
  }
  Status status = fs_.remove_if_exists(entry.older->path);
  if (!status.ok()) log::warning("{}", status.message());
  entry.older.reset();
}

// On the first process: processes that do not have the file open find what was written so far.
Status Session::shared_synced(const std::string& absolute) {
  const std::lock_guard lock(mutex_);
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end() || !runtime_) return {};
  if (known->second.noted || known->second.gone) return {};
  known->second.marker.written = now_ns();
  SCR_RETURN_IF_ERROR(markers_->put(known->second.marker, markers_visible()));
  known->second.noted = true;
  return {};
}

// --- closing -------------------------------------------------------------------------------------

Status Session::shared_closed(const std::string& absolute, const LogFile::Closed& closed,
                              bool first) {
  if (getpid() != pid_) return {};
  const std::lock_guard lock(mutex_);
  if (closed.plain) {
    shared_moved_.erase(absolute);
    return {};
  }
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end() || !runtime_) return {};
  SharedWindowFile& entry = known->second;
  entry.open = false;
  entry.file = nullptr;
  entry.gone = entry.gone || closed.gone;
  if (!closed.status.ok()) {
    window_is_incomplete_ = true;
    if (closed.status.code() == StatusCode::kNoSpace) note_no_room();
    if (first) {
      (void)fs_.remove_if_exists(path_of_more(absolute));
      log::error(
          "'{}' is dropped, for it could not be written: {}; an older file of that name stays",
          absolute, closed.status.message());
      (void)services_.homes()->drop(entry.marker.id);
      if (entry.noted) drop_marker(entry.marker);
    }
    forget_shared(absolute);
  } else if (!closed.written) {
    if (first) (void)services_.homes()->drop(entry.marker.id);
    if (first && entry.noted) drop_marker(entry.marker);
    forget_shared(absolute);
  } else {
    runtime_->note_checksum(entry.path, closed.log_crc);
    forget_older(entry);
    if (first && entry.gone) {  // the rest is dropped when the window is sealed
      if (entry.noted) drop_marker(entry.marker);
    } else if (first) {
      report_.count_bytes(closed.size);
      entry.marker.written = now_ns();
      Status status = markers_->put(entry.marker, markers_visible());
      if (!status.ok()) log::warning("{}", status.message());
    }
  }
  ++closed_in_all_;
  return {};
}

// Takes the log of this process out of the window.
void Session::forget_shared(const std::string& absolute) {
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end()) return;
  const SharedWindowFile entry = known->second;
  shared_window_.erase(known);
  services_.withdraw(entry.log_id);
  Status status = fs_.remove_if_exists(entry.path);
  if (status.ok()) {
    status = runtime_->unregister_file(shared_file::log_name(absolute, runtime_->context().rank()));
  }
  if (!status.ok()) log::warning("{}", status.message());
  put_back(absolute, entry);
}

}  // namespace scr::routing
