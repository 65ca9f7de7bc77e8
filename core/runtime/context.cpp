#include "core/runtime/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/runtime/program.hpp"

namespace scr {

std::string ActiveRedundancy::dataset_directory(int dataset_id) const {
  return fmt::format("{}/index.{}/dataset.{}", store->directory->path(), descriptor.index,
                     dataset_id);
}

Status agree(Communicator& comm, const Status& mine, std::string_view what, Report report) {
  if (!mine.ok() && report == Report::kLog) log::error("{}", mine.message());
  return agree_all(comm, mine, what);
}

Result<std::unique_ptr<Context>> Context::create(FileSystem& fs,
                                                 std::unique_ptr<Communicator> world,
                                                 const std::string& host,
                                                 const RunOptions& options) {
  std::unique_ptr<Context> context(new Context);
  context->fs_ = &fs;
  context->world_ = std::move(world);
  context->host_ = host;
  Communicator& comm = context->world();
  SCR_RETURN_IF_ERROR(agree(comm, context->configure(options), "reading the configuration"));
  if (!context->config().get_bool("SCR_ENABLE")) {
    return failed_precondition("h5scr is disabled (SCR_ENABLE=0)");
  }
  context->alone_ = options.alone;
  context->transparent_ = options.mode == config::Mode::kTransparent;
  if (options.alone) SCR_RETURN_IF_ERROR(context->take_slot(options.slot));
  context->nodes_ = make_node_communicators(comm, host);
  SCR_RETURN_IF_ERROR(context->open_directories());
  for (const auto& descriptor : context->config().redundancy()) {
    if (descriptor.enabled) SCR_RETURN_IF_ERROR(context->activate_redundancy(descriptor));
  }
  return context;
}

namespace {

constexpr const char* kNodeSign = "node.scrinfo";

Result<config::Config> build_config(const Hash& message, const config::Environment& environment) {
  SCR_ASSIGN_OR_RETURN(auto sources, config::ConfigSources::from_hash(message, environment));
  return config::Config::build(std::move(sources));
}

// scr_run gives its own prefix directory to the program by the environment, which counts for more:
// its halt file, index and log are there.
void warn_of_other_prefix(const config::Config& config, const std::vector<std::string>& calls) {
  constexpr std::string_view kStart = "SCR_PREFIX=";
  std::string called;
  for (const std::string& call : calls) {
    if (call.starts_with(kStart)) called = call.substr(kStart.size());
  }
  const std::string used = config.get_path("SCR_PREFIX");
  const auto wanted = normalize(called);
  if (called.empty() || (wanted.ok() && *wanted == used)) return;
  log::warning(
      "SCR_Config(\"SCR_PREFIX={0}\") has no effect: it is '{2}' ({1}); to use it under scr_run, "
      "start that with SCR_PREFIX={0}",
      called, config.origin("SCR_PREFIX").to_string(), used);
}

}  // namespace

// Rank 0 alone reads files; every rank then builds the same configuration from what it sent.
Status Context::configure(const RunOptions& options) {
  const config::Environment environment = config::Environment::current();
  Hash message;
  Status status;
  if (rank() == 0) {
    auto sources = config::read_files(fs(), environment);
    if (sources.ok()) {
      sources->calls = options.calls;
      sources->mode = options.mode;
      message = sources->to_hash();
    } else {
      status = sources.status();
    }
  }
  SCR_RETURN_IF_ERROR(agree(world(), status, "reading the configuration"));
  SCR_RETURN_IF_ERROR(broadcast_hash(world(), message, 0));
  // Variables that the configuration names may be set on some ranks and not on others.
  auto config = build_config(message, environment);
  SCR_RETURN_IF_ERROR(agree(world(), config.status(), "reading the configuration"));
  config_ = std::make_unique<config::Config>(*std::move(config));
  log::set_verbosity(static_cast<int>(config_->get_uint("SCR_DEBUG")));
  warn_after_ = config_->get_double("SCR_COLLECTIVE_WARNING");
  give_up_after_ = config_->get_double("SCR_COLLECTIVE_TIMEOUT");
  if (rank() == 0) {
    for (const std::string& warning : config_->warnings()) log::warning("{}", warning);
    if (config_->origin("SCR_PREFIX").source != config::Source::kCall)
      warn_of_other_prefix(*config_, options.calls);
    for (const char* name : {"SCR_CRC_ON_COPY", "SCR_CRC_ON_FLUSH"}) {
      if (!config_->get_bool(name))
        log::warning("{}=0 has no effect: h5scr always computes and verifies checksums", name);
    }
  }
  Hash job;
  if (rank() == 0) {
    auto detected = JobInfo::detect(*config_, environment);
    if (detected.ok()) job = detected->to_hash();
    status = detected.status();
  }
  SCR_RETURN_IF_ERROR(agree(world(), status, "finding out about the job"));
  SCR_RETURN_IF_ERROR(broadcast_hash(world(), job, 0));
  SCR_ASSIGN_OR_RETURN(job_, JobInfo::from_hash(job));
  return {};
}

Result<std::string> Context::group_value(const std::string& group) const {
  if (group == "NODE") return host_;
  if (group == "WORLD") return std::string("WORLD");
  for (const auto& descriptor : config_->groups()) {
    if (descriptor.host != host_) continue;
    for (const auto& [name, value] : descriptor.groups) {
      if (name == group) return value;
    }
  }
  return invalid_argument(fmt::format(
      "no line 'GROUPS={} {}=...' in the configuration tells which {} group this node belongs to",
      host_, group, group));
}

Status Context::take_slot(const std::string& slot) {
  constexpr int kTries = 1024;
  const std::string job_id = job_.job_id;
  int number = 0;
  for (int i = 0; i < kTries; ++i) {
    job_.job_id = job_id + "." + (slot.empty() ? fmt::format("s{}", number) : slot);
    SCR_ASSIGN_OR_RETURN(const Slot state, try_slot());
    if (state == Slot::kTaken) return {};
    if (state == Slot::kInUse && !slot.empty()) break;
    if (state == Slot::kInUse) ++number;
  }
  return failed_precondition(fmt::format("job {} is running already: '{}/{}' is locked",
                                         job_.job_id, config_->get_path("SCR_CNTL_BASE"),
                                         job_.private_path()));
}

Result<Context::Slot> Context::try_slot() {
  const std::string base = config_->get_path("SCR_CNTL_BASE");
  SCR_ASSIGN_OR_RETURN(auto directory, prepare_private_directory(fs(), base, job_.private_path()));
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  options.mode = 0600;
  const At at(*directory, "slot.scrinfo.lock");
  auto lock = fs().open(at, options);
  if (lock.status().code() == StatusCode::kNotFound) return Slot::kVanished;
  SCR_RETURN_IF_ERROR(lock.status());
  const Status status = (*lock)->lock(LockMode::kExclusive, /*wait=*/false);
  if (status.code() == StatusCode::kUnavailable) return Slot::kInUse;
  SCR_RETURN_IF_ERROR(status);
  // Who had it may have removed it meanwhile, and others may have made it anew.
  SCR_ASSIGN_OR_RETURN(const FileInfo mine, (*lock)->info());
  auto there = fs().info(at);
  if (!there.ok() || there->inode != mine.inode) return Slot::kVanished;
  // What a run in another prefix directory left there and has not saved stays for it.
  if (!other_prefix(fs(), *directory, job_.prefix).empty() &&
      !check_saved(fs(), *directory, job_.prefix).ok() && !config_->get_bool("SCR_CACHE_PURGE")) {
    return Slot::kInUse;
  }
  slot_lock_ = std::move(*lock);
  return Slot::kTaken;
}

Status Context::open_directories() {
  // The control directory, made by the first process of each node.
  const std::string base = config_->get_path("SCR_CNTL_BASE");
  Status status;
  if (node().rank() == 0) {
    status = prepare_private_directory(fs(), base, job_.private_path()).status();
  }
  node().barrier();
  if (status.ok()) {
    auto control = prepare_private_directory(fs(), base, job_.private_path());
    if (control.ok()) control_ = std::move(*control);
    status = control.status();
  }
  SCR_RETURN_IF_ERROR(agree(world(), status, "opening the control directory"));
  for (const auto& descriptor : config_->stores()) {
    if (descriptor.enabled) SCR_RETURN_IF_ERROR(open_store(descriptor));
  }
  if (rank() == 0) {
    status = fs().make_directory(prefix_scr());
    if (status.errno_value() == EEXIST) status = {};
  }
  return agree(world(), status, "making the directory .scr in the prefix directory");
}

Status Context::make_directories_again() {
  const std::string base = config_->get_path("SCR_CNTL_BASE");
  SCR_ASSIGN_OR_RETURN(control_, prepare_private_directory(fs(), base, job_.private_path()));
  for (const auto& [path, store] : stores_) {
    SCR_ASSIGN_OR_RETURN(store->directory,
                         prepare_private_directory(fs(), path, job_.private_path()));
  }
  return {};
}

Status Context::open_store(const config::StoreDescriptor& descriptor) {
  auto store = std::make_unique<Store>();
  store->descriptor = descriptor;
  auto value = group_value(descriptor.group);
  SCR_RETURN_IF_ERROR(agree(world(), value.status(), "opening a store"));
  store->group = split_by_string(world(), *value);
  Status status;
  if (store->group->rank() == 0) {
    if (descriptor.make_directory) status = fs().make_directories(descriptor.directory);
    if (status.ok()) {
      status = prepare_private_directory(fs(), descriptor.directory, job_.private_path()).status();
    }
  }
  store->group->barrier();
  if (status.ok()) {
    auto directory = prepare_private_directory(fs(), descriptor.directory, job_.private_path());
    if (directory.ok()) store->directory = std::move(*directory);
    status = directory.status();
  }
  SCR_RETURN_IF_ERROR(agree(world(), status, "opening the cache directory"));
  SCR_RETURN_IF_ERROR(check_own_storage(*store));
  stores_[descriptor.directory] = std::move(store);
  return {};
}

// Collective. Files of ranks that moved are copied to their new node and deleted on the old one: on
// storage that is taken for the node's own, and is not, that would be the only copy. Each node
// leaves its name, and must find it there.
Status Context::check_own_storage(const Store& store) {
  if (store.descriptor.group != "NODE" || node_count() == 1) return {};
  const bool leads = node().rank() == 0;
  const At sign(*store.directory, kNodeSign);
  const std::string text = fmt::format("{} {}", host_, rank());
  const auto bytes = std::as_bytes(std::span(text));
  // A full device is no reason to stop: datasets then go elsewhere.
  const bool wrote = !leads || fs().write_file_atomically(sign, bytes, /*durable=*/false).ok();
  if (!world().all_true(wrote)) return {};
  Status status;
  if (leads) {
    auto found = fs().read_file(sign);
    if (found.ok() && !std::ranges::equal(*found, bytes)) {
      status = invalid_argument(fmt::format(
          "'{0}' is storage that several nodes share, and not this node's own: say so by a line "
          "'STORE={0} GROUP=WORLD' in the configuration, or choose another directory",
          store.descriptor.directory));
    }
  }
  status = agree(world(), status, "opening the cache directory");
  if (leads) (void)fs().remove_if_exists(sign);
  return status;
}

namespace {

redundancy::Scheme scheme_of(config::CopyType type) {
  switch (type) {
    case config::CopyType::kSingle:
      return redundancy::Scheme::kSingle;
    case config::CopyType::kPartner:
      return redundancy::Scheme::kPartner;
    case config::CopyType::kXor:
      return redundancy::Scheme::kXor;
    case config::CopyType::kRs:
      return redundancy::Scheme::kReedSolomon;
  }
  return redundancy::Scheme::kSingle;
}

}  // namespace

Status Context::activate_redundancy(const config::RedundancyDescriptor& descriptor) {
  ActiveRedundancy active;
  active.descriptor = descriptor;
  auto store = stores_.find(descriptor.store);
  if (store == stores_.end()) {
    return invalid_argument(fmt::format("CKPT={} uses the store '{}', which is not enabled",
                                        descriptor.index, descriptor.store));
  }
  active.store = store->second.get();
  auto value = group_value(descriptor.group);
  SCR_RETURN_IF_ERROR(agree(world(), value.status(), "forming redundancy sets"));
  redundancy::SetRequest request;
  request.scheme = scheme_of(descriptor.type);
  request.set_size = static_cast<int>(descriptor.set_size);
  request.failures = static_cast<int>(descriptor.set_failures);
  request.hop_distance = static_cast<int>(config_->get_uint("SCR_HOP_DISTANCE"));
  request.failure_group = *value;
  request.host = host_;
  active.sets = redundancy::form_sets(world(), request);
  if (rank() == 0 && !alone_ && request.scheme != redundancy::Scheme::kSingle &&
      active.sets.front().scheme == redundancy::Scheme::kSingle) {
    log::warning(
        "all ranks are in one {} group ('{}'), so checkpoints cannot be protected against its "
        "loss: {} "
        "becomes SINGLE",
        descriptor.group, *value, scheme_name(request.scheme));
  }
  redundancy_[descriptor.index] = std::move(active);
  return {};
}

const ActiveRedundancy& Context::redundancy_for(int id, bool output) const {
  const auto* descriptor = config_->descriptor_for(static_cast<std::uint64_t>(id), output);
  return redundancy_.at(descriptor->index);
}

std::vector<std::string> Context::gather_hosts() const {
  if (nodes_.node->rank() != 0) return {};
  std::array<char, 64> name{};
  host_.copy(name.data(), name.size() - 1);
  const auto all = nodes_.across->gather(std::as_bytes(std::span(name)), 0);
  std::vector<std::string> names;
  for (std::size_t at = 0; at + name.size() <= all.size(); at += name.size()) {
    std::memcpy(name.data(), all.data() + at, name.size());
    names.emplace_back(name.data());
  }
  return names;
}

}  // namespace scr
