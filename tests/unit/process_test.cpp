// Programs are started from words, and what becomes of them is told.
#include "core/job/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "core/job/remote.hpp"

namespace scr::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Process, GivesOutputErrorsAndExitCode) {
  const ProcessResult result = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.summary(), "err (exit status 3)");
}

TEST(Process, TellsWhatCannotBeStarted) {
  const ProcessResult result = run_program({"/no/such/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(result.summary(), HasSubstr("cannot start '/no/such/program': No such file"));
}

TEST(Process, KillsWhatTakesTooLongWithItsChildren) {
  const ProcessResult result =
      run_program({"sh", "-c", "sleep 1000 & wait"}, {.timeout = milliseconds(200)});
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.summary(), "no answer in time");
}

TEST(Process, AChildThatKeepsThePipeOpenDoesNotDelayTheEnd) {
  const ProcessResult result =
      run_program({"sh", "-c", "sleep 300 & echo $!"}, {.timeout = seconds(60)});
  EXPECT_TRUE(result.ok());
  kill(static_cast<pid_t>(std::stol(result.output)), SIGKILL);
}

TEST(Process, AnEndBySignalIsToldAsAShellDoes) {
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).exit_code, 128 + SIGKILL);
}

TEST(Process, RunsManyAndKeepsTheirOrder) {
  std::vector<Words> programs;
  for (int i = 0; i < 20; ++i) programs.push_back({"echo", std::to_string(i)});
  std::size_t ended = 0;
  const auto results =
      run_programs(programs, {.at_once = 3, .on_end = [&](auto, const auto&) { ++ended; }});
  EXPECT_EQ(ended, 20U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].output, std::to_string(i) + "\n");
  }
}

TEST(Process, LargeOutputIsCutAndDoesNotBlock) {
  const ProcessResult result =
      run_program({"head", "-c", "3000000", "/dev/zero"}, {.most_output = 1000});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output.size(), 1000U);
}

TEST(Child, EndsWhenAskedAndIsKilledIfItDoesNot) {
  auto willing = Child::start({"sleep", "1000"});
  ASSERT_TRUE(willing.ok());
  EXPECT_FALSE(willing->wait_for(milliseconds(50)).has_value());
  EXPECT_EQ(willing->end(seconds(30)), 128 + SIGTERM);
  auto stubborn = Child::start({"sh", "-c", "trap '' TERM; while :; do sleep 1; done"});
  ASSERT_TRUE(stubborn.ok());
  EXPECT_EQ(stubborn->wait_for(milliseconds(300)), std::nullopt);
  EXPECT_EQ(stubborn->end(milliseconds(100)), 128 + SIGKILL);
}

TEST(Child, GetsChangedVariables) {
  auto child = Child::start({"sh", "-c", "test \"$ONE\" = 1 && test -z \"$HOME\""},
                            {{"ONE", "1"}, {"HOME", std::nullopt}});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->wait_for(seconds(60)), 0);
}

TEST(ShellQuoted, SurvivesAShell) {
  const Words words = {"printf", "%s\\n", "plain", "two words", "", "it's", "$(id)", "a\"b\\c;d"};
  const ProcessResult result = run_program({"sh", "-c", shell_quoted(words)});
  EXPECT_EQ(result.output, "plain\ntwo words\n\nit's\n$(id)\na\"b\\c;d\n");
}

TEST(SplitWords, ReadsQuotesAsAShellDoes) {
  EXPECT_THAT(*split_words(R"(prog -x 'a b' "c \"d\" $HOME" e\ f '' g"h"i)"),
              ElementsAre("prog", "-x", "a b", "c \"d\" $HOME", "e f", "", "ghi"));
  EXPECT_FALSE(split_words("a 'b").ok());
  EXPECT_TRUE(split_words("  ")->empty());
}

TEST(SplitWords, ReadsBackWhatShellQuotedWrites) {
  const Words words = {"a", "b c", "it's", "\\", "\"", "", "$x"};
  EXPECT_EQ(*split_words(shell_quoted(words)), words);
}

config::Config with_shell(const std::string& shell) {
  config::ConfigSources sources;
  sources.environment =
      config::Environment(config::Environment::Values{{"SCR_REMOTE_SHELL", shell}, {"PWD", "/"}});
  return *config::Config::build(std::move(sources));
}

TEST(RemoteShell, AnAgentGetsHostAndOneQuotedText) {
  const auto shell = RemoteShell::choose(with_shell("my_shell -q"), {});
  ASSERT_TRUE(shell.ok());
  EXPECT_THAT(shell->command("n1", {"ls", "a b"}), ElementsAre("my_shell", "-q", "n1", "ls 'a b'"));
}

TEST(RemoteShell, OnThisHostNothingIsPutBefore) {
  const auto shell = RemoteShell::choose(with_shell("my_shell"), {});
  EXPECT_THAT(shell->command(log::host_name(), {"ls", "a b"}), ElementsAre("ls", "a b"));
}

TEST(RemoteShell, EachHostHasItsOwnResult) {
  // An agent that fails for one host: words are "agent HOST TEXT".
  const auto shell =
      RemoteShell::choose(with_shell("sh -c 'test $0 = bad.host && exit 255; eval \"$1\"'"), {});
  ASSERT_TRUE(shell.ok());
  const auto results = shell->run(Hosts{"n1.host", "bad.host"}, {"echo", "a  b"});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].process.output, "a  b\n");
  EXPECT_EQ(results[1].host, "bad.host");
  EXPECT_EQ(results[1].process.exit_code, 255);
}

TEST(RemoteShell, InAJobOfSlurmItIsSrunIfThereIsOne) {
  const auto shell = RemoteShell::choose(
      with_shell(""), config::Environment(config::Environment::Values{{"SLURM_JOB_ID", "17"}}));
  ASSERT_TRUE(shell.ok());
  EXPECT_EQ(shell->kind() == RemoteShell::Kind::kSrun, find_program("srun").has_value());
}

}  // namespace
}  // namespace scr::job
