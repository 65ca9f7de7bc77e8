// Files that several processes of a run write together (MPI-IO): opening, closing, finding them
// again.
//
// Each process writes to a log of its own (core/shared_file), which is a file of the window like
// any other. No lock is held in a collective call: what is collective comes first or last, and the
// steps between are each process's own.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <ctime>
#include <limits>
#include <mutex>
#include <shared_mutex>

#include "core/base/checksum.hpp"
#include "core/base/log.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"
#include "core/service/address.hpp"
#include "core/shared_file/file_backed.hpp"
#include "core/shared_file/log_file.hpp"

namespace scr::routing {

namespace {

using shared_file::LogFile;
using shared_file::LogPlace;
using shared_file::SharedFile;

constexpr std::size_t kEndpointSize = 160;
// Ids of files that are only read have datasets that do not exist.
constexpr std::int64_t kReaderDataset = (std::int64_t{1} << 28) - 1;
constexpr std::int64_t kFilesOfDataset = std::int64_t{1} << 12;
constexpr std::uint64_t kNodeClaim = std::uint64_t{1} << 63U;

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

// --- the service ---------------------------------------------------------------------------------

// Collective: where the services of all nodes are, so that every process can ask every home.
// Without one of them no file can be shared. A process by itself needs no service.
void Session::find_homes() {
  if (runtime_->context().size() == 1) {
    use_homes(std::make_shared<std::vector<service::Endpoint>>(1), 0);
    return;
  }
  Communicator& world = runtime_->context().world();
  std::vector<std::byte> mine(kEndpointSize);
  std::transform(endpoint_.begin(),
                 endpoint_.begin() +
                     static_cast<std::ptrdiff_t>(std::min(endpoint_.size(), kEndpointSize - 1)),
                 mine.begin(), [](char c) { return std::byte(c); });
  const std::vector<std::byte> all = world.all_gather(mine);
  auto nodes = std::make_shared<std::vector<service::Endpoint>>();
  std::map<std::string, int> numbers;
  bool complete = true;
  for (std::size_t at = 0; at < all.size(); at += kEndpointSize) {
    const std::string text(reinterpret_cast<const char*>(all.data() + at));
    if (numbers.contains(text)) continue;
    auto endpoint = service::Endpoint::from_text(text);
    complete = complete && endpoint.ok();
    if (!endpoint.ok()) continue;
    numbers.emplace(text, static_cast<int>(nodes->size()));
    nodes->push_back(*endpoint);
  }
  if (can_reach_all(*nodes, complete)) use_homes(nodes, numbers.at(endpoint_));
}

void Session::use_homes(std::shared_ptr<const std::vector<service::Endpoint>> nodes, int node) {
  nodes_ = std::move(nodes);
  node_ = node;
  const bool is_home = server_ || runtime_->context().size() == 1;
  const auto transport = [this, is_home](std::vector<shared_file::Homes::Message> messages) {
    std::vector<Result<shared_file::Bytes>> answers(messages.size(), internal_error("no answer"));
    const std::shared_lock in_use(services_mutex_);
    if (services_ended_) {
      std::ranges::fill(answers, run_has_ended());
      return answers;
    }
    std::vector<service::Call> calls;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].node == node_ && is_home) {
        answers[i] = home_.handle(messages[i].request);
        continue;
      }
      calls.push_back(
          {(*nodes_)[static_cast<std::size_t>(messages[i].node)], std::move(messages[i].request)});
      places.push_back(i);
    }
    if (calls.empty()) return answers;
    auto called = service::call(calls, *key_);
    for (std::size_t i = 0; i < called.size(); ++i) answers[places[i]] = std::move(called[i]);
    return answers;
  };
  homes_ = std::make_shared<const shared_file::Homes>(static_cast<int>(nodes_->size()), transport);
  runtime_->use_shared_logs(
      {[this](int dataset) { return dataset_logs(dataset, /*sealed=*/true); }, node_});
}

// Collective: every node can call the services of all others. Found out once, at the start, since a
// process that cannot would find out in the middle of a file.
bool Session::can_reach_all(const std::vector<service::Endpoint>& nodes, bool complete) {
  Status status;
  if (!complete) {
    status = {StatusCode::kUnavailable, "there is a node without the service for other nodes"};
  } else if (runtime_->context().node().rank() == 0) {
    for (const service::Endpoint& endpoint : nodes) {
      if (status.ok() && endpoint.to_text() != endpoint_) status = service::probe(endpoint, *key_);
    }
  }
  status = agree(runtime_->context().world(), status, "calling the services of all nodes");
  if (!status.ok() && runtime_->context().rank() == 0) {
    warn_once("files that several processes write together are opened as without h5scr",
              fmt::format("nodes cannot reach each other: {}; SCR_SERVICE_INTERFACE names the "
                          "network to use",
                          status.message()));
  }
  return status.ok();
}

