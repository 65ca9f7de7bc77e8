/* For tests with MPICH over UCX, preloaded: a rank that finds nothing to do gives its core away.
 * MPICH's ranks spin while they wait, so that on two cores eight of them take a time slice for each
 * message instead of microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*next)(void*);
  if (next == NULL) next = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned done = next(worker);
  if (done == 0) sched_yield();
  return done;
}
