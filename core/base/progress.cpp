#include "core/base/progress.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "core/base/byte_size.hpp"
#include "core/base/log.hpp"

namespace scr {

namespace {

constexpr double kEvery = 1.0;  // seconds

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Written over by the next, and wiped out by a shorter one too.
void overwrite_terminal_line(const std::string& line, bool last) {
  const std::string text = fmt::format("\r{}\x1b[K{}", line, last ? "\n" : "");
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// What is written to standard error comes to a terminal, perhaps by way of a launcher; the
// launcher's variable says nothing of a file that it was sent to.
bool is_at_terminal() {
  if (::isatty(STDERR_FILENO) == 1) return true;
  const char* const launched = std::getenv(kTerminalVariable);
  struct stat info = {};
  return launched != nullptr && *launched != '\0' && ::fstat(STDERR_FILENO, &info) == 0 &&
         !S_ISREG(info.st_mode);
}

void write_log_line(const std::string& line, bool /*last*/) { log::info("{}", line); }

}  // namespace

std::string progress_text(const std::string& what, std::uint64_t done, std::uint64_t total,
                          double seconds) {
  const auto bytes = static_cast<double>(done);
  const double rate = seconds > 0 ? bytes / seconds : 0;
  const double share = total > 0 ? 100 * bytes / static_cast<double>(total) : 100;
  std::string text = fmt::format("{}: {} of {} ({:.0f}%), {}/s", what, approximate_byte_size(bytes),
                                 approximate_byte_size(static_cast<double>(total)),
                                 std::floor(share), approximate_byte_size(rate));
  if (done >= total) return text + fmt::format(", {:.0f} s in all", seconds);
  if (rate <= 0) return text;
  return text + fmt::format(", {:.0f} s left", std::ceil(static_cast<double>(total - done) / rate));
}

ProgressMeter::ProgressMeter(std::string what, Clock clock, Output output)
    : what_(std::move(what)),
      clock_(std::move(clock)),
      output_(std::move(output)),
      start_(clock_()),
      shown_(start_) {}

void ProgressMeter::update(std::uint64_t done, std::uint64_t total) {
  const double now = clock_();
  const bool last = done >= total;
  if (now - shown_ < kEvery && !(last && any_)) return;
  shown_ = now;
  any_ = !last;
  output_(progress_text(what_, done, total, now - start_), last);
}

std::string bar_text(const std::string& unit, std::uint64_t done, std::uint64_t total,
                     double seconds) {
  constexpr std::size_t kWidth = 30;
  const double share =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1.0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  std::string text =
      fmt::format("[{}{}] {} of {} {} ({:.0f}%)", std::string(filled, '#'),
                  std::string(kWidth - filled, '-'), done, total, unit, std::floor(share * 100));
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (rate <= 0) return text;
  text += fmt::format(", {:.{}f}/s", rate, rate < 10 ? 1 : 0);
  if (done >= total) return text + fmt::format(", {:.0f} s in all", seconds);
  return text + fmt::format(", {:.0f} s left", std::ceil(static_cast<double>(total - done) / rate));
}

ProgressBar::ProgressBar(std::string unit, std::uint64_t total, bool always)
    : unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      lines_(always && !terminal_),
      start_(steady_seconds()),
      shown_(start_) {}

ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::update(std::uint64_t done) {
  if (!terminal_ && !lines_) return;
  constexpr double kEveryOnTerminal = 0.1;
  const double now = steady_seconds();
  const bool last = done >= total_ && lines_;
  if (now - shown_ < (terminal_ ? kEveryOnTerminal : kEvery) && !last) return;
  shown_ = now;
  const std::string line = bar_text(unit_, done, total_, now - start_);
  if (terminal_) {
    overwrite_terminal_line(line, false);
    visible_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

void ProgressBar::hide() {
  if (visible_) overwrite_terminal_line("", false);
  visible_ = false;
}

std::function<void(std::uint64_t, std::uint64_t)> watch_growing_progress(int rank,
                                                                         const std::string& what,
                                                                         bool background) {
  const bool terminal = !background && is_at_terminal();
  if (rank != 0 || (!terminal && !log::enabled(log::Level::kInfo))) return {};
  auto meter =
      std::make_shared<ProgressMeter>(what + " (part of rank 0)", steady_seconds,
                                      terminal ? &overwrite_terminal_line : &write_log_line);
  return [meter](std::uint64_t done, std::uint64_t total) { meter->update(done, total); };
}

std::function<void(std::uint64_t)> watch_progress(int rank, const std::string& what,
                                                  std::uint64_t total, bool background) {
  auto watch = watch_growing_progress(rank, what, background);
  if (!watch) return {};
  return [watch, total](std::uint64_t done) { watch(done, total); };
}

}  // namespace scr