// A file may be open for longer than the run lasts (Python closes files late).
Status Session::run_has_ended() {
  return not_found("the run has ended, and with it what its nodes knew of shared files");
}

// Opens logs of other processes: files of this node, or through the service of another. May be
// called by any thread, without the lock.
flush::OpenSharedLog Session::dataset_logs(int dataset, bool sealed) {
  std::string directory = runtime_->cached_directory(dataset);
  if (directory.empty()) {  // this process has nothing of it
    directory = runtime_->context().redundancy_for(dataset, false).dataset_directory(dataset);
  }
  return [this, directory, sealed, nodes = nodes_, key = *key_, node = node_,
          published = exports_->resolver()](
             const std::string& relative, const LogPlace& place) -> Result<std::unique_ptr<File>> {
    const std::shared_lock in_use(services_mutex_);
    if (services_ended_) return run_has_ended();
    if (place.node == static_cast<std::uint32_t>(node)) {
      // In a window a newer version may have taken the name of the log.
      if (!sealed) return published(place.id);
      const std::string path =
          directory + "/" + shared_file::log_name(relative, static_cast<int>(place.rank));
      return fs_.open(path, OpenOptions::read());
    }
    if (place.node >= nodes->size()) return corrupt("a log is on a node that is not in this run");
    service::RemoteOptions options;
    if (!sealed) options.cached_blocks = 0;
    return service::open_remote((*nodes)[place.node], key, place.id, options);
  };
}

shared_file::OpenLog Session::log_opener(int dataset, const std::string& relative, bool sealed) {
  return [open = dataset_logs(dataset, sealed), relative](const LogPlace& place) {
    return open(relative, place);
  };
}

// --- opening -------------------------------------------------------------------------------------

namespace {

Hash refusal(const Status& why) {
  Hash plan;
  plan.set_value("CODE", static_cast<int>(why.code()));
  plan.set_value("WHY", why.message());
  plan.set_value("ERRNO", why.errno_value());
  plan.set_value("KIND", "REFUSE");
  return plan;
}

}  // namespace

// What is claimed when the file is opened for writing; nothing if it is none of ours.
std::string Session::name_to_claim(const SharedOpen& how) {
  const std::lock_guard lock(mutex_);
  if (!how.write || config() == nullptr || off_) return {};
  const Route route = shared_route(absolute_name(how.name), how);
  if (!route.routed() || shared_moved_.contains(prefix() + "/" + route.relative)) return {};
  return route.relative;
}

// Two groups of processes that write one name at the same time would each have a file of their own,
// of which one would win. So one has the name while it has the file open, and what is planned holds
// until then.
Hash Session::claim_and_plan(const SharedOpen& how, int processes) {
  const std::string name = name_to_claim(how);
  if (name.empty()) return plan_shared(how, processes);
  // Processes by themselves have one file together if they are on one node.
  const std::uint64_t owner = [&] {
    const std::lock_guard lock(mutex_);
    const auto rank = static_cast<std::uint64_t>(runtime_->context().rank());
    return processes == 1 ? kNodeClaim | static_cast<std::uint64_t>(node_)
                          : (rank << 32U) + ++claims_;
  }();
  auto claimed = homes_->claim(name, owner);
  if (!claimed.ok()) return refusal(claimed.status());
  if (!*claimed) {
    return refusal({StatusCode::kUnavailable,
                    fmt::format("cannot open '{}' for writing: other processes have it open for "
                                "writing; open it with a communicator that has them all, or one "
                                "after the other",
                                how.name),
                    EBUSY});
  }
  Hash plan = plan_shared(how, processes);
  const auto kind = plan.value("KIND");
  if (kind == "LOGS" || kind == "EACH") {
    plan.set_value("CLAIM", owner);
    plan.set_value("CLAIMED", name);
  } else {
    (void)homes_->release(name, owner);
  }
  return plan;
}

// On the first process, when the file is closed.
void Session::release_claim(const Hash& plan) const {
  const auto name = plan.value("CLAIMED");
  auto owner = plan.require_uint("CLAIM");
  if (!name || !owner.ok() || !homes_) return;
  Status status = homes_->release(std::string(*name), *owner);
  if (!status.ok()) log::warning("{}", status.message());
}

