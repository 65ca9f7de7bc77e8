// Event logs as reports read them: sound ones, cut ones, and garbage.
#include "tools/report/run_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/runtime/event_log.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "tools/report/interval.hpp"
#include "tools/report/report.hpp"

namespace scr::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string line(const std::string& time, const std::string& event, const std::string& phase,
                 int number, const std::string& more = "", const std::string& run = "1") {
  return fmt::format(
      R"({{"time":"2026-03-01T{}.000Z","event":"{}","phase":"{}","number":{},"job_id":"7","run_id":"{}","host":"n0"{}}})"
      "\n",
      time, event, phase, number, run, more);
}

TEST(RunLog, TimesAreReadStrictly) {
  EXPECT_EQ(parse_time("1970-01-01T00:00:01.500Z"), 1.5);
  for (const char* wrong :
       {"", "1970-01-01T00:00:01Z", "1970-01-01 00:00:01.500Z", "1970-13-01T00:00:01.500Z",
        "1970-01-01T24:00:01.500Z", "-970-01-01T00:00:01.500Z", "1970-01-01T00:00:01.500Z "}) {
    EXPECT_FALSE(parse_time(wrong)) << wrong;
  }
}

TEST(RunLog, StartsAndEndsFindEachOther) {
  const RunLog log = parse_run_log(
      line("08:00:00", "run", "start", 1, R"(,"nodes":["n0","n1"])") +
      line("08:00:00", "compute", "start", 2) +
      line("08:05:00", "compute", "end", 2, R"(,"ok":true)") +
      line("08:05:00", "checkpoint", "start", 3, R"(,"dataset":6)") +
      line("08:05:10", "checkpoint", "end", 3,
           R"(,"dataset":6,"ok":true,"bytes":1000,"seconds":10})") +
      line("08:06:00", "flush", "once", 4, R"(,"ok":true,"bytes":600,"seconds":30,"dataset":6)") +
      line("08:10:00", "run", "end", 1, R"(,"ok":true)"));
  EXPECT_EQ(log.unreadable, 1U);  // one brace too many above
  ASSERT_THAT(log.runs, SizeIs(1));
  EXPECT_EQ(log.runs[0].how, LoggedRun::End::kFinished);
  EXPECT_THAT(log.runs[0].nodes, ElementsAre("n0", "n1"));
  EXPECT_EQ(log.runs[0].seconds(), 600);
  ASSERT_THAT(log.of_type("flush"), SizeIs(1));
  EXPECT_EQ(log.of_type("flush")[0]->seconds(), 30);
  EXPECT_EQ(log.of_type("flush")[0]->bandwidth(), 20);
  EXPECT_EQ(log.of_type("compute")[0]->seconds(), 300);
  EXPECT_TRUE(log.of_type("checkpoint")[0]->cut);  // its end could not be read
  EXPECT_EQ(log.failures(), 0U);
}

TEST(RunLog, ARunWithoutAnEndDiedIfAnotherCameAfterIt) {
  const std::string dead = line("08:00:00", "run", "start", 1, "", "a") +
                           line("08:00:00", "compute", "start", 2, "", "a") +
                           line("08:30:00", "halt", "once", 3, "", "a");
  const RunLog open = parse_run_log(dead);
  EXPECT_EQ(open.runs.at(0).how, LoggedRun::End::kOpen);
  EXPECT_EQ(open.failures(), 0U);
  EXPECT_EQ(open.runs[0].seconds(), 1800);  // up to its last line

  const RunLog two = parse_run_log(dead + line("09:00:00", "run", "start", 1, "", "b"));
  EXPECT_EQ(two.runs.at(0).how, LoggedRun::End::kDied);
  EXPECT_EQ(two.runs.at(1).how, LoggedRun::End::kOpen);
  EXPECT_EQ(two.failures(), 1U);
}

