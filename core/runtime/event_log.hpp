// EventLog: a record of what a run did, for users and administrators (SCR_LOG_*).
//
//   EventLog log = EventLog::open(fs, options);                       // rank 0; elsewhere
//   EventLog() const EventToken flush = log.begin(EventType::kFlush, 6, "ckpt.6");
//   ...
//   log.end(flush, {.bytes = n, .files = 4});                         // seconds are measured
//
// Each event gives a line at its start and one at its end, in up to three places: `log` (text) and
// `log.jsonl` (JSON lines) in the options' directory, and syslog. Lines are appended whole.
// Whatever fails here never fails the run: there is one warning, and later lines are tried again.
// Free of MPI; any thread may call. Format: docs/formats/log.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr {

enum class EventType {
  kRun,         // SCR_Init to SCR_Finalize
  kCompute,     // the application between checkpoints
  kCheckpoint,  // Start_checkpoint to the end of Complete_checkpoint
  kOutput,      // the same for a dataset that is no checkpoint
  kEncode,      // redundancy data made
  kFlush,       // cache to prefix
  kFetch,       // prefix to cache
  kRebuild,     // lost files made from redundancy data
  kRestart,     // Start_restart to Complete_restart
  kHalt,        // the run is told to stop
  kNodeFailure,
  kLaunch,    // scr_run: one start of the program to its end
  kRelaunch,  // scr_run: starts the program again, or says why not
};

// "run", "compute", ..., "relaunch".
std::string_view event_type_name(EventType type);
std::span<const EventType> event_types();

struct EventLogOptions {
  bool enable = false;         // SCR_LOG_ENABLE; without it an EventLog does nothing
  bool text = true;            // SCR_LOG_TXT_ENABLE
  bool syslog = true;          // SCR_LOG_SYSLOG_ENABLE
  bool json = true;            // SCR_LOG_JSON_ENABLE
  std::string directory = {};  // `<prefix>/.scr`; made if it is missing
  std::string user = {};
  std::string job_id = {};
  std::string job_name = {};
  std::string run_id = {};              // tells the runs of one job apart
  int ranks = 0;                        // of the run; an end without its own number gets this
  std::vector<std::string> nodes = {};  // host names; told when a run starts
  // Where syslog lines go, for tests; nullptr is syslog(3).
  void (*syslog_writer)(const char* line) = nullptr;
};

// How an event ended. What is not set is not logged.
struct EventResult {
  bool ok = true;
  std::optional<std::uint64_t> bytes = {};
  std::optional<std::uint64_t> files = {};
  std::optional<double> seconds = {};  // default: the time since begin()
  std::optional<int> ranks = {};
  std::vector<std::string> down_nodes = {};
  std::string note = {};  // why it failed, or what else is worth knowing
};

// An event that has begun.
struct EventToken {
  EventType type = EventType::kRun;
  std::uint64_t number = 0;  // 0: the log is off
  int dataset = 0;           // 0: of no dataset
  std::string name = {};
  std::chrono::steady_clock::time_point since = {};
};

class EventLog {
 public:
  EventLog();  // logs nothing
  ~EventLog();
  EventLog(EventLog&&) noexcept;
  EventLog& operator=(EventLog&&) noexcept;

  static EventLog open(FileSystem& fs, EventLogOptions options);

  bool enabled() const { return writer_ != nullptr; }
  // The first failure to write a line to a file, for those who are here to write one.
  Status first_failure() const;
  EventToken begin(EventType type, int dataset = 0, std::string_view name = {});
  void end(const EventToken& token, const EventResult& result = {});
  // For what has no duration: a halt, the loss of a node.
  void once(EventType type, const EventResult& what, int dataset = 0, std::string_view name = {});

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace scr