// One process decides for all.
Hash Session::plan_shared(const SharedOpen& how, int processes) {
  const std::lock_guard lock(mutex_);
  Hash plan;
  const auto decide_on = [&](std::string_view kind) {
    plan.set_value("KIND", kind);
    return plan;
  };
  const auto refuse = [](const Status& why) { return refusal(why); };
  if (config() == nullptr || off_) return decide_on("PASS");
  std::string absolute = absolute_name(how.name);
  const Route route = shared_route(absolute, how);
  if (!route.routed()) {
    if (how.write) ++counts_.passed[route.reason];
    return decide_on("PASS");
  }
  absolute = prefix() + "/" + route.relative;
  auto copy = find(route, absolute);
  if (!copy.ok()) return refuse(copy.status());
  // MPI would read the marker's bytes; and it has no way to say that the old contents do not
  // matter.
  if (copy->lost) return refuse(no_data(absolute, copy->marker));
  const bool exists = copy->where != Copy::Where::kNowhere;
  plan.set_value("EXISTS", exists ? 1 : 0);
  if (how.write && how.create && how.exclusive && exists) {
    return refuse(errno_status(EEXIST, "create", absolute));
  }
  const bool at_name = !exists || copy->where == Copy::Where::kPlain;
  // MPI opens what is at its name, and says in its own words that there is nothing.
  if (at_name && (!how.write || how.delete_on_close || (!exists && !how.create))) {
    return decide_on("PASS");
  }
  if (how.delete_on_close) {
    return refuse(failed_precondition(
        fmt::format("'{}' is in the cache and cannot be opened with delete-on-close", absolute)));
  }
  if (copy->where == Copy::Where::kShared) {
    auto text = encode(copy->marker);
    if (!text.ok()) return refuse(text.status());
    plan.set_value("SHARED", *text);
  }
  // Processes of one node that write one file each by itself know of each other in the cache only.
  const bool each = processes == 1 && !(runtime_->window_bypasses() && at_name);
  if (!how.write || each) return decide_on("EACH");
  if (runtime_->window_bypasses()) {
    warn_once("files of MPI-IO are written without protection",
              "there is no room for the dataset in the cache");
    if (at_name) return decide_on("PASS");
    return refuse(failed_precondition(fmt::format(
        "there is no room for a new version of '{}' in the cache, and the old one is not at its "
        "name",
        absolute)));
  }
  if (shared_moved_.contains(absolute)) return decide_on("PASS");
  if (auto known = shared_window_.find(absolute); known != shared_window_.end()) {
    if (known->second.open) {
      return refuse(failed_precondition(fmt::format(
          "'{}' is open already, and is written by the processes that have it open", absolute)));
    }
    // Others may have written a newer one since.
    if (copy->where == Copy::Where::kShared && copy->marker.id == known->second.marker.id) {
      plan.set_value("ID", known->second.marker.id);
    }
  }
  std::uint64_t generation = copy->generation;
  if (auto dropped = dropped_shared_.find(route.relative); dropped != dropped_shared_.end()) {
    generation = std::max(generation, dropped->second);
  }
  plan.set_value("GENERATION", generation + 1);
  plan.set_value("AT_NAME", at_name ? 1 : 0);
  return decide_on("LOGS");
}

// Where files cannot be shared MPI opens them, but never a marker in the place of the data.
Hash Session::plan_without_homes(const SharedOpen& how, int processes) {
  const std::lock_guard lock(mutex_);
  Hash plan;
  plan.set_value("KIND", "PASS");
  std::string absolute = absolute_name(how.name);
  const auto refuse = [&] {
    return refusal(failed_precondition(
        fmt::format("'{}' cannot be opened: its data is in the cache or in a container, and h5scr "
                    "has ended, or cannot serve files of several processes in this run (a warning "
                    "at its start says why)",
                    absolute)));
  };
  if (passive() || !runtime_ || config() == nullptr) {
    auto marker = read_marker(fs_, absolute);
    return marker.ok() && *marker ? refuse() : plan;
  }
  const Route route = shared_route(absolute, how);
  if (!route.routed()) return plan;
  absolute = prefix() + "/" + route.relative;
  auto copy = find(route, absolute);
  if (!copy.ok()) return refusal(copy.status());
  using Where = Copy::Where;
  if (copy->where == Where::kPlain || (copy->where == Where::kNowhere && !copy->lost)) return plan;
  // One process can read what is no file of several.
  const bool reachable = !copy->lost && copy->where != Where::kShared &&
                         !(copy->where == Where::kRemote && copy->marker.shared);
  if (how.write || processes > 1 || !reachable) return refuse();
  plan.set_value("KIND", "EACH");
  return plan;
}

