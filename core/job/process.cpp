#include "core/job/process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/base/filesystem.hpp"
#include "core/base/posix.hpp"
#include "core/base/text.hpp"

namespace scr::job {
namespace {

using Clock = std::chrono::steady_clock;
using posix::Descriptor;
using std::chrono::milliseconds;

constexpr int kNotStarted = 127;
constexpr int kSignalBase = 128;
constexpr milliseconds kTick(50);  // between two looks where nothing tells of an end

int exit_code_of(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  return kSignalBase + (WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0);
}

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// What posix_spawn needs beside the words.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void put(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void empty_input() {
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  // Returns an errno, 0 for success.
  int spawn(const Words& words, const Words& environment, bool own_group, pid_t& pid) {
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (own_group) flags = static_cast<short>(flags | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setflags(&attributes_, flags);
    return posix_spawnp(&pid, words.front().c_str(), &actions_, &attributes_,
                        pointers(words).data(), pointers(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Words current_environment() {
  Words result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    result.emplace_back(*entry);
  }
  return result;
}

Words changed_environment(const Child::Changes& changes) {
  Words result;
  for (std::string& entry : current_environment()) {
    if (!changes.contains(entry.substr(0, entry.find('=')))) result.push_back(std::move(entry));
  }
  for (const auto& [name, value] : changes) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

// A program of run_programs().
class Running {
 public:
  Running(std::size_t number, const Words& words, milliseconds timeout) : number_(number) {
    if (timeout.count() > 0) deadline_ = Clock::now() + timeout;
    std::array<int, 2> out{-1, -1};
    std::array<int, 2> err{-1, -1};
    int error = 0;
    if (words.empty()) {
      error = EINVAL;
    } else if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
      error = errno;
    }
    streams_ = {Descriptor(out[0]), Descriptor(err[0])};
    const Descriptor out_end(out[1]);
    const Descriptor err_end(err[1]);
    if (error == 0) {
      SpawnPlan plan;
      plan.empty_input();
      plan.put(out[1], STDOUT_FILENO);
      plan.put(err[1], STDERR_FILENO);
      error = plan.spawn(words, current_environment(), /*own_group=*/true, pid_);
    }
    if (error == 0) return;
    pid_ = -1;
    result_.errors = fmt::format("cannot start '{}': {}", words.empty() ? "" : words.front(),
                                 std::strerror(error));
  }

  std::size_t number() const { return number_; }
  ProcessResult& result() { return result_; }

  void add_to(std::vector<pollfd>& polled) const {
    for (const Descriptor& stream : streams_) {
      if (stream.valid()) polled.push_back({stream.get(), POLLIN, 0});
    }
  }

  void read(std::size_t most) {
    read_stream(streams_[0], result_.output, most);
    read_stream(streams_[1], result_.errors, most);
  }

  // True once it has ended.
  bool reap() {
    if (pid_ < 0) return true;
    if (deadline_ && Clock::now() >= *deadline_ && !result_.timed_out) {
      result_.timed_out = true;
      ::kill(-pid_, SIGKILL);
    }
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    result_.exit_code = got == pid_ ? exit_code_of(status) : kNotStarted;
    return true;
  }

 private:
  static void read_stream(Descriptor& stream, std::string& text, std::size_t most) {
    std::array<char, 65536> buffer{};
    while (stream.valid()) {
      pollfd one{stream.get(), POLLIN, 0};
      if (::poll(&one, 1, 0) <= 0 || one.revents == 0) return;
      const auto count = posix::retry_interrupted(
          [&] { return ::read(stream.get(), buffer.data(), buffer.size()); });
      if (count <= 0) {
        stream.reset();
        return;
      }
      const auto room = most - std::min(most, text.size());
      text.append(buffer.data(), std::min(static_cast<std::size_t>(count), room));
    }
  }

  std::size_t number_;
  pid_t pid_ = -1;
  std::array<Descriptor, 2> streams_;
  std::optional<Clock::time_point> deadline_;
  ProcessResult result_;
};

}  // namespace

std::string ProcessResult::summary() const {
  if (timed_out) return "no answer in time";
  const std::string_view text = text::trim(errors);
  if (!text.empty() && exit_code != 0) {
    return text::escape(text.substr(text.rfind('\n') + 1)) +
           (exit_code == kNotStarted ? "" : fmt::format(" (exit status {})", exit_code));
  }
  return fmt::format("exit status {}", exit_code);
}

std::vector<ProcessResult> run_programs(const std::vector<Words>& programs,
                                        const ProcessOptions& options) {
  std::vector<ProcessResult> results(programs.size());
  std::vector<Running> running;
  std::size_t next = 0;
  while (next < programs.size() || !running.empty()) {
    while (next < programs.size() && running.size() < std::max<std::size_t>(options.at_once, 1)) {
      running.emplace_back(next, programs[next], options.timeout);
      ++next;
    }
    std::vector<pollfd> polled;
    for (const Running& one : running) one.add_to(polled);
    ::poll(polled.data(), polled.size(), static_cast<int>(kTick.count()));
    for (auto one = running.begin(); one != running.end();) {
      // Looked at before the last read, or what it wrote in between would be lost.
      const bool ended = one->reap();
      one->read(options.most_output);
      if (!ended) {
        ++one;
        continue;
      }
      ProcessResult& result = results[one->number()] = std::move(one->result());
      if (options.on_end) options.on_end(one->number(), result);
      one = running.erase(one);
    }
  }
  return results;
}

ProcessResult run_program(const Words& words, const ProcessOptions& options) {
  return std::move(run_programs({words}, options).front());
}

Result<Child> Child::start(const Words& words, const Changes& environment) {
  if (words.empty()) return invalid_argument("there is no program to start");
  SpawnPlan plan;
  const bool own_group = ::isatty(STDIN_FILENO) == 0;
  pid_t pid = -1;
  const int error = plan.spawn(words, changed_environment(environment), own_group, pid);
  if (error != 0) return errno_status(error, "start", words.front());
  return Child(pid, own_group);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      own_group_(other.own_group_),
      exit_code_(other.exit_code_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(own_group_, other.own_group_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Child::~Child() {
  if (pid_ >= 0 && !exit_code_) end(milliseconds(0));
}

std::optional<int> Child::look() {
  if (exit_code_) return exit_code_;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == pid_) exit_code_ = exit_code_of(status);
  if (got < 0 && errno != EINTR) exit_code_ = kNotStarted;
  return exit_code_;
}

std::optional<int> Child::wait_for(milliseconds time) {
  const auto deadline = Clock::now() + time;
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  for (;;) {
    if (const auto code = look()) return code;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    if (!process.valid()) {  // an old kernel
      std::this_thread::sleep_for(std::min(left, kTick));
      continue;
    }
    pollfd one{process.get(), POLLIN, 0};
    // A signal to this process ends the wait, too: the caller may want to look at it.
    if (::poll(&one, 1, static_cast<int>(left.count())) < 0) return look();
  }
}

void Child::signal_group(int signal) const {
  if (pid_ > 0 && !exit_code_) ::kill(own_group_ ? -pid_ : pid_, signal);
}

int Child::end(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  signal_group(SIGTERM);
  while (Clock::now() < deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (const auto code = wait_for(left)) return *code;
  }
  for (;;) {
    signal_group(SIGKILL);
    if (const auto code = wait_for(milliseconds(1000))) return *code;
  }
}

std::optional<std::string> find_program(std::string_view name) {
  constexpr mode_t kMayRun = 0111;
  const auto usable = [](const std::string& path) {
    const auto info = file_system().info(path, /*follow=*/true);
    return info.ok() && info->type == FileInfo::Type::kRegular && (info->mode & kMayRun) != 0;
  };
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    return usable(path) ? std::optional(path) : std::nullopt;
  }
  const char* search = std::getenv("PATH");
  for (std::string_view folder : text::split(search != nullptr ? search : "/usr/bin:/bin", ':')) {
    std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (usable(path)) return path;
  }
  return std::nullopt;
}

std::string shell_quoted(const Words& words) {
  std::string result;
  for (const std::string& word : words) {
    if (!result.empty()) result += ' ';
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             std::string_view("._-/:,=+@%").find(c) != std::string_view::npos;
    });
    if (plain) {
      result += word;
      continue;
    }
    result += '\'';
    for (char c : word) c == '\'' ? result += "'\\''" : result += c;
    result += '\'';
  }
  return result;
}

Result<Words> split_words(std::string_view text) {
  Words words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size() &&
                         (quote == 0 || text[i + 1] == '"' || text[i + 1] == '\\');
    if (escapes) {
      word = word.value_or("") + text[++i];
    } else if (quote != 0) {
      c == quote ? void(quote = 0) : word->push_back(c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!word) word = "";
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else {
      word = word.value_or("") + c;
    }
  }
  if (quote != 0) {
    return invalid_argument(fmt::format("a quote is not closed in: {}", text::escape(text)));
  }
  if (word) words.push_back(*std::move(word));
  return words;
}

}  // namespace scr::job
