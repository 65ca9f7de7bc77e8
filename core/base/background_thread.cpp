#include "core/base/background_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <csignal>

namespace scr {

namespace {

void use_all_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

std::thread start_background_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
  std::thread thread([body = std::move(body)] {
    use_all_cores();
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace scr
