#include "core/runtime/flusher.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "core/base/access.hpp"
#include "core/base/background_thread.hpp"
#include "core/base/log.hpp"
#include "core/base/progress.hpp"
#include "core/runtime/restart_elsewhere.hpp"
#include "core/service/exports.hpp"

namespace scr {

namespace {

using Clock = std::chrono::steady_clock;

// A launcher may start the daemon a little later than the program.
constexpr std::chrono::seconds kDaemonGrace{5};
constexpr Clock::duration kDaemonPoll = std::chrono::milliseconds(200);
constexpr int kPollShare = 20;  // looking at a long transfer file takes at most 1/20 of the time

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Flusher::Flusher(Context& context, const Cache& cache)
    : context_(context), cache_(cache), daemon_(context.fs(), context.control()) {}

Flusher::~Flusher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (Entry& entry : queue_) entry.flush->cancel();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

config::FlushType Flusher::type_of(const DatasetDescriptor& dataset) const {
  return context_.redundancy_for(dataset.id, dataset.output).store->descriptor.flush;
}

Result<flush::SharedLog> Flusher::shared_log(const FilemapEntry& entry,
                                             const FileMeta& meta) const {
  if (!shared_.of_dataset) {
    return failed_precondition(fmt::format(
        "'{}' of dataset {} was written by several processes together, and this run has no service "
        "to read their parts: it stays in the cache",
        meta.shared, entry.dataset.id));
  }
  flush::SharedLog log;
  log.file = meta.shared;
  SCR_ASSIGN_OR_RETURN(
      log.table, shared_file::read_log_table(context_.fs(), entry.directory + "/" + meta.file));
  SCR_ASSIGN_OR_RETURN(log.place.id,
                       service::make_id(entry.dataset.id, log.table.rank, log.table.number));
  log.place.rank = log.table.rank;
  log.place.node = static_cast<std::uint32_t>(shared_.node);
  return log;
}

flush::FlushOptions Flusher::options(bool background, int dataset) const {
  const config::Config& config = context_.config();
  flush::FlushOptions options;
  options.containers = config.get_bool("SCR_USE_CONTAINERS");
  options.container_size = config.get_bytes("SCR_CONTAINER_SIZE");
  options.container_parity = config.get_uint("SCR_CONTAINER_PARITY");
  options.width = static_cast<int>(config.get_uint("SCR_FLUSH_WIDTH"));
  options.keep_newer = context_.transparent();
  options.copy.buffer = config.get_bytes("SCR_FILE_BUF_SIZE");
  if (shared_.of_dataset) options.open_log = shared_.of_dataset(dataset);
  if (background) {
    options.copy.bytes_per_second = static_cast<double>(config.get_bytes("SCR_FLUSH_ASYNC_BW"));
    options.copy.percent = config.get_double("SCR_FLUSH_ASYNC_PERCENT");
  }
  return options;
}

Result<std::unique_ptr<flush::Flush>> Flusher::prepare(const DatasetDescriptor& dataset,
                                                       bool background) {
  const auto entries = own_entries(context_, cache_, dataset);
  const bool missing = entries.empty() && dataset.ranks == context_.size();
  Status status = missing ? internal_error("no filemap entry of a dataset to flush") : Status();
  SCR_RETURN_IF_ERROR(agree(context_.world(), status, "flushing"));
  std::vector<FileMeta> files;
  std::vector<flush::SharedLog> logs;
  for (const FilemapEntry* entry : entries) {
    for (const FileMeta& meta : entry->files) {
      if (meta.type != FileType::kFull) continue;
      if (meta.shared.empty()) {
        files.push_back(meta);
        continue;
      }
      auto log = shared_log(*entry, meta);
      if (log.ok()) logs.push_back(std::move(*log));
      if (status.ok()) status = log.status();
    }
  }
  SCR_RETURN_IF_ERROR(agree(context_.world(), status, "flushing"));
  SCR_ASSIGN_OR_RETURN(
      auto flush,
      flush::Flush::prepare(context_.world(), context_.node(), context_.fs(), context_.job().prefix,
                            dataset, entries.empty() ? std::string() : entries.front()->directory,
                            files, options(background, dataset.id), logs));
  auto show = watch_progress(context_.rank(), fmt::format("flush of dataset {}", dataset.id),
                             flush->bytes_total(), background);
  flush->set_observer([this, background, show = std::move(show)](std::uint64_t bytes) {
    if (show) show(bytes);
    // One that all have copied already does not wait for the end of this one.
    if (background) serve_encodings();
  });
  return flush;
}

Status Flusher::flush(const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto flush, prepare(dataset, /*background=*/false));
  flush->copy_in_turns(context_.world());
  return flush->finish(context_.world(), context_.node());
}

Status Flusher::begin(const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto flush, prepare(dataset, /*background=*/true));
  const bool daemon = type_of(dataset) == config::FlushType::kDaemon;
  std::string transfer = daemon ? give_to_daemon(*flush) : std::string();
  // One that an earlier run completed may end at once: the thread must not have a hand on it then.
  const bool copied = flush->copied();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(flush), Clock::now(), std::move(transfer), copied});
  }
  if (!start_thread()) {
    queue_.back().taken = true;
    if (!copied) queue_.back().flush->copy();
  }
  wake_.notify_all();
  return {};
}