// What the rules say of a name, and what the hints say to that.
Route Session::shared_route(const std::string& absolute, const SharedOpen& how) {
  Route route = route_of(absolute);
  const auto hint = [&](const char* key) {
    const auto found = how.hints.find(key);
    return found == how.hints.end() ? std::string() : found->second;
  };
  using Type = config::RouteRule::Type;
  std::string type = hint("scr_type");
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::toupper(c); });
  if (type != "CKPT" && type != "OUTPUT" && type != "BYPASS") type.clear();
  const auto is_off = [](const std::string& value) { return value == "0" || value == "false"; };
  const std::string wanted = hint("scr_route");
  const std::string flush = hint("scr_flush");
  if (is_off(wanted) || type == "BYPASS") {
    route.type = Type::kBypass;
    route.reason = Route::Reason::kHint;
    return route;
  }
  // Hints do not route what cannot be.
  const bool possible = route.routed() || route.reason == Route::Reason::kNoRule ||
                        (route.reason == Route::Reason::kRule && !wanted.empty());
  if (!possible || (!route.routed() && wanted.empty() && type.empty())) return route;
  if (!route.routed()) {
    route.type = Type::kCheckpoint;
    route.reason = Route::Reason::kHint;
  }
  if (type == "OUTPUT" || (!flush.empty() && !is_off(flush))) route.type = Type::kOutput;
  if (type == "CKPT") route.type = Type::kCheckpoint;
  return route;
}

std::map<std::string, std::string> Session::hints_in_force(const SharedOpen& how) {
  const std::lock_guard lock(mutex_);
  if (!runtime_) return {};
  const Route route = shared_route(absolute_name(how.name), how);
  const bool output = route.type == config::RouteRule::Type::kOutput;
  const bool every_one = config()->get_uint("SCR_FLUSH") == 1;
  const redundancy::RedundancySet& set =
      runtime_->context().redundancy_for(runtime_->window(), output).sets.front();
  return {{"scr_route", "1"},
          {"scr_type", std::string(config::route_type_name(route.type))},
          {"scr_flush", output || (route.keep_all && every_one) ? "1" : "0"},
          {"scr_copy_type", std::string(redundancy::scheme_name(set.scheme))},
          {"scr_set_size", std::to_string(set.size())}};
}

Result<std::unique_ptr<SharedFile>> Session::open_shared(const std::shared_ptr<Communicator>& comm,
                                                         const SharedOpen& how) {
  ++opens_;
  const bool ready = comm->all_true(!passive() && attached_ && homes_ != nullptr);
  Hash plan;
  if (comm->rank() == 0) {
    plan = ready ? claim_and_plan(how, comm->size()) : plan_without_homes(how, comm->size());
  }
  SCR_RETURN_IF_ERROR(broadcast_hash(*comm, plan, 0));
  const std::string kind(plan.value("KIND").value_or("PASS"));
  if (kind == "REFUSE") {
    SCR_ASSIGN_OR_RETURN(const std::int64_t code, plan.require_int("CODE"));
    SCR_ASSIGN_OR_RETURN(const std::int64_t error, plan.require_int("ERRNO"));
    return Status(static_cast<StatusCode>(code), std::string(plan.value("WHY").value_or("")),
                  static_cast<int>(error));
  }
  if (kind != "EACH" && kind != "LOGS") return std::unique_ptr<SharedFile>();
  auto opened = kind == "EACH" ? open_each(comm, how, plan) : open_logs(comm, how, plan);
  if (!opened.ok() && comm->rank() == 0) release_claim(plan);
  return opened;
}

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

std::unique_ptr<File> Session::open_shared_copy(const Marker& marker) {
  const bool sealed = marker.dataset != runtime_->window();
  return shared_file::as_file(
      std::make_unique<shared_file::LogReader>(
          homes_, marker.id, log_opener(marker.dataset, marker.file, sealed), sealed),
      prefix() + "/" + marker.file, flushed_copy(marker));
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
    auto opened = open(how.name, options_of(how, plan.value("EXISTS") == "1"));
    RoutedFile* routed = opened.ok() ? opened->routed : nullptr;
    return shared_file::open_file_backed(
        comm,
        opened.ok() ? Result<std::unique_ptr<File>>(std::move(opened->file)) : opened.status(),
        {.closed = [this, plan] { release_claim(plan); },
         .synced = [routed] { return routed != nullptr ? routed->flush_hint() : Status(); }});
  }
  auto file = open_version(how, plan);
  const Result<FileInfo> info = file.ok() ? (*file)->info() : Result<FileInfo>(file.status());
  SCR_RETURN_IF_ERROR(agree_all(*comm, info.status(), "opening a file"));
  const std::int64_t agreed = agree_number(*comm, readers_);
  LogFile::Options options;
  const std::int64_t first = first_rank_of(*comm);
  SCR_ASSIGN_OR_RETURN(options.id, service::make_id(kReaderDataset - agreed / kFilesOfDataset,
                                                    first, agreed % kFilesOfDataset));
  options.comm = comm;
  options.place.rank = static_cast<std::uint32_t>(runtime_->context().rank());
  options.name = how.name;
  const bool is_first = comm->rank() == 0;
  options.closed = [homes = homes_, id = options.id, is_first](const LogFile::Closed&) {
    if (is_first) (void)homes->drop(id);
    return Status();
  };
  auto reader = std::make_unique<shared_file::LogReader>(homes_, options.id, shared_file::OpenLog(),
                                                         /*sealed=*/true);
  reader->set_base(std::shared_ptr<File>(std::move(*file)), info->size);
  Status status;
  if (is_first) status = homes_->create(options.id, info->size);
  SCR_RETURN_IF_ERROR(agree_all(*comm, status, "opening a file"));
  return std::unique_ptr<SharedFile>(
      std::make_unique<LogFile>(options, homes_, nullptr, std::move(reader)));
}

