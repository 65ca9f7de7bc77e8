// Threads that work beside the program: they take none of its signals, and do not keep to the core
// that a launcher has bound its rank to.
#pragma once

#include <functional>
#include <thread>

namespace scr {

std::thread start_background_thread(std::function<void()> body);

}  // namespace scr
