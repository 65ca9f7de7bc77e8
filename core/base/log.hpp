// Logging to standard error, by level; every line names host and rank.
//
//   SCR v: rank 3 on node7: ...     with v the library version
//
// Errors, warnings and notices (one line at the end of a run) are always printed; SCR_DEBUG=1 adds
// what a user wants to know of each step, 2 and more add detail. Any thread may log; a line is
// written with one system call.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace scr::log {

enum class Level { kError = -2, kWarning = -1, kNotice = 0, kInfo = 1, kDetail = 2, kTrace = 3 };

// Lines of a level above this are dropped. Starts as the value of SCR_DEBUG, 0 if unset.
void set_verbosity(int level);
int verbosity();
inline bool enabled(Level level) { return static_cast<int>(level) <= verbosity(); }

// Rank that lines name; -1 (none) until set. The host name is read once.
void set_rank(int rank);
const std::string& host_name();

// Where lines go, for tests; nullptr gives standard error back.
using Sink = void (*)(Level level, std::string_view line);
void set_sink(Sink sink);

void write(Level level, std::string_view message);

template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void notice(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kNotice, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void detail(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDetail)) {
    write(Level::kDetail, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace scr::log