// Collective: the rank in the run of the communicator's first.
int Session::first_rank_of(Communicator& comm) const {
  const std::int64_t mine = comm.rank() == 0 ? runtime_->context().rank() : -1;
  return static_cast<int>(comm.all_reduce(mine, ReduceOp::kMax));
}

// A new version of a file, or one of this window that is gone on with.
Result<std::unique_ptr<SharedFile>> Session::open_logs(const std::shared_ptr<Communicator>& comm,
                                                       const SharedOpen& how, const Hash& plan) {
  const Route route = [&] {
    const std::lock_guard lock(mutex_);
    return shared_route(absolute_name(how.name), how);
  }();
  const std::string absolute = prefix() + "/" + route.relative;
  SharedWindowFile entry;
  entry.route = route;
  entry.first_rank = first_rank_of(*comm);
  entry.processes = comm->size();
  const bool goes_on = comm->all_true(is_same_shared(absolute, plan, comm->size()));
  std::uint64_t generation = 0;
  if (auto text = plan.value("GENERATION")) {
    SCR_ASSIGN_OR_RETURN(generation, plan.require_uint("GENERATION"));
  }
  {
    const std::lock_guard lock(mutex_);
    const auto dropped = dropped_shared_.find(route.relative);
    if (dropped != dropped_shared_.end()) generation = std::max(generation, dropped->second + 1);
  }
  // Any of them may have deleted the file before, and the new one is not to go with it.
  generation = comm->all_reduce(generation, ReduceOp::kMax);
  std::shared_ptr<File> base;
  Status status;
  if (!goes_on && plan.value("EXISTS") == "1") {
    auto file = open_version(how, plan);
    status = file.status();
    if (file.ok()) base = std::move(*file);
  }
  const std::int64_t number =
      goes_on ? number_in_window(absolute) : agree_number(*comm, next_index_);
  if (number >= kFilesOfDataset) return open_beyond_ids(*comm, absolute, plan);
  std::unique_ptr<shared_file::Log> log;
  if (status.ok()) status = enter_shared_window(entry, absolute, number, generation, goes_on, log);
  std::uint64_t base_size = 0;
  if (status.ok() && base) {
    auto info = base->info();
    status = info.status();
    if (info.ok()) base_size = info->size;
  }
  const LogPlace place{static_cast<std::uint32_t>(runtime_->context().rank()),
                       static_cast<std::uint32_t>(node_), entry.log_id};
  if (status.ok() && comm->rank() == 0) {
    status = homes_->create(entry.marker.id, base_size);
    if (status.ok()) status = homes_->set_pointer(entry.marker.id, 0);
  }
  status = agree_all(*comm, status, "opening a shared file");
  if (!status.ok()) {
    if (comm->rank() == 0 && !goes_on && entry.marker.id != 0) (void)homes_->drop(entry.marker.id);
    const std::lock_guard lock(mutex_);
    if (log && goes_on) {  // as it was closed: the log changes at the first write only
      shared_window_.at(absolute).open = false;
    } else if (log) {  // else there is only what was there before
      forget_shared(absolute);
    }
    return status;
  }
  auto reader = std::make_unique<shared_file::LogReader>(
      homes_, entry.marker.id, log_opener(entry.marker.dataset, route.relative, /*sealed=*/false),
      /*sealed=*/false);
  if (base) reader->set_base(base, base_size);
  LogFile::Options options;
  options.comm = comm;
  options.id = entry.marker.id;
  options.place = place;
  options.first_rank = static_cast<std::uint32_t>(entry.first_rank);
  options.number = static_cast<std::uint32_t>(number);
  options.name = absolute;
  options.goes_on = goes_on;
  options.created = plan.value("EXISTS") != "1";
  options.closed = [this, absolute, plan,
                    first = comm->rank() == 0](const LogFile::Closed& closed) {
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
  if (!base) options.synced = [this, absolute] { return shared_synced(absolute); };
  options.stays_open = [this, absolute, comm](LogFile& file) {
    if (!move_shared(absolute, file, *comm).ok()) return;
    const std::lock_guard lock(mutex_);
    forget_moved(absolute, "is kept open and flushed");
  };
  auto file = std::make_unique<LogFile>(options, homes_, std::move(log), std::move(reader));
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
    warn_once("files of several processes are opened as without h5scr",
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
    if (entry.first_rank == runtime_->context().rank()) ++counts_.routed;
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
  const Directory& cache =
      *runtime_->context().redundancy_for(runtime_->window(), false).store->directory;
  return exports_->publish(entry.log_id, cache, entry.path.substr(cache.path().size() + 1));
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
  (void)exports_->withdraw(entry.older->log_id);
  if (entry.older->first_rank == runtime_->context().rank()) {
    (void)homes_->drop(entry.older->marker.id);
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
    if (first) {
      log::error(
          "'{}' is dropped, for it could not be written: {}; an older file of that name stays",
          absolute, closed.status.message());
      (void)homes_->drop(entry.marker.id);
      if (entry.noted) drop_marker(entry.marker);
    }
    forget_shared(absolute);
  } else if (!closed.written) {
    if (first) (void)homes_->drop(entry.marker.id);
    if (first && entry.noted) drop_marker(entry.marker);
    forget_shared(absolute);
  } else {
    runtime_->note_checksum(entry.path, closed.log_crc);
    forget_older(entry);
    if (first && entry.gone) {  // the rest is dropped when the window is sealed
      if (entry.noted) drop_marker(entry.marker);
    } else if (first) {
      counts_.bytes += closed.size;
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
  if (exports_) (void)exports_->withdraw(entry.log_id);
  Status status = fs_.remove_if_exists(entry.path);
  if (status.ok()) {
    status = runtime_->unregister_file(shared_file::log_name(absolute, runtime_->context().rank()));
  }
  if (!status.ok()) log::warning("{}", status.message());
  put_back(absolute, entry);
}

// --- files that stay open ------------------------------------------------------------------------

// Collective over `comm`: see LogFile::move().
Status Session::move_shared(const std::string& absolute, LogFile& file, Communicator& comm) {
  const std::string temporary = absolute + ".scr-moving";
  bool mine = false;  // the temporary file
  LogFile::Move move;
  move.open = [&](bool first) {
    mine = first;
    OpenOptions options = first ? OpenOptions::create_truncate() : OpenOptions::read_write();
    options.access = OpenOptions::Access::kReadWrite;
    options.no_follow = true;
    return fs_.open(temporary, options);
  };
  move.commit = [&] { return fs_.rename(temporary, absolute); };
  Status status = file.move(comm, move);
  if (status.ok()) return {};
  if (mine) (void)fs_.remove_if_exists(temporary);
  log::warning("{}",
               status.with_context(fmt::format("'{}' stays in the cache", absolute)).message());
  return status;
}

// This process's log of a file that has been moved to its name is of no use any more.
void Session::forget_moved(const std::string& absolute, std::string_view why) {
  const auto known = shared_window_.find(absolute);
  if (known == shared_window_.end()) return;
  const Marker marker = known->second.marker;
  if (known->second.first_rank == runtime_->context().rank()) {
    warn_once(fmt::format("'{}' {}", absolute, why),
              "it is written at its name from now on, without protection; close a file to have it "
              "protected");
    ++counts_.moved;
    (void)markers_->drop(marker);
  }
  const bool gone = known->second.gone;
  shared_moved_.insert(absolute);
  hide(absolute);
  forget_older(known->second);
  forget_shared(absolute);
  // Who has it open goes on with a file without a name.
  if (gone) (void)fs_.remove_if_exists(absolute);
}

// Collective over the world, with the lock held: as move_passed_files(). The first process of each
// file says when it is time; if a thread is in a collective call of the file, it is later.
void Session::move_passed_shared() {
  constexpr int kPassed = 2;
  constexpr std::chrono::seconds kAtLeast(5);
  const auto now = std::chrono::steady_clock::now();
  move_open_shared("stays open", [&](const SharedWindowFile& file) {
    return file.passed >= kPassed && now - file.opened >= kAtLeast;
  });
}

// The same at the end of the run: what the program has not closed is all there is of these files.
void Session::move_all_shared() {
  for (auto& [absolute, file] : shared_window_) file.passed = 0;
  move_open_shared("was not closed", [](const SharedWindowFile& file) { return file.passed >= 0; });
}

void Session::move_open_shared(std::string_view why,
                               const std::function<bool(const SharedWindowFile&)>& is_due) {
  const Sealing guard;
  Communicator& world = runtime_->context().world();
  std::set<std::uint64_t> later;
  for (;;) {
    std::uint64_t proposed = 0;
    for (const auto& [absolute, file] : shared_window_) {
      const bool mine = file.file != nullptr && file.first_rank == world.rank();
      if (mine && !later.contains(file.marker.id) && is_due(file)) {
        proposed = std::max(proposed, file.marker.id);
      }
    }
    const std::uint64_t id = world.all_reduce(proposed, ReduceOp::kMax);
    if (id == 0) return;
    const auto found =
        std::find_if(shared_window_.begin(), shared_window_.end(), [&](const auto& entry) {
          return entry.second.file != nullptr && entry.second.marker.id == id;
        });
    LogFile* const file = found != shared_window_.end() ? found->second.file : nullptr;
    const bool free = file == nullptr || file->begin_move();
    const bool all_free = world.all_true(free);
    if (!all_free) {
      later.insert(id);
    } else if (file == nullptr) {
      (void)LogFile::watch_move(world);
    } else if (const std::string absolute = found->first;
               move_shared(absolute, *file, world).ok()) {
      forget_moved(absolute, why);
    } else {
      found->second.passed = std::numeric_limits<int>::min();
    }
    if (file != nullptr && free) file->end_move();
  }
}

// What this process has written of a shared file, to its place in a plain one.
Status Session::write_out(const SharedWindowFile& file, const std::string& to) {
  SCR_ASSIGN_OR_RETURN(auto log, fs_.open(file.path, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(const shared_file::LogTable table, shared_file::read_log_table(*log));
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(auto plain, fs_.open(to, options));
  if (table.rank == table.first_rank) {
    SCR_RETURN_IF_ERROR(plain->truncate(table.size));
  }
  std::vector<std::byte> buffer(shared_file::kMostLogEntry);
  for (const shared_file::LogEntry& entry : table.entries) {
    const std::span bytes = std::span(buffer).first(entry.length);
    SCR_RETURN_IF_ERROR(log->read_exactly(bytes, entry.log_offset));
    if (crc32(bytes) != entry.crc) {
      return corrupt(
          fmt::format("'{}' has a wrong checksum at byte {}", file.path, entry.log_offset));
    }
    SCR_RETURN_IF_ERROR(plain->write_all(bytes, entry.offset));
  }
  SCR_RETURN_IF_ERROR(plain->sync());
  return plain->close();
}

// Collective over the world: what several processes have of a file, in a new file of that name.
// Those that have nothing of it have no `file`. The same result everywhere.
bool Session::write_out_together(const SharedWindowFile* file, const std::string& to) {
  Communicator& world = runtime_->context().world();
  // It would have holes where one that wrote it has nothing any more.
  const auto have = world.all_reduce(std::int64_t{file != nullptr ? 1 : 0}, ReduceOp::kSum);
  const bool complete = file == nullptr || file->processes == have;
  Status status;
  if (!complete) {
    status = failed_precondition(
        fmt::format("only {} of {} processes have what they wrote of it", have, file->processes));
  }
  if (!agree(world, status, "saving a shared file").ok()) return false;
  if (file != nullptr && file->first_rank == world.rank()) {
    // What a run that failed has left there is no part of it.
    auto made = fs_.open(to, OpenOptions::create_truncate());
    status = made.ok() ? (*made)->close() : made.status();
  }
  if (!agree(world, status, "saving a shared file").ok()) return false;
  if (file != nullptr) status = write_out(*file, to);
  return agree(world, status, "saving a shared file").ok();
}

// Collective over the world: visits the files of the window that some process wants, in the same
// order everywhere; a process that has nothing of a file, or does not want it, gets none.
void Session::each_shared(const WantsShared& wants, const VisitShared& visit) {
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t id = 0;;) {
    std::uint64_t next = kNone;
    const std::pair<const std::string, SharedWindowFile>* mine = nullptr;
    for (const auto& entry : shared_window_) {
      const std::uint64_t found = entry.second.marker.id;
      if (found <= id || found >= next || !wants(entry.first)) continue;
      next = found;
      mine = &entry;
    }
    id = runtime_->context().world().all_reduce(next, ReduceOp::kMin);
    if (id == kNone) return;
    if (next != id) mine = nullptr;
    visit(mine != nullptr ? mine->first : std::string(), mine != nullptr ? &mine->second : nullptr);
  }
}

// Collective: shared files of a window that could not be completed go to their names, each by
// itself: one that cannot be saved does not take others with it.
bool Session::rescue_shared() {
  Communicator& world = runtime_->context().world();
  bool all = true;
  each_shared([](const std::string&) { return true; },
              [&](const std::string& name, const SharedWindowFile* file) {
                const std::string temporary = name + ".scr-rescue";
                bool saved = write_out_together(file, temporary);
                if (file != nullptr && file->first_rank == world.rank()) {
                  Status status =
                      saved ? fs_.rename(temporary, name) : fs_.remove_if_exists(temporary);
                  saved = saved && status.ok();
                  if (!status.ok()) log::error("'{}': {}", name, status.message());
                  drop_marker(file->marker);
                }
                saved = world.all_true(saved);
                if (!saved && file != nullptr) tell_where_log_stays(name, *file);
                all = all && saved;
              });
  return all;
}

void Session::tell_where_log_stays(const std::string& name, const SharedWindowFile& file) const {
  log::error(
      "'{}' could not be written; what this process wrote of it stays in '{}' on {}: save it "
      "before the next run",
      name, file.path, host());
}

// Collective: files of these names that others have written at the same time, who have the name
// now.
void Session::save_shared_conflicts(const std::set<std::string>& names) {
  const int rank = runtime_->context().rank();
  each_shared([&](const std::string& name) { return names.contains(name); },
              [&](const std::string& name, const SharedWindowFile* file) {
                const std::string to =
                    file != nullptr ? conflict_name(name, file->first_rank) : std::string();
                const bool saved = write_out_together(file, to);
                if (file == nullptr) return;
                if (saved && file->first_rank == rank) tell_of_conflict(name, to);
                if (saved) return;
                tell_where_log_stays(to, *file);
                // Out of the way of forget_shared().
                const std::string kept = file->path + ".scr-conflict";
                Status status = fs_.rename(file->path, kept);
                log::error("'{}' has become '{}'{}", file->path, kept,
                           status.ok() ? "" : fmt::format(": {}", status.message()));
              });
}

std::string Session::conflict_name(const std::string& absolute, int rank) {
  return fmt::format("{}.scr-conflict.{}", absolute, rank);
}

void Session::tell_of_conflict(const std::string& absolute, const std::string& kept) {
  log::error(
      "'{}' was written by processes that did not have it open together; one version gets the "
      "name, another is in '{}': open a file with all processes that write it, or one after the "
      "other",
      absolute, kept);
}

// --- after a restart -----------------------------------------------------------------------------

// Tells the homes what a log of an earlier run holds, on the process that has it now. A file of
// which there is a newer version is known to them, for flushes, but not found by its name.
Status Session::announce_log(const FilemapEntry& entry, const FileMeta& meta, bool is_newest) {
  const int dataset = entry.dataset.id;
  SCR_ASSIGN_OR_RETURN(const shared_file::LogTable table,
                       shared_file::read_log_table(fs_, entry.directory + "/" + meta.file));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t id,
                       service::make_id(dataset, table.first_rank, table.number));
  LogPlace place{table.rank, static_cast<std::uint32_t>(node_), 0};
  SCR_ASSIGN_OR_RETURN(place.id, service::make_id(dataset, table.rank, table.number));
  const Directory& cache = *runtime_->context().redundancy_for(dataset, false).store->directory;
  const std::string path = entry.directory + "/" + meta.file;
  if (path.starts_with(cache.path() + "/")) {
    SCR_RETURN_IF_ERROR(exports_->publish(place.id, cache, path.substr(cache.path().size() + 1)));
  }
  std::vector<shared_file::Extent> extents;
  for (const shared_file::LogEntry& e : table.entries) {
    extents.push_back({e.offset, e.length, e.log_offset, {1, table.rank, 0}});
  }
  if (table.rank == table.first_rank) SCR_RETURN_IF_ERROR(homes_->create(id, table.size));
  SCR_RETURN_IF_ERROR(homes_->restore(id, place, extents, table.size));
  shared_sealed_[dataset].push_back({id, place.id, table.rank == table.first_rank});
  if (table.rank != table.first_rank || !is_newest) return {};
  std::uint64_t generation = 1;
  // A file at the name may be newer: a flush keeps this time.
  std::int64_t written = table.written;
  if (auto old = markers_->find(meta.shared); old.ok() && *old && (*old)->dataset == dataset) {
    generation = (*old)->generation;
    written = (*old)->written;
  }
  Marker marker = make_marker(meta.shared, dataset, entry.dataset.created, 0, generation);
  marker.id = id;
  marker.shared = true;
  marker.written = written;
  return markers_->put(marker, markers_visible(/*at_start=*/true));
}

// The dataset leaves the cache, or its files are at their names now.
void Session::forget_sealed(int dataset) {
  const auto known = shared_sealed_.find(dataset);
  if (known == shared_sealed_.end()) return;
  for (const SealedLog& log : known->second) {
    if (exports_) (void)exports_->withdraw(log.log);
    if (log.first && homes_) (void)homes_->drop(log.file);
  }
  shared_sealed_.erase(known);
}

}  // namespace scr::routing
