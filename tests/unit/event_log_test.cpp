// The event log: lines as docs/formats/log.md says, and no failure of the log that harms a run.
#include "core/runtime/event_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/log.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

std::vector<std::string> syslog_lines;
void record_syslog(const char* line) { syslog_lines.emplace_back(line); }

std::vector<std::string> warnings;
void record_warning(log::Level level, std::string_view line) {
  if (level == log::Level::kWarning) warnings.emplace_back(line);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest() {
    syslog_lines.clear();
    warnings.clear();
    log::set_sink(record_warning);
  }
  ~EventLogTest() override { log::set_sink(nullptr); }

  EventLogOptions options() {
    EventLogOptions options;
    options.enable = true;
    options.directory = directory_ / ".scr";
    options.user = "user1";
    options.job_id = "112573";
    options.job_name = "sim";
    options.run_id = "2";
    options.ranks = 4;
    options.syslog_writer = record_syslog;
    return options;
  }
  std::vector<std::string> text() { return lines_of(directory_ / ".scr/log"); }
  std::vector<nlohmann::json> json() {
    std::vector<nlohmann::json> objects;
    for (const auto& line : lines_of(directory_ / ".scr/log.jsonl")) {
      objects.push_back(nlohmann::json::parse(line));
    }
    return objects;
  }

  TemporaryDirectory directory_;
  FileSystem& fs_ = real_file_system();
};

TEST_F(EventLogTest, AFlushGivesALineAtItsStartAndOneAtItsEnd) {
  EventLog log = EventLog::open(fs_, options());
  const EventToken flush = log.begin(EventType::kFlush, 6, "ckpt.6");
  log.end(flush, {.bytes = 4096, .files = 2, .seconds = 2.0});

  const auto objects = json();
  ASSERT_THAT(objects, SizeIs(2));
  EXPECT_EQ(objects[0]["event"], "flush");
  EXPECT_EQ(objects[0]["phase"], "start");
  EXPECT_EQ(objects[0]["dataset"], 6);
  EXPECT_EQ(objects[0]["name"], "ckpt.6");
  EXPECT_EQ(objects[0]["job_id"], "112573");
  EXPECT_EQ(objects[0]["run_id"], "2");
  EXPECT_EQ(objects[0]["user"], "user1");
  EXPECT_EQ(objects[0]["host"], log::host_name());
  EXPECT_EQ(objects[0]["ranks"], 4);
  EXPECT_FALSE(objects[0].contains("ok"));
  EXPECT_EQ(objects[1]["phase"], "end");
  EXPECT_EQ(objects[1]["number"], objects[0]["number"]);
  EXPECT_EQ(objects[1]["ok"], true);
  EXPECT_EQ(objects[1]["bytes"], 4096);
  EXPECT_EQ(objects[1]["files"], 2);
  EXPECT_EQ(objects[1]["seconds"], 2.0);
  EXPECT_EQ(objects[1]["bandwidth"], 2048.0);

  ASSERT_THAT(text(), SizeIs(2));
  EXPECT_THAT(text()[1],
              HasSubstr(": flush end dataset 6 'ckpt.6': ok, 4096 bytes, 2 files, 2.000000 s, "
                        "2.048e+03 B/s, 4 ranks"));
  ASSERT_THAT(syslog_lines, SizeIs(2));
  EXPECT_THAT(text()[1], EndsWith(syslog_lines[1])) << "syslog adds its own time";
}

TEST_F(EventLogTest, TimesAreIso8601InUtc) {
  EventLog log = EventLog::open(fs_, options());
  log.begin(EventType::kRun);
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  EXPECT_TRUE(std::regex_match(json()[0]["time"].get<std::string>(), form));
  EXPECT_TRUE(std::regex_match(text()[0].substr(0, 24), form));
}

