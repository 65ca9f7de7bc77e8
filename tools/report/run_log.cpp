#include "tools/report/run_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/text.hpp"

namespace scr::tools {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestLine = std::size_t{1} << 20U;
constexpr double kMostSeconds = 1e9;  // thirty years: no event lasts longer

std::optional<std::string> text_of(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::uint64_t> count_of(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::optional<int> small_count_of(const json& line, const char* key) {
  const auto count = count_of(line, key);
  if (!count || *count > 2'000'000'000) return std::nullopt;
  return static_cast<int>(*count);
}

std::optional<double> seconds_of(const json& line) {
  const auto found = line.find("seconds");
  if (found == line.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  if (!std::isfinite(value) || value < 0 || value > kMostSeconds) return std::nullopt;
  return value;
}

std::vector<std::string> names_of(const json& line, const char* key) {
  std::vector<std::string> names;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array()) return names;
  for (const json& name : *found) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

// A line, before starts and ends have found each other.
struct Line {
  LoggedEvent event;
  std::string phase;
  std::uint64_t number = 0;
  double time = 0;
  std::optional<double> seconds;
};

std::optional<Line> parse_line(std::string_view text) {
  if (text.size() > kLongestLine) return std::nullopt;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto time = text_of(object, "time");
  const auto type = text_of(object, "event");
  const auto phase = text_of(object, "phase");
  const auto when = time ? parse_time(*time) : std::nullopt;
  if (!when || !type || !phase || type->empty()) return std::nullopt;
  if (*phase != "start" && *phase != "end" && *phase != "once") return std::nullopt;
  Line line;
  line.phase = *phase;
  line.time = *when;
  line.number = count_of(object, "number").value_or(0);
  line.seconds = seconds_of(object);
  LoggedEvent& event = line.event;
  event.type = *type;
  event.job = text_of(object, "job_id").value_or("");
  event.run = text_of(object, "run_id").value_or("");
  event.host = text_of(object, "host").value_or("");
  event.dataset = small_count_of(object, "dataset").value_or(0);
  event.name = text_of(object, "name").value_or("");
  event.bytes = count_of(object, "bytes");
  event.files = count_of(object, "files");
  event.ranks = small_count_of(object, "ranks");
  event.nodes = names_of(object, "nodes");
  event.down_nodes = names_of(object, "down_nodes");
  event.note = text_of(object, "note").value_or("");
  if (const auto ok = object.find("ok"); ok != object.end() && ok->is_boolean()) {
    event.ok = ok->get<bool>();
  }
  return line;
}

// Joins starts and ends.
class Builder {
 public:
  void add(Line line) {
    note_run(line);
    if (line.phase == "once") return add_once(std::move(line));
    const Key key(line.event.job, line.event.run, line.event.type, line.number);
    if (line.phase == "start") {
      line.event.start = line.time;
      open_[key] = std::move(line.event);
      return;
    }
    const auto begun = open_.find(key);
    LoggedEvent event = std::move(line.event);
    event.end = line.time;
    if (begun != open_.end()) {
      event.start = std::min(begun->second.start, event.end);
      event.nodes = begun->second.nodes;
      if (event.name.empty()) event.name = begun->second.name;
      open_.erase(begun);
    } else if (line.seconds) {
      event.start = event.end - *line.seconds;
    } else {
      return;  // its start is not in the log
    }
    log.events.push_back(std::move(event));
  }

  void finish() {
    for (auto& [key, event] : open_) {
      const auto last = last_.find({event.job, event.run});
      event.end = last != last_.end() ? std::max(last->second, event.start) : event.start;
      event.cut = true;
      event.ok = false;
      log.events.push_back(std::move(event));
    }
    std::stable_sort(log.events.begin(), log.events.end(),
                     [](const auto& one, const auto& other) { return one.start < other.start; });
    make_runs();
  }

  RunLog log;

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::uint64_t>;

  void note_run(const Line& line) {
    double& last = last_[{line.event.job, line.event.run}];
    last = std::max(last, line.time);
  }

  void add_once(Line line) {
    line.event.end = line.time;
    line.event.start = line.time - line.seconds.value_or(0);
    line.event.instant = !line.seconds || *line.seconds <= 0;
    log.events.push_back(std::move(line.event));
  }

  void make_runs() {
    for (const LoggedEvent& event : log.events) {
      if (event.type != "run") continue;
      LoggedRun run;
      run.job = event.job;
      run.id = event.run;
      run.host = event.host;
      run.start = event.start;
      run.end = event.end;
      run.ranks = event.ranks.value_or(0);
      run.nodes = event.nodes;
      run.how = event.cut ? LoggedRun::End::kDied : LoggedRun::End::kFinished;
      log.runs.push_back(std::move(run));
    }
    // The last one of a job may still be at work, unless something came after it.
    std::map<std::string, LoggedRun*> last_of_job;
    for (LoggedRun& run : log.runs) last_of_job[run.job] = &run;
    for (const auto& last : last_of_job) {
      LoggedRun* const run = last.second;
      if (run->how != LoggedRun::End::kDied) continue;
      const bool over = std::ranges::any_of(log.events, [&](const LoggedEvent& event) {
        return event.job == run->job && event.start >= run->start && event.type == "node failure";
      });
      if (!over) run->how = LoggedRun::End::kOpen;
    }
  }

  std::map<Key, LoggedEvent> open_;
  std::map<std::pair<std::string, std::string>, double> last_;  // line of each run
};

}  // namespace

std::optional<double> LoggedEvent::bandwidth() const {
  if (!bytes || instant || seconds() <= 0) return std::nullopt;
  return static_cast<double>(*bytes) / seconds();
}

double RunLog::start() const {
  double first = events.empty() ? 0 : events.front().start;
  for (const LoggedEvent& event : events) first = std::min(first, event.start);
  return first;
}

double RunLog::end() const {
  double last = start();
  for (const LoggedEvent& event : events) last = std::max(last, event.end);
  return last;
}

std::vector<const LoggedEvent*> RunLog::of_type(std::string_view type) const {
  std::vector<const LoggedEvent*> found;
  for (const LoggedEvent& event : events) {
    if (event.type == type) found.push_back(&event);
  }
  return found;
}

std::uint64_t RunLog::failures() const {
  std::uint64_t count = 0;
  for (const LoggedRun& run : runs) {
    if (run.how == LoggedRun::End::kDied) ++count;
  }
  for (const LoggedEvent* event : of_type("node failure")) {
    // The run that it killed is the last that began before it.
    const LoggedRun* killed = nullptr;
    for (const LoggedRun& run : runs) {
      if (run.job == event->job && run.start <= event->start) killed = &run;
    }
    if (killed == nullptr || killed->how != LoggedRun::End::kDied) ++count;
  }
  return count;
}

std::vector<std::string> RunLog::nodes() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const LoggedRun& run : runs) {
    if (run.nodes.empty()) add(run.host);
    for (const std::string& name : run.nodes) add(name);
  }
  for (const LoggedEvent& event : events) {
    for (const std::string& name : event.down_nodes) add(name);
  }
  return names;
}

std::string RunLog::last_job() const {
  return events.empty() ? "" : std::ranges::max_element(events, {}, &LoggedEvent::end)->job;
}

RunLog RunLog::only_job(const std::string& job) const {
  RunLog part;
  part.lines = lines;
  part.unreadable = unreadable;
  for (const LoggedEvent& event : events) {
    if (event.job == job) part.events.push_back(event);
  }
  for (const LoggedRun& run : runs) {
    if (run.job == job) part.runs.push_back(run);
  }
  return part;
}

RunLog parse_run_log(std::string_view text) {
  Builder builder;
  for (const std::string_view line : text::split(text, '\n')) {
    if (text::trim(line).empty()) continue;
    ++builder.log.lines;
    auto parsed = parse_line(line);
    if (parsed) {
      builder.add(*std::move(parsed));
    } else {
      ++builder.log.unreadable;
    }
  }
  builder.finish();
  return std::move(builder.log);
}

Result<RunLog> read_run_log(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const auto bytes, fs.read_file(path));
  RunLog log = parse_run_log({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (log.events.empty()) {
    return not_found(fmt::format("'{}' has no event in its {} line(s)", path, log.lines));
  }
  return log;
}

std::optional<double> parse_time(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd.dddZ";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t length) {
    return static_cast<int>(*text::parse_int(text.substr(at, length)));
  };
  std::tm parts{};
  parts.tm_year = number(0, 4) - 1900;
  parts.tm_mon = number(5, 2) - 1;
  parts.tm_mday = number(8, 2);
  parts.tm_hour = number(11, 2);
  parts.tm_min = number(14, 2);
  parts.tm_sec = number(17, 2);
  const bool possible = parts.tm_year >= 70 && parts.tm_mon >= 0 && parts.tm_mon < 12 &&
                        parts.tm_mday >= 1 && parts.tm_mday <= 31 && parts.tm_hour < 24 &&
                        parts.tm_min < 60 && parts.tm_sec <= 60;
  if (!possible) return std::nullopt;
  return static_cast<double>(::timegm(&parts)) + number(20, 3) / 1000.0;
}

}  // namespace scr::tools