TEST(RunLog, TheNodeThatKilledARunIsNoSecondFailure) {
  const RunLog log = parse_run_log(
      line("08:00:00", "run", "start", 1, "", "a") +
      line("08:30:00", "node failure", "once", 2, R"(,"ok":false,"down_nodes":["n1"])", "a") +
      line("09:00:00", "run", "start", 1, "", "b") + line("09:30:00", "run", "end", 1, "", "b"));
  EXPECT_EQ(log.failures(), 1U);
  EXPECT_THAT(log.nodes(), ElementsAre("n0", "n1"));
}

TEST(RunLog, NumbersThatCannotBeAreNotBelieved) {
  const RunLog log = parse_run_log(
      line("08:00:00", "flush", "once", 1, R"(,"bytes":-5,"seconds":-3,"dataset":99999999999)") +
      line("08:00:00", "flush", "once", 2, R"(,"bytes":"many","seconds":1e300,"ok":"yes")") +
      line("08:00:00", "flush", "once", 3, R"(,"down_nodes":{"a":1},"note":[1])"));
  ASSERT_THAT(log.events, SizeIs(3));
  for (const LoggedEvent& event : log.events) {
    EXPECT_FALSE(event.bytes);
    EXPECT_EQ(event.seconds(), 0);
    EXPECT_EQ(event.dataset, 0);
    EXPECT_TRUE(event.down_nodes.empty());
  }
}

TEST(RunLog, WhatTheRuntimeWritesIsUnderstood) {
  const scr::testing::TemporaryDirectory directory;
  EventLogOptions options;
  options.enable = true;
  options.syslog = false;
  options.directory = directory / ".scr";
  options.job_id = "7";
  options.run_id = "1";
  options.ranks = 4;
  options.nodes = {"n0", "n1"};
  {
    EventLog log = EventLog::open(real_file_system(), options);
    const EventToken run = log.begin(EventType::kRun);
    const EventToken checkpoint = log.begin(EventType::kCheckpoint, 1, "ckpt.1");
    log.end(checkpoint, {.bytes = 4096, .files = 2});
    log.once(EventType::kNodeFailure, {.ok = false, .down_nodes = {"n1"}});
    log.end(run);
  }
  const auto log = read_run_log(real_file_system(), directory / ".scr/log.jsonl");
  ASSERT_TRUE(log.ok()) << log.status().message();
  EXPECT_EQ(log->unreadable, 0U);
  ASSERT_THAT(log->runs, SizeIs(1));
  EXPECT_THAT(log->runs[0].nodes, ElementsAre("n0", "n1"));
  EXPECT_EQ(log->runs[0].ranks, 4);
  EXPECT_EQ(log->of_type("checkpoint").at(0)->name, "ckpt.1");
  EXPECT_EQ(log->of_type("node failure").at(0)->down_nodes.at(0), "n1");
}

// Bytes changed and lines cut at random: nothing crashes, and reports can be made of the rest.
TEST(RunLog, GarbledLogsGiveReports) {
  std::string whole;
  for (int i = 0; i < 40; ++i) {
    const std::string minute = fmt::format("08:{:02}:00", i);
    whole += line(minute, i % 10 == 0 ? "run" : "checkpoint", "start", i, R"(,"nodes":["n0"])");
    whole += line(minute, "checkpoint", "end", i, R"(,"ok":true,"bytes":5,"seconds":1)");
    whole += line(minute, "node failure", "once", i, R"(,"down_nodes":["n0"])");
  }
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text = whole.substr(0, random() % whole.size());
    for (int change = 0; change < 20 && !text.empty(); ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const RunLog log = parse_run_log(text);
    EXPECT_THAT(report_html(log, {}), HasSubstr("</html>"));
    EXPECT_TRUE(report_json(log, {}).is_object());
  }
}