bool Flusher::start_thread() {
  if (thread_.joinable()) return true;
  auto started = start_background_thread([this] { run(); });
  if (!started.ok()) {
    log::warning("{}; the program waits for its flush", started.status().message());
    return false;
  }
  thread_ = *std::move(started);
  return true;
}

// In the thread: computes what is waiting to be computed.
void Flusher::serve_encodings() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next = std::ranges::find_if(
        queue_, [](const Entry& entry) { return entry.encoding && !entry.taken; });
    if (next == queue_.end() || stop_) return;
    next->taken = true;
    flush::Flush* flush = next->flush.get();
    lock.unlock();
    flush->encode();
    lock.lock();
    wake_.notify_all();
  }
}

void Flusher::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    auto next =
        std::find_if(queue_.begin(), queue_.end(), [](const Entry& entry) { return !entry.taken; });
    if (next == queue_.end()) {
      wake_.wait(lock);
      continue;
    }
    if (next->encoding) {
      lock.unlock();
      serve_encodings();
      lock.lock();
      continue;
    }
    next->taken = true;
    flush::Flush* flush = next->flush.get();  // stays: the main thread removes only what is copied
    const std::string transfer = next->transfer;
    lock.unlock();
    if (transfer.empty() || !watch_daemon(*flush, transfer)) {
      flush->copy();
    }
    lock.lock();
    wake_.notify_all();
  }
}

// --- the daemon

void Flusher::take_over_transfers() {
  if (context_.node().rank() == 0) {
    Status status = daemon_.take_over();
    if (!status.ok()) log::warning("{}", status.message());
  }
  context_.world().barrier();
}

// Collective over the node: one daemon copies for all, so it gets the bandwidth of all.
std::string Flusher::give_to_daemon(const flush::Flush& flush) {
  std::array<double, 1> bandwidth = {flush.bytes_total() > 0 ? flush.copy_options().bytes_per_second
                                                             : 0};
  context_.node().all_reduce(bandwidth, ReduceOp::kSum);
  const bool shared = std::ranges::any_of(
      flush.tasks(), [](const flush::CopyTask& task) { return task.open != nullptr; });
  // Shared files are put together by processes of the program, which know where the pieces are.
  if (flush.copied() || flush.tasks().empty() || shared) return {};
  flush::Transfer transfer;
  transfer.dataset = flush.dataset().id;
  transfer.created = flush.dataset().created;
  transfer.attempt = flush.attempt();
  transfer.rank = context_.rank();
  transfer.bytes_per_second = bandwidth[0];
  transfer.percent = flush.copy_options().percent;
  transfer.mode = mode_of_new_files(context_.fs());
  for (const flush::CopyTask& task : flush.tasks()) transfer.tasks.push_back({task, 0});
  std::string key = transfer.key();
  Status status = daemon_.submit(std::move(transfer));
  if (status.ok()) return key;
  log::warning("{}; copying in the background of the program instead", status.message());
  return {};
}

