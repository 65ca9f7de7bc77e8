#include "core/base/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "core/base/log.hpp"

namespace scr {

namespace {

constexpr double kEvery = 1.0;  // seconds

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  for (bytes /= 1000; bytes >= 999.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Written over by the next, and wiped out by a shorter one too.
void overwrite_terminal_line(const std::string& line, bool last) {
  const std::string text = fmt::format("\r{}\x1b[K{}", line, last ? "\n" : "");
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

void write_log_line(const std::string& line, bool /*last*/) { log::info("{}", line); }

}  // namespace

std::string progress_text(const std::string& what, std::uint64_t done, std::uint64_t total,
                          double seconds) {
  const auto bytes = static_cast<double>(done);
  const double rate = seconds > 0 ? bytes / seconds : 0;
  const double share = total > 0 ? 100 * bytes / static_cast<double>(total) : 100;
  std::string text =
      fmt::format("{}: {} of {} ({:.0f}%), {}/s", what, bytes_text(bytes),
                  bytes_text(static_cast<double>(total)), std::floor(share), bytes_text(rate));
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

std::function<void(std::uint64_t, std::uint64_t)> watch_growing_progress(int rank,
                                                                         const std::string& what,
                                                                         bool background) {
  const bool terminal = !background && ::isatty(STDERR_FILENO) == 1;
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