TEST(Report, NothingInALogBecomesMarkup) {
  const std::string evil = R"(<script>alert(1)</script>\"'&)";
  std::string text;
  for (const char* event : {"run", "checkpoint", "flush", "node failure", "halt", "x<b>"}) {
    text += fmt::format(
        R"({{"time":"2026-03-01T08:00:00.000Z","event":"{}","phase":"once","job_id":"{}","run_id":"{}","host":"{}","name":"{}","note":"{}","nodes":["{}"],"down_nodes":["{}"],"ok":false,"bytes":3,"seconds":2}})"
        "\n",
        event, evil, evil, evil, evil, evil, evil, evil);
  }
  const RunLog log = parse_run_log(text);
  ASSERT_THAT(log.events, SizeIs(6));
  const std::string page = report_html(log, {});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<b>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = report_html(parse_run_log(line("08:00:00", "run", "start", 1)), {});
  for (const char* outside : {"http://", "https://", "src=", "@import", "url(", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

// --- interval ------------------------------------------------------------------------------------

TEST(Interval, FormulasOfYoungAndDaly) {
  EXPECT_DOUBLE_EQ(young_interval(50, 10000), 1000);
  // Daly, A higher order estimate of the optimum checkpoint interval, equation 37.
  EXPECT_NEAR(daly_interval(50, 10000), 1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50, 1e-9);
  EXPECT_DOUBLE_EQ(daly_interval(500, 100), 100);
}

TEST(Interval, TheBestIntervalHasTheBestEfficiency) {
  for (const double cost : {1.0, 30.0, 600.0}) {
    const double best = daly_interval(cost, 20000);
    const double share = efficiency(best, cost, 20000, 60);
    EXPECT_GT(share, efficiency(best * 1.5, cost, 20000, 60));
    EXPECT_GT(share, efficiency(best / 1.5, cost, 20000, 60));
    EXPECT_LT(share, 1);
  }
}

TEST(Interval, ComesFromWhatTheLogSays) {
  std::string text = line("08:00:00", "run", "start", 1, "", "a");
  text += line("08:00:00", "compute", "start", 2, "", "a");
  text += line("08:10:00", "compute", "end", 2, "", "a");
  text += line("08:10:00", "checkpoint", "start", 3, "", "a");
  text += line("08:10:20", "checkpoint", "end", 3, R"(,"ok":true)", "a");
  text += line("09:00:00", "halt", "once", 4, "", "a");
  text += line("10:00:00", "run", "start", 1, "", "b");
  text += line("10:00:00", "rebuild", "start", 2, "", "b");
  text += line("10:00:40", "rebuild", "end", 2, R"(,"ok":true)", "b");
  text += line("11:00:00", "run", "end", 1, R"(,"ok":true)", "b");
  const auto advice = advise(parse_run_log(text), {});
  ASSERT_TRUE(advice.ok()) << advice.status().message();
  EXPECT_DOUBLE_EQ(advice->c, 20);
  EXPECT_EQ(advice->failures, 1U);
  EXPECT_DOUBLE_EQ(advice->m, 7200);
  EXPECT_DOUBLE_EQ(advice->r, 40);
  EXPECT_DOUBLE_EQ(advice->interval.mean, 600);
  EXPECT_DOUBLE_EQ(advice->daly, daly_interval(20, 7200));
  EXPECT_FALSE(advice->mtbf_is_bound);
}

TEST(Interval, WithoutAFailureTheTimeSeenIsABound) {
  const RunLog log = parse_run_log(line("08:00:00", "run", "start", 1) +
                                   line("08:10:00", "checkpoint", "start", 2) +
                                   line("08:10:20", "checkpoint", "end", 2, R"(,"ok":true)") +
                                   line("09:00:00", "run", "end", 1));
  const auto advice = advise(log, {});
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->mtbf_is_bound);
  EXPECT_DOUBLE_EQ(advice->m, 3600);
  EXPECT_DOUBLE_EQ(advise(log, {.mtbf = 100})->m, 100);
}

TEST(Interval, SaysWhatIsMissing) {
  const auto advice = advise(parse_run_log(line("08:00:00", "run", "start", 1)), {});
  ASSERT_FALSE(advice.ok());
  EXPECT_THAT(std::string(advice.status().message()), HasSubstr("--cost"));
}

TEST(Interval, DurationsAreReadable) {
  EXPECT_EQ(duration_text(0.00025), "250 µs");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(59), "59 s");
  EXPECT_EQ(duration_text(61), "1 min 01 s");
  EXPECT_EQ(duration_text(3600), "1 h");
  EXPECT_EQ(duration_text(90000), "1 d 01 h");
}

}  // namespace
}  // namespace scr::tools
