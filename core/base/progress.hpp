// Progress of a long copy or rebuild, for whoever waits for it: bytes, rate and time left.
//
// Shown by rank 0, of its own part, which is much like that of the others: nothing is asked of
// them. On a terminal it is one line that is written over; with SCR_DEBUG=1 and more, lines of the
// log. At most about one a second, and none for what takes less than a second. Used by one thread
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace scr {

// Set, and not empty, by scr_run if it is started at a terminal: launchers give their ranks a pipe
// in its place, and pass on what comes.
inline constexpr const char* kTerminalVariable = "SCR_RUN_TERMINAL";

// "flush of dataset 3: 120.0 MB of 500.0 MB (24%), 60.0 MB/s, 7 s left"
std::string progress_text(const std::string& what, std::uint64_t done, std::uint64_t total,
                          double seconds);

class ProgressMeter {
 public:
  using Clock = std::function<double()>;  // seconds
  // Gets each line; `last` is true for the one that says that all is done.
  using Output = std::function<void(const std::string& line, bool last)>;

  ProgressMeter(std::string what, Clock clock, Output output);
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  Clock clock_;
  Output output_;
  double start_;
  double shown_;  // when the last line was
  bool any_ = false;
};

// "[#####-----] 512 of 1000 files (51%), 256/s, 2 s left"
std::string bar_text(const std::string& unit, std::uint64_t done, std::uint64_t total,
                     double seconds);

// For commands that go through many things of one kind, with the number known: a bar on the
// terminal of standard error, taken away again at the end. With `always` also where it is no
// terminal: as lines, at most one a second, and one at the end.
class ProgressBar {
 public:
  ProgressBar(std::string unit, std::uint64_t total, bool always);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void update(std::uint64_t done);
  // Before something else is written to the terminal; the next update() shows it again.
  void hide();

 private:
  std::string unit_;
  std::uint64_t total_;
  bool terminal_;
  bool lines_;
  bool visible_ = false;
  double start_;
  double shown_;
};

// A function to call with the bytes done so far, for a process of that rank; empty if nobody wants
// to see them. In the background no line of a terminal is written over: it is the program's.
std::function<void(std::uint64_t done)> watch_progress(int rank, const std::string& what,
                                                       std::uint64_t total,
                                                       bool background = false);
// The same where the total is known only later.
std::function<void(std::uint64_t done, std::uint64_t total)> watch_growing_progress(
    int rank, const std::string& what, bool background = false);

}  // namespace scr
