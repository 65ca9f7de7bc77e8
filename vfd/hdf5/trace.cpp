#include "vfd/hdf5/trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/log.hpp"

namespace scr::vfd {

namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string file_name(std::string_view pattern) {
  std::string name;
  bool has_process = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next != 'p' && next != 'h') {
      name += pattern[i];
      continue;
    }
    name += next == 'p' ? std::to_string(getpid()) : log::host_name();
    has_process = has_process || next == 'p';
    ++i;
  }
  if (!has_process) name += fmt::format(".{}.{}", log::host_name(), getpid());
  return name;
}

}  // namespace

class Trace {
 public:
  explicit Trace(std::unique_ptr<File> file)
      : file_(std::move(file)), pid_(getpid()), start_(now()) {}

  // Each line reaches the file at once, so that the last ones before a crash are there.
  void add(const char* call, const std::string& file, std::uint64_t offset, std::uint64_t length,
           std::int64_t begin, const std::string& flags, bool ok) {
    if (getpid() != pid_) return;  // a child of fork()
    const std::int64_t end = now();
    constexpr double kSecond = 1e9;
    nlohmann::ordered_json line = {
        {"call", call},
        {"file", file},
        {"offset", offset},
        {"length", length},
        {"start", static_cast<double>(begin - start_) / kSecond},
        {"seconds", static_cast<double>(end - begin) / kSecond},
    };
    if (!flags.empty()) line["flags"] = flags;
    line["ok"] = ok;
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    std::lock_guard lock(mutex_);
    if (!file_->write_all(std::as_bytes(std::span(text)), size_).ok()) return;
    size_ += text.size();
  }

 private:
  std::unique_ptr<File> file_;
  const pid_t pid_;
  const std::int64_t start_;
  std::mutex mutex_;
  std::uint64_t size_ = 0;
};

namespace {

std::atomic<Trace*> active_trace = nullptr;  // never destroyed: files are closed after main()

}  // namespace

void start_trace(std::string_view pattern) {
  if (pattern.empty() || active_trace != nullptr) return;
  OpenOptions options = OpenOptions::create_truncate();
  options.no_follow = false;  // the user's own path, to whatever it leads
  options.any_type = true;
  auto file = file_system().open(file_name(pattern), options);
  if (!file.ok()) {
    log::warning("no trace of the driver's calls (SCR_VFD_TRACE): {}", file.status().message());
    return;
  }
  active_trace = new Trace(std::move(*file));  // NOLINT: lives as long as the process
}

TracedCall::TracedCall(const char* name, std::string_view file, std::uint64_t offset,
                       std::uint64_t length)
    : trace_(active_trace.load(std::memory_order_acquire)),
      name_(name),
      offset_(offset),
      length_(length) {
  if (trace_ == nullptr) return;
  file_ = file;
  start_ = now();
}

TracedCall::TracedCall(const char* name, const File& file, std::uint64_t offset,
                       std::uint64_t length)
    : TracedCall(name,
                 active_trace.load(std::memory_order_acquire) == nullptr
                     ? std::string_view()
                     : std::string_view(file.path()),
                 offset, length) {}

TracedCall::~TracedCall() {
  if (trace_ == nullptr) return;
  try {
    trace_->add(name_, file_, offset_, length_, start_, flags_, ok_);
  } catch (const std::exception&) {  // no memory for the line: the call itself goes on
  }
}

}  // namespace scr::vfd
