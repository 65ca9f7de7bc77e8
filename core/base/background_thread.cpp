#include "core/base/background_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <system_error>

namespace scr {

namespace {

void use_all_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Result<std::thread> start_background_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
  Result<std::thread> started = Status(StatusCode::kUnavailable, "");
  try {
    started = std::thread([body = std::move(body)] {
      use_all_cores();
      body();
    });
  } catch (const std::system_error& error) {
    started = errno_status(error.code().value(), "start", "a background thread");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace scr
