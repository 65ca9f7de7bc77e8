#include "core/routing/node_services.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/service/address.hpp"
#include "core/shared_file/log.hpp"

namespace scr::routing {

namespace {

using shared_file::LogPlace;

constexpr std::size_t kEndpointSize = 160;

// A file may be open for longer than the run lasts (Python closes files late).
Status run_has_ended() {
  return not_found("the run has ended, and with it what its nodes knew of shared files");
}

}  // namespace

// --- start and end -------------------------------------------------------------------------------

void NodeServices::start(Runtime& runtime) {
  runtime_ = &runtime;
  if (!agree_on_key()) return;
  start_exports();
  const Context& context = runtime.context();
  std::string text;
  if (context.size() > 1 && context.node().rank() == 0) {
    const Status status = start_server();
    if (server_) text = server_->endpoint().to_text();
    if (!status.ok())
      log::warning("{}; other nodes cannot read this one's cache", status.message());
  }
  endpoint_ = context.node().broadcast_string(text, 0);
  find_homes();
}

// Collective.
bool NodeServices::agree_on_key() {
  Context& context = runtime_->context();
  std::vector<std::byte> bytes(service::Key::kSize);
  Status status;
  if (context.rank() == 0) {
    auto key = service::Key::make();
    status = key.status();
    if (key.ok()) std::copy(key->bytes().begin(), key->bytes().end(), bytes.begin());
  }
  if (!agree(context.world(), status, "making a key").ok()) return false;
  context.world().broadcast(bytes, 0);
  key_ = *service::Key::from_bytes(bytes);
  return true;
}

void NodeServices::start_exports() {
  const Context& context = runtime_->context();
  std::vector<const Directory*> caches;
  for (const auto& descriptor : context.config().redundancy()) {
    if (!descriptor.enabled) continue;
    const Directory* directory = &cache_of(static_cast<int>(descriptor.interval));
    if (std::find(caches.begin(), caches.end(), directory) == caches.end())
      caches.push_back(directory);
  }
  exports_ = std::make_unique<service::Exports>(fs_, context.control(), caches);
  if (context.node().rank() == 0) (void)exports_->withdraw_all();
}

Status NodeServices::start_server() {
  const Context& context = runtime_->context();
  auto address =
      context.node_count() < 2
          ? Result<std::string>("127.0.0.1")
          : service::choose_address(context.config().get_string("SCR_SERVICE_INTERFACE"));
  SCR_RETURN_IF_ERROR(address.status());
  auto server = service::RangeServer::start(
      *address, *key_, exports_->resolver(), {},
      [this](std::span<const std::byte> request) { return home_.handle(request); });
  if (server.ok()) server_ = std::move(*server);
  return server.status();
}

void NodeServices::end() {
  {
    const std::unique_lock ending(mutex_);
    ended_ = true;
  }
  homes_.reset();
  server_.reset();
  exports_.reset();
  service::close_idle_connections();
}

// --- the homes -----------------------------------------------------------------------------------

// Collective: where the services of all nodes are, so that every process can ask every home.
// Without one of them no file can be shared. A process by itself needs no service.
void NodeServices::find_homes() {
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

void NodeServices::use_homes(std::shared_ptr<const std::vector<service::Endpoint>> nodes,
                             int node) {
  nodes_ = std::move(nodes);
  node_ = node;
  const bool is_home = server_ || runtime_->context().size() == 1;
  homes_ = std::make_shared<const shared_file::Homes>(
      static_cast<int>(nodes_->size()),
      [this, is_home](std::vector<shared_file::Homes::Message> messages) {
        return ask(std::move(messages), is_home);
      });
  runtime_->use_shared_logs(
      {[this](int dataset) { return dataset_logs(dataset, /*sealed=*/true); }, node_});
}

// Takes messages to the homes; by any thread. `is_home`: those of this node are in this process.
std::vector<Result<shared_file::Bytes>> NodeServices::ask(
    std::vector<shared_file::Homes::Message> messages, bool is_home) {
  std::vector<Result<shared_file::Bytes>> answers(messages.size(), internal_error("no answer"));
  const std::shared_lock in_use(mutex_);
  if (ended_) {
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
}

// Collective: every node can call the services of all others. Found out once, at the start, since a
// process that cannot would find out in the middle of a file.
bool NodeServices::can_reach_all(const std::vector<service::Endpoint>& nodes, bool complete) {
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
    log::warning(
        "files that several processes write together are opened as without h5scr: nodes cannot "
        "reach each other: {}; SCR_SERVICE_INTERFACE names the network to use",
        status.message());
  }
  return status.ok();
}

// --- files ---------------------------------------------------------------------------------------

const Directory& NodeServices::cache_of(int dataset) const {
  return *runtime_->context().redundancy_for(dataset, /*output=*/false).store->directory;
}

Status NodeServices::publish(int dataset, std::uint64_t id, const std::string& path) {
  if (!exports_) return {};
  const Directory& cache = cache_of(dataset);
  if (!path.starts_with(cache.path() + "/")) return {};
  return exports_->publish(id, cache, path.substr(cache.path().size() + 1));
}

void NodeServices::withdraw(std::uint64_t id) {
  if (exports_) (void)exports_->withdraw(id);
}

Result<std::unique_ptr<File>> NodeServices::open_remote(
    const service::Endpoint& endpoint, std::uint64_t id,
    const service::RemoteOptions& options) const {
  return service::open_remote(endpoint, *key_, id, options);
}

flush::OpenSharedLog NodeServices::dataset_logs(int dataset, bool sealed) {
  std::string directory = runtime_->cached_directory(dataset);
  if (directory.empty()) {  // this process has nothing of it
    directory = runtime_->context().redundancy_for(dataset, false).dataset_directory(dataset);
  }
  return [this, directory, sealed, nodes = nodes_, key = *key_, node = node_,
          published = exports_->resolver()](
             const std::string& relative, const LogPlace& place) -> Result<std::unique_ptr<File>> {
    const std::shared_lock in_use(mutex_);
    if (ended_) return run_has_ended();
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

// --- sealed logs ---------------------------------------------------------------------------------

Result<NodeServices::Announced> NodeServices::announce(const FilemapEntry& entry,
                                                       const FileMeta& meta) {
  const int dataset = entry.dataset.id;
  const std::string path = entry.directory + "/" + meta.file;
  SCR_ASSIGN_OR_RETURN(const shared_file::LogTable table, shared_file::read_log_table(fs_, path));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t id,
                       service::make_id(dataset, table.first_rank, table.number));
  LogPlace place{table.rank, static_cast<std::uint32_t>(node_), 0};
  SCR_ASSIGN_OR_RETURN(place.id, service::make_id(dataset, table.rank, table.number));
  SCR_RETURN_IF_ERROR(publish(dataset, place.id, path));
  std::vector<shared_file::Extent> extents;
  for (const shared_file::LogEntry& e : table.entries) {
    extents.push_back({e.offset, e.length, e.log_offset, {1, table.rank, 0}});
  }
  const bool first = table.rank == table.first_rank;
  if (first) SCR_RETURN_IF_ERROR(homes_->create(id, table.size));
  SCR_RETURN_IF_ERROR(homes_->restore(id, place, extents, table.size));
  note_sealed(dataset, {id, place.id, first});
  return Announced{id, first, table.written};
}

void NodeServices::forget_sealed(int dataset) {
  const auto known = sealed_.find(dataset);
  if (known == sealed_.end()) return;
  for (const SealedLog& log : known->second) {
    withdraw(log.log);
    if (log.first && homes_) (void)homes_->drop(log.file);
  }
  sealed_.erase(known);
}

}  // namespace scr::routing
