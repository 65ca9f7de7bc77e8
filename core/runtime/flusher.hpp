// Flusher: brings cached datasets to the prefix directory, at once or in a background thread.
//
// Collective, except the questions. The background thread copies only (POSIX calls, no MPI); what
// needs the other ranks is done at the collective points of the program, by poll(). It blocks all
// signals and does not keep to the core that its rank is bound to.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/runtime/cache.hpp"
#include "core/runtime/context.hpp"
#include "flush/flush.hpp"

namespace scr {

struct FlushOutcome {
  DatasetDescriptor dataset;
  Status status;
  double seconds = 0;
};

class Flusher {
 public:
  Flusher(Context& context, const Cache& cache);
  // Cancels copies under way: what they wrote is taken up by the next run.
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // Brings a dataset to the prefix directory before it returns.
  Status flush(const DatasetDescriptor& dataset);
  // Starts to; the queue may hold several.
  Status begin(const DatasetDescriptor& dataset);
  // Ends the flushes whose data is copied on all ranks. Never waits for a copy.
  std::vector<FlushOutcome> poll();
  // Ends all flushes.
  std::vector<FlushOutcome> wait();

  bool is_flushing(int dataset) const;
  bool idle() const { return queue_.empty(); }
  // Bytes of this rank, if the dataset is being flushed.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> progress(int dataset) const;

 private:
  struct Entry {
    std::unique_ptr<flush::Flush> flush;
    std::chrono::steady_clock::time_point started;
    bool taken = false;  // by the thread
  };

  flush::FlushOptions options(bool background) const;
  Result<std::unique_ptr<flush::Flush>> prepare(const DatasetDescriptor& dataset, bool background);
  FlushOutcome end_first();
  void run();

  Context& context_;
  const Cache& cache_;
  std::deque<Entry> queue_;  // changed by the main thread only, under the lock
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace scr
