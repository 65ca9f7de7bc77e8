// The world behind InProcessWorld: which ranks run, which wait and for what, and what went wrong.
//
// One lock guards the world with all its groups and mailboxes; it is not held while the bytes of a
// point-to-point message are copied. Deadlocks are found exactly: a rank counts as waiting from the
// moment it finds its condition false until somebody wakes it, and whoever changes what a rank may
// wait for wakes it. So when every running rank counts as waiting, none can ever go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace scr::in_process {

using Lock = std::unique_lock<std::mutex>;

// Thrown in ranks that wait for what cannot come; its cause is elsewhere.
class WaitFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class World {
 public:
  World(int ranks, std::chrono::milliseconds timeout);

  Lock lock() { return Lock(mutex_); }

  // Says in words what a rank waits for, to go after "rank 3 waits for ".
  using Awaited = std::function<std::string()>;

  // Waits until `ready()`. Throws WaitFailure once the world has failed, unless ready.
  void wait(Lock& lock, int rank, const std::function<bool()>& ready, const Awaited& awaited);
  // To call after every change that `rank` may wait for.
  void wake(int rank);
  // Ends all waits; the first reason counts.
  void fail(const std::string& reason);
  void throw_if_failed() const;

  // A rank's body has returned (no error) or thrown.
  void finish(int rank, const std::exception_ptr& error);
  // After all have finished: throws what `run` is to throw.
  void rethrow() const;

 private:
  struct Rank {
    std::condition_variable woken;
    const Awaited* awaited = nullptr;  // set while waiting
    bool finished = false;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void fail_if_deadlocked();
  std::string deadlock_text() const;

  std::mutex mutex_;
  std::vector<Rank> ranks_;
  int running_;
  int waiting_ = 0;
  std::chrono::milliseconds timeout_;
  std::optional<std::string> failure_;
  std::exception_ptr cause_;        // the first exception that is no WaitFailure
  std::exception_ptr consequence_;  // the first WaitFailure
};

inline World::World(int ranks, std::chrono::milliseconds timeout)
    : ranks_(static_cast<std::size_t>(ranks)), running_(ranks), timeout_(timeout) {}

inline void World::wait(Lock& lock, int rank, const std::function<bool()>& ready,
                        const Awaited& awaited) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  Rank& self = at(rank);
  while (!ready()) {
    if (failure_) {
      throw WaitFailure("rank " + std::to_string(rank) + " waits for " + awaited() + ", but " +
                        *failure_);
    }
    self.awaited = &awaited;
    ++waiting_;
    fail_if_deadlocked();
    while (self.awaited != nullptr) {
      if (self.woken.wait_until(lock, deadline) == std::cv_status::timeout && self.awaited) {
        fail("rank " + std::to_string(rank) + " has waited for " +
             std::to_string(timeout_.count()) + " ms, the time limit, for " + awaited());
      }
    }
  }
}

inline void World::wake(int rank) {
  Rank& other = at(rank);
  if (other.awaited == nullptr) return;
  other.awaited = nullptr;
  --waiting_;
  other.woken.notify_one();
}

inline void World::fail(const std::string& reason) {
  if (!failure_) failure_ = reason;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) wake(static_cast<int>(rank));
}

inline void World::throw_if_failed() const {
  if (failure_) throw WaitFailure(*failure_);
}

inline void World::fail_if_deadlocked() {
  if (running_ > 0 && waiting_ == running_) fail(deadlock_text());
}

inline std::string World::deadlock_text() const {
  constexpr int kMaxListed = 8;
  std::string result = "no rank can go on:";
  int listed = 0;
  for (std::size_t rank = 0; rank < ranks_.size() && listed < kMaxListed; ++rank, ++listed) {
    result += " rank " + std::to_string(rank);
    result +=
        ranks_[rank].finished ? " has returned;" : " waits for " + (*ranks_[rank].awaited)() + ";";
  }
  if (static_cast<std::size_t>(listed) < ranks_.size()) result += " and so on";
  return result;
}

inline void World::finish(int rank, const std::exception_ptr& error) {
  const Lock guard = lock();
  at(rank).finished = true;
  --running_;
  if (!error) {
    fail_if_deadlocked();
    return;
  }
  const std::string ended = "rank " + std::to_string(rank) + " has ended with an exception";
  try {
    std::rethrow_exception(error);
  } catch (const WaitFailure&) {
    if (!consequence_) consequence_ = error;
    fail(ended);
  } catch (const std::exception& exception) {
    if (!cause_) cause_ = error;
    fail(ended + ": " + exception.what());
  } catch (...) {
    if (!cause_) cause_ = error;
    fail(ended);
  }
}

inline void World::rethrow() const {
  if (cause_) std::rethrow_exception(cause_);
  if (consequence_) std::rethrow_exception(consequence_);
  throw_if_failed();
}

}  // namespace scr::in_process
