#include "core/base/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "h5scr/version.hpp"

namespace scr::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines;

class Log : public ::testing::Test {
 protected:
  Log() {
    lines.clear();
    set_sink([](Level, std::string_view line) { lines.emplace_back(line); });
    set_verbosity(0);
    set_rank(3);
  }
  ~Log() override {
    set_sink(nullptr);
    set_rank(-1);
    set_verbosity(0);
  }

  static std::string start() { return "SCR " H5SCR_VERSION ": rank 3 on " + host_name() + ": "; }
};

TEST_F(Log, NamesVersionRankAndHostOnEveryLine) {
  set_verbosity(1);
  info("dataset {} is complete", 7);
  EXPECT_THAT(lines, ElementsAre(start() + "dataset 7 is complete"));
}

TEST_F(Log, MarksErrorsAndWarnings) {
  error("no room");
  warning("slow disk");
  EXPECT_THAT(lines, ElementsAre(start() + "ERROR: no room", start() + "WARNING: slow disk"));
}

TEST_F(Log, LeavesOutTheRankUntilItIsKnown) {
  set_rank(-1);
  error("early");
  EXPECT_THAT(lines, ElementsAre("SCR " H5SCR_VERSION ": on " + host_name() + ": ERROR: early"));
}

TEST_F(Log, DropsLinesAboveTheVerbosity) {
  info("a");
  detail("b");
  write(Level::kTrace, "c");
  EXPECT_THAT(lines, IsEmpty());
  set_verbosity(2);
  info("a");
  detail("b");
  write(Level::kTrace, "c");
  EXPECT_THAT(lines, ElementsAre(start() + "a", start() + "b"));
}

TEST_F(Log, PrintsErrorsAtAnyVerbosity) {
  set_verbosity(-10);
  error("still here");
  EXPECT_EQ(lines.size(), 1U);
}

TEST_F(Log, KeepsAHostileMessageOnOneHarmlessLine) {
  error("cannot open '{}'", "x\nSCR 9: rank 0 on y: all fine\x1b[2J");
  EXPECT_THAT(lines, ElementsAre(start() + "ERROR: cannot open 'x\\x0aSCR 9: rank 0 on y: all "
                                           "fine\\x1b[2J'"));
}

TEST_F(Log, LeavesErrnoAlone) {
  set_sink(nullptr);
  ::testing::internal::CaptureStderr();
  errno = ENOSPC;
  error("x");
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), start() + "ERROR: x\n");
}

TEST_F(Log, WritesWholeLinesFromManyThreads) {
  set_sink(nullptr);
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) error("{}", std::string(100, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < 800; ++i) expected += start() + "ERROR: " + std::string(100, 'x') + "\n";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), expected);
}

// Standard error on a closed pipe or a full disk must not stop the program.
TEST_F(Log, SurvivesAnUnusableStandardError) {
  set_sink(nullptr);
  const int saved = ::dup(STDERR_FILENO);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ::dup2(full, STDERR_FILENO);
  error("nobody reads this");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(full);
}

TEST(LogDeathTest, TakesItsFirstVerbosityFromScrDebug) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ::setenv("SCR_DEBUG", "2", 1);  // threadsafe: the child starts anew with this environment
  EXPECT_EXIT(std::_Exit(verbosity()), ::testing::ExitedWithCode(2), "");
  ::setenv("SCR_DEBUG", "much", 1);
  EXPECT_EXIT(std::_Exit(verbosity()), ::testing::ExitedWithCode(0), "");
  ::unsetenv("SCR_DEBUG");
}

}  // namespace
}  // namespace scr::log
