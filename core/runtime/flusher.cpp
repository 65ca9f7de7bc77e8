#include "core/runtime/flusher.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>

#include "core/base/log.hpp"

namespace scr {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A rank is often bound to one core, which the program needs; the thread may use any.
void use_all_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Flusher::Flusher(Context& context, const Cache& cache) : context_(context), cache_(cache) {}

Flusher::~Flusher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (Entry& entry : queue_) entry.flush->cancel();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

flush::FlushOptions Flusher::options(bool background) const {
  const config::Config& config = context_.config();
  flush::FlushOptions options;
  options.containers = config.get_bool("SCR_USE_CONTAINERS");
  options.container_size = config.get_bytes("SCR_CONTAINER_SIZE");
  options.container_parity = config.get_uint("SCR_CONTAINER_PARITY");
  options.width = static_cast<int>(config.get_uint("SCR_FLUSH_WIDTH"));
  options.copy.buffer = config.get_bytes("SCR_FILE_BUF_SIZE");
  if (background) {
    options.copy.bytes_per_second = static_cast<double>(config.get_bytes("SCR_FLUSH_ASYNC_BW"));
    options.copy.percent = config.get_double("SCR_FLUSH_ASYNC_PERCENT");
  }
  return options;
}

Result<std::unique_ptr<flush::Flush>> Flusher::prepare(const DatasetDescriptor& dataset,
                                                       bool background) {
  const FilemapEntry* entry = cache_.filemap().get(context_.rank(), dataset.id);
  Status status = entry ? Status() : internal_error("no filemap entry of a dataset to flush");
  SCR_RETURN_IF_ERROR(agree(context_.world(), status, "flushing"));
  std::vector<FileMeta> files;
  for (const FileMeta& meta : entry->files) {
    if (meta.type == FileType::kFull) files.push_back(meta);
  }
  return flush::Flush::prepare(context_.world(), context_.node(), context_.fs(),
                               context_.job().prefix, dataset, entry->directory, files,
                               options(background));
}

Status Flusher::flush(const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto flush, prepare(dataset, /*background=*/false));
  flush->copy_in_turns(context_.world());
  return flush->finish(context_.world(), context_.node());
}

Status Flusher::begin(const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto flush, prepare(dataset, /*background=*/true));
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(flush), Clock::now(), false});
  }
  if (!thread_.joinable()) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  wake_.notify_all();
  return {};
}

void Flusher::run() {
  use_all_cores();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    auto next =
        std::find_if(queue_.begin(), queue_.end(), [](const Entry& entry) { return !entry.taken; });
    if (next == queue_.end()) {
      wake_.wait(lock);
      continue;
    }
    next->taken = true;
    flush::Flush* flush = next->flush.get();  // stays: the main thread removes only what is copied
    lock.unlock();
    flush->copy();
    lock.lock();
    wake_.notify_all();
  }
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

std::vector<FlushOutcome> Flusher::poll() {
  std::vector<FlushOutcome> outcomes;
  while (!queue_.empty() && context_.world().all_true(queue_.front().flush->copied())) {
    outcomes.push_back(end_first());
  }
  return outcomes;
}

std::vector<FlushOutcome> Flusher::wait() {
  std::vector<FlushOutcome> outcomes;
  while (!queue_.empty()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return queue_.front().flush->copied(); });
    }
    outcomes.push_back(end_first());
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