// False while the daemon may be copying it. A file that cannot be read stops the daemon, too.
bool Flusher::take_back(const std::string& transfer, std::string_view why) {
  if (daemon_.withdraw(transfer).code() == StatusCode::kUnavailable) return false;
  if (!daemon_missing_ && context_.node().rank() == 0) {
    log::warning("{}; copying in the background of the program instead", why);
  }
  return true;
}

bool Flusher::watch_daemon(flush::Flush& flush, const std::string& transfer) {
  auto last_served = Clock::now();
  Clock::duration pause = kDaemonPoll;
  for (std::unique_lock lock(mutex_); !stop_;
       wake_.wait_for(lock, pause, [this] { return stop_; })) {
    lock.unlock();
    serve_encodings();
    bool served = false;
    const auto start = Clock::now();
    auto seen = daemon_.look(transfer, served);
    pause = std::max(kDaemonPoll, kPollShare * (Clock::now() - start));
    if (seen.ok() && seen->done) {
      std::vector<flush::CopyTask> copied;
      for (flush::TransferTask& task : seen->tasks) copied.push_back(std::move(task.copy));
      Status adopted = daemon_.withdraw(transfer);
      if (adopted.ok()) adopted = flush.adopt_copies(copied);
      if (adopted.ok()) return true;
      seen = adopted;
    }
    if (seen.ok()) flush.set_bytes_done(seen->written());
    if (served) {
      daemon_missing_ = false;
      last_served = Clock::now();
    }
    bool back = false;
    if (!seen.ok()) {
      back = take_back(transfer, seen.status().message());
    } else if (!seen->error.empty()) {
      back = take_back(transfer, "scr_transfer: " + seen->error);
    } else if (!served && (daemon_missing_ || Clock::now() - last_served > kDaemonGrace)) {
      back = take_back(
          transfer,
          fmt::format("no scr_transfer is at work for '{}' on this node (docs/transfer.md)",
                      context_.control().path()));
      daemon_missing_ = back;
    }
    if (back) {
      flush.keep_what_is_there();
      flush.set_bytes_done(0);
      return false;
    }
    lock.lock();
  }
  return true;
}

FlushOutcome Flusher::end_first() {
  std::unique_lock lock(mutex_);
  Entry entry = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  FlushOutcome outcome{entry.flush->dataset(), {}, since(entry.started)};
  outcome.status = entry.flush->finish(context_.world(), context_.node());
  return outcome;
}

// Collective, when the first flush is ready on all ranks: gives it back to the thread for its
// second step, or ends it.
std::optional<FlushOutcome> Flusher::advance_first() {
  Entry& first = queue_.front();
  if (first.encoding || !context_.world().all_true(first.flush->needs_encoding()))
    return end_first();
  {
    const std::lock_guard lock(mutex_);
    first.encoding = true;
    first.taken = false;
  }
  if (!thread_.joinable()) serve_encodings();
  wake_.notify_all();
  return std::nullopt;
}

std::vector<FlushOutcome> Flusher::poll() {
  std::vector<FlushOutcome> outcomes;
  while (!queue_.empty() && context_.world().all_true(ready())) {
    if (auto outcome = advance_first()) outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

std::vector<FlushOutcome> Flusher::wait() {
  std::vector<FlushOutcome> outcomes;
  while (!queue_.empty()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ready(); });
    }
    if (auto outcome = advance_first()) outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

bool Flusher::is_flushing(int dataset) const {
  return std::any_of(queue_.begin(), queue_.end(),
                     [&](const Entry& entry) { return entry.flush->dataset().id == dataset; });
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> Flusher::progress(int dataset) const {
  for (const Entry& entry : queue_) {
    if (entry.flush->dataset().id == dataset) {
      return std::pair(entry.flush->bytes_done(), entry.flush->bytes_total());
    }
  }
  return std::nullopt;
}

}  // namespace scr
