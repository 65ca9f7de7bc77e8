// What the event log of a prefix directory (docs/formats/log.md) says of the runs there.
//
// The log may come from a crash, a full disk or a stranger: lines that are not what the format says
// are counted and left out, never believed in part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::tools {

// Times are seconds since the epoch.
struct LoggedEvent {
  std::string type = {};  // "checkpoint", ...
  std::string job = {};
  std::string run = {};
  std::string host = {};
  double start = 0;
  double end = 0;
  bool instant = false;  // it has no duration
  bool cut = false;      // it has no end: the run died in it, or goes on; `end` is the last we know
  bool ok = true;
  int dataset = 0;
  std::string name = {};
  std::optional<std::uint64_t> bytes = {};
  std::optional<std::uint64_t> files = {};
  std::optional<int> ranks = {};
  std::vector<std::string> nodes = {};
  std::vector<std::string> down_nodes = {};
  std::string note = {};

  double seconds() const { return end - start; }
  // Bytes per second; nothing if it is not known.
  std::optional<double> bandwidth() const;
};

// One start of the program.
struct LoggedRun {
  enum class End { kFinished, kDied, kOpen };  // kOpen: the last one, which may still be at work
  std::string job = {};
  std::string id = {};
  std::string host = {};
  double start = 0;
  double end = 0;
  End how = End::kOpen;
  int ranks = 0;
  std::vector<std::string> nodes = {};
  double seconds() const { return end - start; }
};

struct RunLog {
  std::vector<LoggedEvent> events = {};  // by start
  std::vector<LoggedRun> runs = {};      // by start
  std::uint64_t lines = 0;
  std::uint64_t unreadable = 0;  // lines that were left out

  double start() const;
  double end() const;
  std::vector<const LoggedEvent*> of_type(std::string_view type) const;
  // Deaths of runs, and losses of nodes that no death explains.
  std::uint64_t failures() const;
  // Nodes that took part or failed, in the order in which they appear.
  std::vector<std::string> nodes() const;
  std::string last_job() const;
  // The same for one job.
  RunLog only_job(const std::string& job) const;
};

RunLog parse_run_log(std::string_view text);
// The log is `.scr/log.jsonl` below the prefix directory.
Result<RunLog> read_run_log(FileSystem& fs, const std::string& path);

// "2024-03-01T12:34:56.789Z" as seconds since the epoch; nothing for other text.
std::optional<double> parse_time(std::string_view text);

}  // namespace scr::tools
