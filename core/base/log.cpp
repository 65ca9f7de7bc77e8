#include "core/base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "core/base/posix.hpp"
#include "core/base/text.hpp"
#include "h5scr/version.hpp"

namespace scr::log {
namespace {

std::atomic<int>& verbosity_setting() {
  static std::atomic<int> level = [] {
    const char* debug = std::getenv("SCR_DEBUG");
    const auto number = text::parse_int(debug != nullptr ? debug : "0");
    return static_cast<int>(number.value_or(0));
  }();
  return level;
}

std::atomic<int> current_rank{-1};
std::atomic<Sink> current_sink{nullptr};

std::string read_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Messages hold paths and text from files: escaping keeps a message one line.
std::string format_line(Level level, std::string_view message) {
  std::string line = "SCR " H5SCR_VERSION ": ";
  if (const int rank = current_rank.load(); rank >= 0) line += fmt::format("rank {} ", rank);
  line += fmt::format("on {}: ", host_name());
  if (level == Level::kError) line += "ERROR: ";
  if (level == Level::kWarning) line += "WARNING: ";
  line += text::escape(message);
  return line;
}

void write_to_standard_error(std::string line) {
  line += '\n';
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t count =
        posix::retry_interrupted([&] { return ::write(STDERR_FILENO, left.data(), left.size()); });
    if (count <= 0) return;  // there is nowhere to complain
    left.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

void set_verbosity(int level) { verbosity_setting() = level; }
int verbosity() { return verbosity_setting(); }

void set_rank(int rank) { current_rank = rank; }

const std::string& host_name() {
  static const auto* const name = new std::string(read_host_name());  // lines may come at exit
  return *name;
}

void set_sink(Sink sink) { current_sink = sink; }

void write(Level level, std::string_view message) {
  const bool always = level == Level::kError || level == Level::kWarning;
  if (!always && !enabled(level)) return;
  const int saved_errno = errno;
  std::string line = format_line(level, message);
  if (const Sink sink = current_sink.load()) {
    sink(level, line);
  } else {
    write_to_standard_error(std::move(line));
  }
  errno = saved_errno;
}

}  // namespace scr::log
