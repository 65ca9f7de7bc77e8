#include "core/api/end_process.hpp"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>

#include "core/base/background_thread.hpp"

namespace scr {

namespace {

// A stream that another thread reads from is locked for as long as that waits for input.
constexpr std::chrono::seconds kPatience{10};

void write_out_streams() {
  static auto& written = *new std::promise<void>;  // the thread may outlive this call
  auto thread = start_background_thread([] {
    std::fflush(nullptr);
    written.set_value();
  });
  if (!thread.ok()) return;
  thread->detach();
  (void)written.get_future().wait_for(kPatience);
}

}  // namespace

void end_process() {
  write_out_streams();
  PMPI_Finalize();
  _exit(EXIT_SUCCESS);
}

}  // namespace scr
