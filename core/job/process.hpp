// Starts programs: from vectors of words, never through a shell.
//
//   auto result = run_program({"squeue", "--version"}, {.timeout = 10s});
//
// run_programs() runs many at a time and collects what each of them printed. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace scr::job {

using Words = std::vector<std::string>;

struct ProcessResult {
  // As a shell gives it: the exit status, 128 + n for the end by signal n, 127 if it could not be
  // started.
  int exit_code = 127;
  bool timed_out = false;  // and was killed
  std::string output = {};
  std::string errors = {};

  bool ok() const { return exit_code == 0 && !timed_out; }
  // One line that says how it ended, for messages: the last line of its errors, or its status.
  std::string summary() const;
};

struct ProcessOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // 0: none
  std::size_t at_once = 64;                                      // for run_programs
  // Output beyond this is dropped.
  std::size_t most_output = 4U << 20U;
  // Called as each program of run_programs ends, with its number.
  std::function<void(std::size_t, const ProcessResult&)> on_end = {};
};

// Standard input is empty. The first word is looked up in PATH.
ProcessResult run_program(const Words& words, const ProcessOptions& options = {});
// The results are in the order of the programs.
std::vector<ProcessResult> run_programs(const std::vector<Words>& programs,
                                        const ProcessOptions& options = {});

// A program with the standard streams of this one. It is in a process group of its own, so that it
// can be ended with all that it started on this host, unless it may want to read from a terminal.
class Child {
 public:
  // `environment` changes variables of the environment; nothing takes one away.
  using Changes = std::map<std::string, std::optional<std::string>>;
  static Result<Child> start(const Words& words, const Changes& environment = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills it if it runs

  pid_t pid() const { return pid_; }
  // The exit code as in ProcessResult, once it has ended; waits so long for it.
  std::optional<int> wait_for(std::chrono::milliseconds time);
  void signal_group(int signal) const;
  // Asks it to end (SIGTERM), kills it after `patience`, and gives its exit code.
  int end(std::chrono::milliseconds patience);

 private:
  Child(pid_t pid, bool own_group) : pid_(pid), own_group_(own_group) {}
  std::optional<int> look();
  pid_t pid_ = -1;
  bool own_group_ = false;
  std::optional<int> exit_code_ = {};
};

// The full path of a program, as execvp would find it; nothing if there is none.
std::optional<std::string> find_program(std::string_view name);

// Words as a POSIX shell would read them back.
std::string shell_quoted(const Words& words);
// What a shell makes of quotes and backslashes in a text, and nothing else of what a shell does;
// a quote that is not closed is kInvalidArgument.
Result<Words> split_words(std::string_view text);

}  // namespace scr::job
