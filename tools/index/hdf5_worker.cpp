#include "tools/index/hdf5_worker.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/filesystem.hpp"
#include "core/base/text.hpp"

namespace scr::tools {
namespace {

using Clock = std::chrono::steady_clock;

// The first character of each line that a child writes; the rest depends on it.
constexpr char kReady = 'R';
constexpr char kUnusable = 'U';  // why
constexpr char kMessage = 'M';   // JSON
constexpr char kAlive = 'A';
constexpr char kEnd = 'E';     // of the piece
constexpr char kFailed = 'F';  // why: the end of a piece by an exception

// --- the child --------------------------------------------------------------------------------

class PipeChannel final : public WorkerChannel {
 public:
  explicit PipeChannel(int descriptor) : descriptor_(descriptor) {}

  void send(const nlohmann::json& message) override {
    line(kMessage, message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  void alive() override {
    const auto now = Clock::now();
    if (now - last_ >= std::chrono::seconds(1)) line(kAlive, "");
  }
  void line(char kind, const std::string& text) {
    last_ = Clock::now();
    const std::string whole = kind + text + '\n';
    for (std::size_t done = 0; done < whole.size();) {
      const ssize_t count = ::write(descriptor_, whole.data() + done, whole.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) ::_exit(1);  // nobody listens any more
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  int descriptor_;
  Clock::time_point last_ = Clock::now();
};

std::string library_path(const Hdf5Work& work) {
  if (!work.library.empty()) return work.library;
  Dl_info found{};
  const std::string own = ::dladdr(reinterpret_cast<const void*>(&real_file_system), &found) != 0
                              ? found.dli_fname
                              : "";
  return own.substr(0, own.rfind('/') + 1) + "libscr_hdf5_reader.so";
}

Result<vfd::Hdf5Reader*> load_reader(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return not_found(fmt::format("cannot load HDF5: {}", ::dlerror()));
  const auto function =
      reinterpret_cast<vfd::ReaderFunction>(::dlsym(library, vfd::kReaderFunction));
  vfd::Hdf5Reader* const reader = function != nullptr ? function(vfd::kReaderVersion) : nullptr;
  if (reader == nullptr) {
    return failed_precondition(
        fmt::format("cannot load HDF5: '{}' is of another version of h5scr", path));
  }
  return reader;
}

void run_piece(const Hdf5Work& work, std::size_t piece, vfd::Hdf5Reader& reader,
               PipeChannel& channel) {
  try {
    work.run(piece, reader, channel);
    channel.line(kEnd, "");
  } catch (const std::exception& exception) {
    channel.line(kFailed, text::escape(exception.what()));
  }
}

[[noreturn]] void be_child(const Hdf5Work& work, std::size_t first, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGPIPE, SIG_IGN);
  PipeChannel channel(descriptor);
  const auto reader = load_reader(library_path(work));
  if (!reader.ok()) {
    channel.line(kUnusable, text::escape(reader.status().message()));
    ::_exit(0);
  }
  channel.line(kReady, "");
  for (std::size_t piece = first; piece < work.count; ++piece) {
    run_piece(work, piece, **reader, channel);
  }
  ::_exit(0);  // libhdf5 may be in no state to clean up
}

// --- the parent -------------------------------------------------------------------------------

class Child {
 public:
  static Result<Child> start(const Hdf5Work& work, std::size_t first) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_status(errno, "make a pipe for", "HDF5");
    std::fflush(nullptr);
    const pid_t process = ::fork();
    if (process < 0) {
      const int why = errno;
      ::close(ends[0]);
      ::close(ends[1]);
      return errno_status(why, "start a process for", "HDF5");
    }
    if (process == 0) {
      ::close(ends[0]);
      be_child(work, first, ends[1]);
    }
    ::close(ends[1]);
    return Child(process, ends[0]);
  }

  ~Child() {
    if (process_ > 0) end();
  }
  Child(Child&& other) noexcept
      : process_(std::exchange(other.process_, -1)), descriptor_(other.descriptor_) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The next line; nothing when the child has ended or was silent for too long.
  std::optional<std::string> next_line(std::chrono::seconds patience) {
    for (;;) {
      if (const std::size_t end = buffer_.find('\n', searched_); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        searched_ = 0;
        return line;
      }
      searched_ = buffer_.size();
      if (!read_more(patience)) return std::nullopt;
    }
  }

  // Waits for it; kills one that was silent. How it ended, in words; empty if well.
  std::string end() {
    if (silent_) ::kill(process_, SIGKILL);
    ::close(descriptor_);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    if (silent_) return "HDF5 did not come to an end with it";
    if (WIFSIGNALED(status)) {
      return fmt::format("HDF5 crashed while reading it ({})", ::strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0 ? "" : "HDF5 ended the process that was reading it";
  }

 private:
  Child(pid_t process, int descriptor) : process_(process), descriptor_(descriptor) {}

  bool read_more(std::chrono::seconds patience) {
    pollfd wait{descriptor_, POLLIN, 0};
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    const int ready = ::poll(&wait, 1, static_cast<int>(limit));
    if (ready < 0 && errno == EINTR) return true;
    if (ready == 0) silent_ = true;
    if (ready <= 0) return false;
    std::array<char, 65536> piece{};
    const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    buffer_.append(piece.data(), static_cast<std::size_t>(count));
    return true;
  }

  pid_t process_;
  int descriptor_;
  std::string buffer_;
  std::size_t searched_ = 0;
  bool silent_ = false;
};

// What one child did: up to which piece it came.
struct Progress {
  bool ready = false;
  std::string unusable;
  std::size_t piece = 0;
  bool garbled = false;
};

void handle_line(const Hdf5Work& work, const std::string& line, Progress& progress) {
  const std::string rest = line.substr(1);
  switch (line[0]) {
    case kReady:
      progress.ready = true;
      break;
    case kUnusable:
      progress.unusable = rest;
      break;
    case kMessage:
      // What comes from a process whose memory a damaged file may have damaged is not trusted.
      try {
        if (work.received) work.received(progress.piece, nlohmann::json::parse(rest));
      } catch (const nlohmann::json::exception&) {
        progress.garbled = true;
      }
      break;
    case kEnd:
    case kFailed:
      work.finished(progress.piece, line[0] == kFailed ? corrupt(rest)
                                    : progress.garbled ? corrupt("HDF5 gave garbled results")
                                                       : Status());
      progress.garbled = false;
      ++progress.piece;
      break;
    default:  // it is at work
      break;
  }
}

}  // namespace

Status run_hdf5_work(const Hdf5Work& work) {
  Progress progress;
  while (progress.piece < work.count) {
    SCR_ASSIGN_OR_RETURN(Child child, Child::start(work, progress.piece));
    progress.ready = false;
    while (auto line = child.next_line(work.patience)) {
      if (!line->empty()) handle_line(work, *line, progress);
    }
    const std::string death = child.end();
    if (!progress.unusable.empty()) return failed_precondition(progress.unusable);
    if (!progress.ready) {
      return failed_precondition("HDF5 cannot be used: it crashed when it was loaded");
    }
    if (progress.piece >= work.count) break;
    // Silent before its first piece, or dead in one.
    work.finished(progress.piece, corrupt(death.empty() ? "HDF5 ended early" : death));
    ++progress.piece;
  }
  return {};
}

}  // namespace scr::tools
