// Flusher: brings cached datasets to the prefix directory, at once or in a background thread.
//
// Collective, except the questions. The background thread copies, and where containers have parity
// computes it once all ranks have copied (POSIX calls, no MPI); what needs the other ranks is done
// at the collective points of the program, by poll(). It blocks all signals and does not keep to
// the core that its rank is bound to. With SCR_FLUSH_TYPE=DAEMON the scr_transfer of the node
// copies, and the thread only watches it; where none is at work, the thread copies after all. Where
// the system gives no thread, the program waits for the copy.
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
#include "flush/transfer_client.hpp"

namespace scr {

struct FlushOutcome {
  DatasetDescriptor dataset;
  Status status;
  double seconds = 0;
};

class Flusher {
 public:
  Flusher(Context& context, const Cache& cache);
  // Cancels copies under way: what they wrote is taken up by the next run. A daemon goes on.
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // How logs of shared files are opened, and the number of this node in their places.
  struct SharedLogs {
    std::function<flush::OpenSharedLog(int dataset)> of_dataset;  // called by the main thread
    int node = 0;
  };
  void use_shared_logs(SharedLogs logs) { shared_ = std::move(logs); }

  // At the start of a run: the daemons of all nodes stop what they still do for an earlier run, so
  // that this one can take it up. What they have copied stays.
  void take_over_transfers();

  // How datasets of its store are flushed: STORE=... FLUSH=, which is SCR_FLUSH_TYPE if not given.
  config::FlushType type_of(const DatasetDescriptor& dataset) const;
  // Brings a dataset to the prefix directory before it returns.
  Status flush(const DatasetDescriptor& dataset);
  // Starts to; the queue may hold several.
  Status begin(const DatasetDescriptor& dataset);
  // Goes on with the flushes whose work in the background is done on all ranks, and ends those
  // where nothing is left. Never waits for such work.
  std::vector<FlushOutcome> poll();
  // Ends all flushes.
  std::vector<FlushOutcome> wait();

  bool is_flushing(int dataset) const;
  bool idle() const { return queue_.empty(); }
  std::size_t queued() const { return queue_.size(); }
  // True if the background work of this rank for the first of them is done, so that poll() can go
  // on.
  bool ready() const { return !queue_.empty() && queue_.front().ready(); }
  // Bytes of this rank, if the dataset is being flushed.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> progress(int dataset) const;

 private:
  struct Entry {
    std::unique_ptr<flush::Flush> flush;
    std::chrono::steady_clock::time_point started;
    std::string transfer;   // key in the transfer file; empty: the thread copies
    bool taken = false;     // by the thread, or nothing to do for it
    bool encoding = false;  // copied everywhere; the thread computes what comes from all of it
    bool ready() const { return encoding ? flush->encoded() : flush->copied(); }
  };

  flush::FlushOptions options(bool background, int dataset) const;
  Result<flush::SharedLog> shared_log(const FilemapEntry& entry, const FileMeta& meta) const;
  Result<std::unique_ptr<flush::Flush>> prepare(const DatasetDescriptor& dataset, bool background);
  std::string give_to_daemon(const flush::Flush& flush);
  // False if the thread has to copy itself.
  bool watch_daemon(flush::Flush& flush, const std::string& transfer);
  bool take_back(const std::string& transfer, std::string_view why);
  std::optional<FlushOutcome> advance_first();
  bool start_thread();
  void serve_encodings();
  FlushOutcome end_first();
  void run();

  Context& context_;
  const Cache& cache_;
  SharedLogs shared_;
  std::deque<Entry> queue_;  // changed by the main thread only, under the lock
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  flush::TransferClient daemon_;
  bool daemon_missing_ = false;  // known to the thread only: it was waited for once, in vain
  std::thread thread_;
};

}  // namespace scr
