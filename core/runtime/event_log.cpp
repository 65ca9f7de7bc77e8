#include "core/runtime/event_log.hpp"

#include <fmt/format.h>
#include <syslog.h>

#include <array>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

constexpr std::string_view kTextName = "log";
constexpr std::string_view kJsonName = "log.jsonl";

using Clock = std::chrono::steady_clock;

// One line of the log, whatever its form.
struct Record {
  std::string time;
  std::string_view phase;  // start, end, once
  EventToken token;
  const EventResult* result = nullptr;  // null at a start
  std::optional<double> seconds;
  std::optional<int> ranks;

  // Bytes per second.
  std::optional<double> bandwidth() const {
    if (result == nullptr || !result->bytes || !seconds || *seconds <= 0) return std::nullopt;
    return static_cast<double>(*result->bytes) / *seconds;
  }
};

// 2024-03-01T12:34:56.789Z
std::string iso_time(std::chrono::system_clock::time_point when) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     milliseconds % 1000);
}

void add_result(nlohmann::ordered_json& object, const Record& record) {
  const EventResult& result = *record.result;
  object["ok"] = result.ok;
  if (result.bytes) object["bytes"] = *result.bytes;
  if (result.files) object["files"] = *result.files;
  if (record.seconds) object["seconds"] = *record.seconds;
  if (const auto bandwidth = record.bandwidth()) object["bandwidth"] = *bandwidth;
  if (!result.down_nodes.empty()) object["down_nodes"] = result.down_nodes;
  if (!result.note.empty()) object["note"] = result.note;
}

std::string json_line(const EventLogOptions& options, const Record& record) {
  nlohmann::ordered_json object;
  object["time"] = record.time;
  object["event"] = event_type_name(record.token.type);
  object["phase"] = record.phase;
  object["number"] = record.token.number;
  object["user"] = options.user;
  object["job_id"] = options.job_id;
  object["job_name"] = options.job_name;
  object["run_id"] = options.run_id;
  object["host"] = log::host_name();
  if (record.ranks) object["ranks"] = *record.ranks;
  if (record.token.type == EventType::kRun && record.result == nullptr && !options.nodes.empty()) {
    object["nodes"] = options.nodes;
  }
  if (record.token.dataset > 0) object["dataset"] = record.token.dataset;
  if (!record.token.name.empty()) object["name"] = record.token.name;
  if (record.result != nullptr) add_result(object, record);
  // Names come from users: what is not UTF-8 must not throw.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string result_words(const Record& record) {
  const EventResult& result = *record.result;
  std::string words = result.ok ? ": ok" : ": FAILED";
  if (result.bytes) words += fmt::format(", {} bytes", *result.bytes);
  if (result.files) words += fmt::format(", {} files", *result.files);
  if (record.seconds) words += fmt::format(", {:.6f} s", *record.seconds);
  if (const auto bandwidth = record.bandwidth()) words += fmt::format(", {:.3e} B/s", *bandwidth);
  if (record.ranks) words += fmt::format(", {} ranks", *record.ranks);
  if (!result.down_nodes.empty()) {
    words += ", down nodes: " + text::escape(text::join(result.down_nodes, " "));
  }
  if (!result.note.empty()) words += ": " + text::escape(result.note);
  return words;
}

// Without the time, which syslog adds itself.
std::string text_line(const EventLogOptions& options, const Record& record) {
  std::string line = fmt::format("job {}", text::escape(options.job_id));
  if (!options.run_id.empty()) line += fmt::format(" run {}", text::escape(options.run_id));
  line += fmt::format(" on {}: {} {}", log::host_name(), event_type_name(record.token.type),
                      record.phase);
  if (record.token.dataset > 0) line += fmt::format(" dataset {}", record.token.dataset);
  if (!record.token.name.empty()) line += fmt::format(" '{}'", text::escape(record.token.name));
  if (record.result != nullptr) line += result_words(record);
  return line;
}

void write_to_syslog(const char* line) { ::syslog(LOG_USER | LOG_INFO, "SCR: %s", line); }

// A file that lines are added to. It is opened when the first line comes and, after a failure,
// again at the next one.
class LineFile {
 public:
  explicit LineFile(std::string path) : path_(std::move(path)) {}

  void append(FileSystem& fs, const std::string& directory, std::string line) {
    const Status written = try_append(fs, directory, std::move(line));
    if (written.ok() || !first_failure_.ok()) return;
    first_failure_ = written;
    log::warning("events are missing from the log: {}; the run goes on", written.message());
  }

  const Status& first_failure() const { return first_failure_; }

