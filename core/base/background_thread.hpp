// Threads that work beside the program: they take none of its signals, and do not keep to the core
// that a launcher has bound its rank to.
#pragma once

#include <functional>
#include <thread>

#include "core/base/status.hpp"

namespace scr {

// Fails where the system gives no more threads (a limit of processes, no memory).
Result<std::thread> start_background_thread(std::function<void()> body);

}  // namespace scr