TEST_F(EventLogTest, MeasuresTheTimeIfItIsNotTold) {
  EventLog log = EventLog::open(fs_, options());
  const EventToken token = log.begin(EventType::kEncode, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  log.end(token);
  EXPECT_GE(json()[1]["seconds"].get<double>(), 0.02);
  EXPECT_FALSE(json()[1].contains("bandwidth"));
}

TEST_F(EventLogTest, ALostNodeAndAFailureAreNamed) {
  EventLog log = EventLog::open(fs_, options());
  log.once(EventType::kNodeFailure, {.ok = false, .down_nodes = {"n3", "n4"}});
  log.end(log.begin(EventType::kRebuild, 7),
          {.ok = false, .ranks = 8, .note = "two members of set 0 are lost"});
  const auto objects = json();
  EXPECT_EQ(objects[0]["event"], "node failure");
  EXPECT_EQ(objects[0]["phase"], "once");
  EXPECT_EQ(objects[0]["down_nodes"], nlohmann::json({"n3", "n4"}));
  EXPECT_EQ(objects[2]["ok"], false);
  EXPECT_EQ(objects[2]["ranks"], 8);
  EXPECT_EQ(objects[2]["note"], "two members of set 0 are lost");
  EXPECT_THAT(text()[0], HasSubstr("FAILED, 4 ranks, down nodes: n3 n4"));
  EXPECT_THAT(text()[2], EndsWith("8 ranks: two members of set 0 are lost"));
}

TEST_F(EventLogTest, EachSinkCanBeTurnedOff) {
  EventLogOptions some = options();
  some.text = some.syslog = false;
  EventLog::open(fs_, some).begin(EventType::kRun);
  EXPECT_THAT(json(), SizeIs(1));
  EXPECT_FALSE(std::filesystem::exists(directory_ / ".scr/log"));
  EXPECT_THAT(syslog_lines, SizeIs(0));
}

TEST_F(EventLogTest, WithoutEnableNothingIsTouched) {
  EventLogOptions off = options();
  off.enable = false;
  EventLog log = EventLog::open(fs_, off);
  EXPECT_FALSE(log.enabled());
  log.end(log.begin(EventType::kRun));
  log.once(EventType::kHalt, {});
  EventLog().end({});
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_THAT(syslog_lines, SizeIs(0));
}

TEST_F(EventLogTest, HostileNamesStayOnOneLineAndValidJson) {
  EventLog log = EventLog::open(fs_, options());
  log.end(log.begin(EventType::kCheckpoint, 1, "a\n\x1b[2J\"\xff"), {.note = "x\ny"});
  ASSERT_THAT(text(), SizeIs(2));
  EXPECT_THAT(text()[0], HasSubstr("'a\\x0a\\x1b[2J\"\\xff'"));
  const auto objects = json();
  ASSERT_THAT(objects, SizeIs(2));
  EXPECT_EQ(objects[1]["note"], "x\ny");
}

TEST_F(EventLogTest, LaterRunsAddToTheSameFiles) {
  EventLog::open(fs_, options()).begin(EventType::kRun);
  EventLog::open(fs_, options()).begin(EventType::kRun);
  EXPECT_THAT(text(), SizeIs(2));
  EXPECT_THAT(json(), SizeIs(2));
}

TEST_F(EventLogTest, LinesOfSeveralThreadsDoNotMix) {
  EventLog log = EventLog::open(fs_, options());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log, i] {
      for (int n = 0; n < 25; ++n) log.end(log.begin(EventType::kFlush, i + 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(json(), SizeIs(200));
  EXPECT_THAT(syslog_lines, SizeIs(200));
}

TEST_F(EventLogTest, AFailureWarnsOnceAndLaterLinesAreTriedAgain) {
  EventLogOptions only_text = options();
  only_text.json = only_text.syslog = false;
  FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(1, EIO, 6));
  EventLog log = EventLog::open(faulty, only_text);
  int attempts = 0;
  while (text().empty() && ++attempts < 20) log.begin(EventType::kRun);
  EXPECT_GE(attempts, 2);
  EXPECT_LT(attempts, 20);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], HasSubstr("events are missing from the log: cannot"));
}

TEST_F(EventLogTest, ADirectoryThatCannotBeMadeOnlyWarns) {
  std::ofstream(directory_ / ".scr") << "a file is in the way";
  EventLog log = EventLog::open(fs_, options());
  log.end(log.begin(EventType::kRun));
  EXPECT_THAT(warnings, SizeIs(2)) << "one for each file";
  EXPECT_THAT(syslog_lines, SizeIs(2));
}

TEST_F(EventLogTest, AfterALineThatWasCutTheNextStartsANewOne) {
  EventLogOptions only_json = options();
  only_json.text = only_json.syslog = false;
  auto plan = FaultPlan::parse("action=short,op=write");
  ASSERT_TRUE(plan.ok());
  FaultyFileSystem faulty(real_file_system(), *plan);
  EventLog log = EventLog::open(faulty, only_json);
  log.begin(EventType::kRun);  // half a line
  faulty.reset(FaultPlan());
  log.begin(EventType::kFlush);
  const auto lines = lines_of(directory_ / ".scr/log.jsonl");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(nlohmann::json::parse(lines[1])["event"], "flush");
  EXPECT_THAT(warnings, SizeIs(1));
}

}  // namespace
}  // namespace scr