 private:
  Status try_append(FileSystem& fs, const std::string& directory, std::string line) {
    line += '\n';
    if (cut_) line.insert(line.begin(), '\n');
    if (file_ == nullptr) {
      SCR_RETURN_IF_ERROR(fs.make_directories(directory));
      OpenOptions options;
      options.access = OpenOptions::Access::kWrite;
      options.create = true;
      options.append = true;
      SCR_ASSIGN_OR_RETURN(file_, fs.open(path_, options));
    }
    // One call, so that lines of several writers do not mix. What a full device cut off is not sent
    // after it: it could come behind another line.
    const auto count = file_->write_some(std::as_bytes(std::span(line)), 0);
    if (!count.ok()) {
      file_.reset();
      return count.status();
    }
    if (*count == line.size()) {
      cut_ = false;
      return {};
    }
    cut_ = cut_ || *count > 0;
    return errno_status(ENOSPC, "write a whole line to", path_);
  }

  std::string path_;
  std::unique_ptr<File> file_;
  bool cut_ = false;  // the last line has no end
  Status first_failure_;
};

}  // namespace

class EventLog::Writer {
 public:
  Writer(FileSystem& fs, EventLogOptions options)
      : fs_(&fs),
        options_(std::move(options)),
        text_(fmt::format("{}/{}", options_.directory, kTextName)),
        json_(fmt::format("{}/{}", options_.directory, kJsonName)) {}

  EventToken begin(EventType type, int dataset, std::string_view name) {
    Record record;
    record.phase = "start";
    record.token = {type, next_number(), dataset, std::string(name), Clock::now()};
    write(record);
    return record.token;
  }

  void end(const EventToken& token, const EventResult& result) {
    Record record;
    record.phase = "end";
    record.token = token;
    record.result = &result;
    record.seconds = result.seconds;
    if (!record.seconds) {
      record.seconds = std::chrono::duration<double>(Clock::now() - token.since).count();
    }
    write(record);
  }

  void once(EventType type, const EventResult& what, int dataset, std::string_view name) {
    Record record;
    record.phase = "once";
    record.token = {type, next_number(), dataset, std::string(name), {}};
    record.result = &what;
    record.seconds = what.seconds;
    write(record);
  }

  Status first_failure() {
    const std::lock_guard lock(mutex_);
    return text_.first_failure().ok() ? json_.first_failure() : text_.first_failure();
  }

 private:
  std::uint64_t next_number() {
    const std::lock_guard lock(mutex_);
    return ++last_number_;
  }

  void write(Record& record) {
    record.time = iso_time(std::chrono::system_clock::now());
    if (options_.ranks > 0) record.ranks = options_.ranks;
    if (record.result != nullptr && record.result->ranks) record.ranks = record.result->ranks;
    const std::string words = text_line(options_, record);
    const std::lock_guard lock(mutex_);
    if (options_.text) text_.append(*fs_, options_.directory, record.time + " " + words);
    if (options_.json) json_.append(*fs_, options_.directory, json_line(options_, record));
    if (!options_.syslog) return;
    (options_.syslog_writer != nullptr ? options_.syslog_writer : write_to_syslog)(words.c_str());
  }

  FileSystem* fs_;
  const EventLogOptions options_;
  std::mutex mutex_;  // guards all below
  std::uint64_t last_number_ = 0;
  LineFile text_;
  LineFile json_;
};

std::string_view event_type_name(EventType type) {
  switch (type) {
    case EventType::kRun:
      return "run";
    case EventType::kCompute:
      return "compute";
    case EventType::kCheckpoint:
      return "checkpoint";
    case EventType::kOutput:
      return "output";
    case EventType::kEncode:
      return "encode";
    case EventType::kFlush:
      return "flush";
    case EventType::kFetch:
      return "fetch";
    case EventType::kRebuild:
      return "rebuild";
    case EventType::kRestart:
      return "restart";
    case EventType::kHalt:
      return "halt";
    case EventType::kNodeFailure:
      return "node failure";
    case EventType::kLaunch:
      return "launch";
    case EventType::kRelaunch:
      return "relaunch";
  }
  return "unknown";
}

std::span<const EventType> event_types() {
  using enum EventType;
  static constexpr std::array kTypes = {kRun,         kCompute, kCheckpoint, kOutput,  kEncode,
                                        kFlush,       kFetch,   kRebuild,    kRestart, kHalt,
                                        kNodeFailure, kLaunch,  kRelaunch};
  return kTypes;
}

EventLog::EventLog() = default;
EventLog::~EventLog() = default;
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;

EventLog EventLog::open(FileSystem& fs, EventLogOptions options) {
  EventLog log;
  if (options.enable) log.writer_ = std::make_unique<Writer>(fs, std::move(options));
  return log;
}

Status EventLog::first_failure() const { return enabled() ? writer_->first_failure() : Status(); }

EventToken EventLog::begin(EventType type, int dataset, std::string_view name) {
  if (!enabled()) return {type, 0, dataset, std::string(name), {}};
  return writer_->begin(type, dataset, name);
}

void EventLog::end(const EventToken& token, const EventResult& result) {
  if (enabled() && token.number > 0) writer_->end(token, result);
}

void EventLog::once(EventType type, const EventResult& what, int dataset, std::string_view name) {
  if (enabled()) writer_->once(type, what, dataset, name);
}

}  // namespace scr
