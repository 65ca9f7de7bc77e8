// Start and end of a run, and the questions a program asks.
#include "core/runtime/runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "core/base/log.hpp"
#include "core/base/nodes_file.hpp"

namespace scr {

Result<std::unique_ptr<Runtime>> Runtime::start(FileSystem& fs, std::unique_ptr<Communicator> world,
                                                const std::string& host,
                                                const RunOptions& options) {
  log::set_rank(world->rank());
  std::unique_ptr<Runtime> runtime(new Runtime);
  SCR_ASSIGN_OR_RETURN(runtime->context_, Context::create(fs, std::move(world), host, options));
  runtime->cache_ = std::make_unique<Cache>(*runtime->context_);
  runtime->flusher_ = std::make_unique<Flusher>(*runtime->context_, *runtime->cache_);
  SCR_RETURN_IF_ERROR(runtime->open_prefix());
  SCR_RETURN_IF_ERROR(runtime->open_job());
  runtime->flusher_->take_over_transfers();
  SCR_RETURN_IF_ERROR(runtime->restore());
  SCR_RETURN_IF_ERROR(runtime->clean_prefix());
  // Programs that do not call SCR_* read where the data is.
  if (options.mode == config::Mode::kNative) SCR_RETURN_IF_ERROR(runtime->fetch_newest());
  const config::Config& config = runtime->context_->config();
  runtime->timer_ = CheckpointTimer(
      {config.get_uint("SCR_CHECKPOINT_INTERVAL"), config.get_double("SCR_CHECKPOINT_SECONDS"),
       config.get_double("SCR_CHECKPOINT_OVERHEAD")},
      runtime->now());
  runtime->context_->world().barrier();
  runtime->compute_event_ = runtime->log_.begin(EventType::kCompute);
  return runtime;
}

Status Runtime::wrong_moment(std::string message) {
  log::error("{}", message);
  return failed_precondition(std::move(message));
}

double Runtime::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Marks the job's directory as in use, opens the log, writes the nodes file, looks at the halt
// file.
Status Runtime::open_job() {
  Context& c = *context_;
  JobOwnerInfo info;
  info.user = c.job().user;
  info.job_id = c.job().job_id;
  info.host = c.host();
  info.prefix = c.job().prefix;
  auto owner = JobOwner::hold(c.fs(), c.control(), info);
  // scr_clean may have taken the directories away between our making and our holding them.
  if (owner.status().code() == StatusCode::kUnavailable && c.make_directories_again().ok()) {
    owner = JobOwner::hold(c.fs(), c.control(), info);
  }
  if (owner.ok()) owner_ = std::move(*owner);
  Status status = owner.status();
  if (status.ok() && c.node().rank() == 0) {
    status = write_nodes_file(c.fs(), At(c.control(), std::string(kNodesFileName)), c.node_count());
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "writing to the control directory"));

  const config::Config& config = c.config();
  std::vector<std::string> hosts;
  if (config.get_bool("SCR_LOG_ENABLE")) hosts = c.gather_hosts();
  if (c.rank() == 0) {
    EventLogOptions options;
    options.nodes = std::move(hosts);
    options.enable = config.get_bool("SCR_LOG_ENABLE");
    options.text = config.get_bool("SCR_LOG_TXT_ENABLE");
    options.syslog = config.get_bool("SCR_LOG_SYSLOG_ENABLE");
    options.json = config.get_bool("SCR_LOG_JSON_ENABLE");
    options.directory = c.prefix_scr();
    options.user = c.job().user;
    options.job_id = c.job().job_id;
    options.job_name = c.job().job_name;
    options.run_id = fmt::format("{}.{}", std::time(nullptr), getpid());
    options.ranks = c.size();
    log_ = EventLog::open(c.fs(), std::move(options));
    run_event_ = log_.begin(EventType::kRun);
    limits_ = job_limits(c.job().job_id, static_cast<std::int64_t>(config.get_uint("SCR_END_TIME")),
                         config.get_double("SCR_HALT_SECONDS"));
    status = make_room_for([&] { return clear_finalize_called(c.fs(), halt_file()).status(); });
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), status, "reading the halt file"));
  if (auto reason = halt_reason(false); reason && config.get_bool("SCR_HALT_EXIT"))
    must_exit_ = true;
  return {};
}

Status Runtime::finalize() {
  context_->meet("SCR_Finalize");
  if (in_dataset()) {
    Status status =
        failed_precondition("SCR_Finalize while a dataset is being written: it is dropped");
    if (context_->rank() == 0) log::warning("{}", status.message());
    context_->world().barrier();  // others may still be writing in the directory that goes now
    (void)abandon(status);
  }
  Status flushed = final_flush();
  Status status;
  if (context_->rank() == 0) {
    log_.end(compute_event_);
    auto halt = update_halt_file(context_->fs(), halt_file(), [](HaltConditions& conditions) {
      if (conditions.exit_reason.empty()) conditions.exit_reason = std::string(kFinalizeCalled);
    });
    status = halt.status();
    give_sign_of_life(false);
    log_.end(run_event_, {.ok = status.ok() && flushed.ok()});
  }
  status = agree(context_->world(), status, "writing the halt file");
  return flushed.ok() ? status : flushed;
}

void Runtime::withdraw() {
  settle(flusher_->wait());
  if (context_->rank() == 0) {
    log_.end(compute_event_);
    give_sign_of_life(false);
    log_.end(run_event_, {.ok = true});
  }
  context_->world().barrier();
}

std::optional<std::string> Runtime::halt_reason(bool count) {
  std::string reason;
  if (context_->rank() == 0) {
    auto conditions = count ? count_checkpoint(context_->fs(), halt_file())
                            : read_halt_file(context_->fs(), halt_file());
    if (!conditions.ok()) {
      log::warning("{}", conditions.status().message());
    } else if (auto why =
                   reason_to_halt(*conditions, std::time(nullptr), HaltQuestion::kRun, limits_)) {
      reason = *why;
      log::info("halt: {}", reason);
      log_.once(EventType::kHalt, {.note = reason});
    }
  }
  if (!context_->world().any_true(!reason.empty())) return std::nullopt;
  return context_->world().broadcast_string(reason, 0);
}

Result<bool> Runtime::need_checkpoint() {
  context_->meet("SCR_Need_checkpoint");
  poll_flushes();
  if (halt_reason(false)) return true;
  const bool due = context_->rank() == 0 && timer_.due(now());
  return context_->world().any_true(due);
}

Result<bool> Runtime::should_exit() {
  context_->meet("SCR_Should_exit");
  poll_flushes();
  return halt_reason(false).has_value();
}

}  // namespace scr
