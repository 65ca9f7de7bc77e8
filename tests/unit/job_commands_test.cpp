// The small commands around a job, as scripts run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/filemap.hpp"
#include "core/base/flush_file.hpp"
#include "core/base/halt_file.hpp"
#include "core/base/log.hpp"
#include "core/base/nodes_file.hpp"
#include "core/job/process.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryDirectory;

class JobCommands : public ::testing::Test {
 protected:
  JobCommands() {
    for (const char* name : {"prefix", "control", "cache"}) {
      std::filesystem::create_directory(directory_ / name);
    }
    set("SCR_PREFIX", directory_ / "prefix");
    set("SCR_CNTL_BASE", directory_ / "control");
    set("SCR_CACHE_BASE", directory_ / "cache");
    set("SCR_USER_NAME", "alice");
    set("SCR_JOB_ID", "42");
    set("SCR_LOG_SYSLOG_ENABLE", "0");
    set("TZ", "UTC0");
  }

  void set(const std::string& name, const std::string& value) {
    variables_.push_back(name + "=" + value);
  }

  ProcessResult run(const std::string& command, const Words& arguments) {
    Words words = {TEST_BIN_DIR "/" + command};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_any(words);
  }
  // The same for a command that is not ours.
  ProcessResult run_any(const Words& command) {
    Words words = {"env"};
    words.insert(words.end(), variables_.begin(), variables_.end());
    words.insert(words.end(), command.begin(), command.end());
    return run_program(words);
  }

  std::string control() {
    const std::string path = directory_ / "control/alice/scr.42";
    std::filesystem::create_directories(path);
    return path;
  }

  HaltConditions halt() {
    return *read_halt_file(file_system(), directory_ / "prefix/.scr/halt.scr");
  }

  TemporaryDirectory directory_;
  Words variables_;
};

TEST_F(JobCommands, EachHasHelpThatTellsItsExitCodes) {
  for (const char* command :
       {"scr_env", "scr_cntl_dir", "scr_glob_hosts", "scr_list_down_nodes", "scr_check_node",
        "scr_flush_file", "scr_nodes_file", "scr_retries_halt", "scr_halt", "scr_log_event"}) {
    const ProcessResult help = run(command, {"--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.output, HasSubstr("Exit codes:")) << command;
    EXPECT_EQ(run(command, {"--no-such-option"}).exit_code, 2) << command;
  }
}

TEST_F(JobCommands, GlobHostsDoesTheExamplesOfTheManual) {
  EXPECT_EQ(run("scr_glob_hosts", {"--count", "atlas[3,5-7,9-11]"}).output, "7\n");
  EXPECT_EQ(run("scr_glob_hosts", {"--nth", "3", "atlas[3,5-7,9-11]"}).output, "atlas6\n");
  EXPECT_EQ(run("scr_glob_hosts", {"--minus", "atlas[3,5-7,9-11]:atlas[5,7,20]"}).output,
            "atlas[3,6,9-11]\n");
  EXPECT_EQ(run("scr_glob_hosts", {"--intersection", "atlas[3,5-7,9-11]:atlas[5,7,20]"}).output,
            "atlas[5,7]\n");
  EXPECT_EQ(run("scr_glob_hosts", {"--expand", "n[09-10]"}).output, "n09\nn10\n");
}

TEST_F(JobCommands, GlobHostsRefusesABillionHostsAtOnce) {
  const ProcessResult result = run("scr_glob_hosts", {"--count", "n[1-1000000000]"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("more than 1000000 hosts"));
  EXPECT_EQ(run("scr_glob_hosts", {"--nth", "8", "n[1-7]"}).exit_code, 1);
}

TEST_F(JobCommands, EnvReadsSlurm) {
  set("SLURM_JOB_ID", "77");
  set("SLURM_JOB_NODELIST", "n[1-3]");
  set("SLURM_JOB_END_TIME", "1234567890");
  EXPECT_EQ(run("scr_env", {"--nodes"}).output, "n[1-3]\n");
  EXPECT_EQ(run("scr_env", {"--user"}).output, "alice\n");
  EXPECT_EQ(run("scr_env", {"--jobid"}).output, "42\n");
  EXPECT_EQ(run("scr_env", {"--endtime"}).output, "1234567890\n");
  const auto all = nlohmann::json::parse(run("scr_env", {"--json"}).output);
  EXPECT_EQ(all["batch_system"], "Slurm");
}

TEST_F(JobCommands, EnvReadsPbsLsfAndNone) {
  EXPECT_EQ(run("scr_env", {"--nodes"}).output, log::host_name() + "\n");
  std::ofstream(directory_ / "nodefile") << "n2\nn2\nn1\nn1\n";
  set("PBS_JOBID", "5.server");
  set("PBS_NODEFILE", directory_ / "nodefile");
  EXPECT_EQ(run("scr_env", {"--nodes"}).output, "n[1-2]\n");
  variables_.pop_back();
  variables_.pop_back();
  set("LSB_JOBID", "6");
  set("LSB_MCPU_HOSTS", "h1 4 h2 4");
  EXPECT_EQ(run("scr_env", {"--nodes"}).output, "h[1-2]\n");
  set("SCR_NODELIST", "own[1-2]");
  EXPECT_EQ(run("scr_env", {"--nodes"}).output, "own[1-2]\n");
}

TEST_F(JobCommands, EnvTellsAHostileList) {
  set("SCR_NODELIST", "n[1-1000000000]");
  const ProcessResult result = run("scr_env", {"--nodes"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("more than 1000000 hosts"));
}

TEST_F(JobCommands, CntlDirPrintsPaths) {
  EXPECT_EQ(run("scr_cntl_dir", {}).output, (directory_ / "control/alice/scr.42") + "\n");
  EXPECT_EQ(run("scr_cntl_dir", {"cache", "--user=bob", "--jobid=7"}).output,
            (directory_ / "cache/bob/scr.7") + "\n");
  EXPECT_EQ(run("scr_cntl_dir", {"cache", "--base"}).output, (directory_ / "cache") + "\n");
}

TEST_F(JobCommands, CheckNodeTellsWhatIsWrong) {
  EXPECT_EQ(run("scr_check_node", {}).exit_code, 0);
  const std::string missing = directory_ / "missing";
  ProcessResult result = run("scr_check_node", {"--cntl", missing});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("FAIL: "), HasSubstr(missing), HasSubstr("No such")));
  EXPECT_EQ(run("scr_check_node", {"--cache", missing, "--mkdir", missing}).exit_code, 0);
  result = run("scr_check_node", {"--cache", missing + ":1000000TB"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("bytes that are needed in all"));
  EXPECT_EQ(run("scr_check_node", {"--cache", "relative"}).exit_code, 2);
}

TEST_F(JobCommands, AFaultyConfigurationIsNoWrongUse) {
  std::ofstream(directory_ / "scr.conf") << "SCR_COPY_TYPE=NONSENSE\n";
  set("SCR_CONF_FILE", directory_ / "scr.conf");
  const ProcessResult result = run("scr_check_node", {});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.errors, HasSubstr("NONSENSE"));
  EXPECT_EQ(run("scr_list_down_nodes", {}).exit_code, 3);
  EXPECT_EQ(run("scr_log_event", {"-T", "flush"}).exit_code, 1);
}

TEST_F(JobCommands, ListDownNodesGivesReasons) {
  // The "shell" reaches every node but n3.
  set("SCR_REMOTE_SHELL", "sh -c 'test $0 = n3 && { echo no route >&2; exit 255; }; eval \"$1\"'");
  set("SCR_NODELIST", "n[1-5]");
  set("SCR_EXCLUDE_NODES", "n5");
  const ProcessResult result =
      run("scr_list_down_nodes", {"--reason", "--no-ping", "--down", "n2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output,
            "n2: it was given as down\n"
            "n3: scr_check_node cannot run there: no route (exit status 255)\n"
            "n5: SCR_EXCLUDE_NODES names it\n");
  EXPECT_EQ(run("scr_list_down_nodes", {"--no-ping", "n[2-5]"}).output, "n[3,5]\n");
  EXPECT_EQ(run("scr_list_down_nodes", {"--no-ping", "n[1-2]"}).exit_code, 0);
}

TEST_F(JobCommands, ANodeWithoutItsCacheIsDown) {
  set("SCR_REMOTE_SHELL", "sh -c 'eval \"$1\"'");
  std::filesystem::remove(directory_ / "control");
  const ProcessResult result = run("scr_list_down_nodes", {"--reason", "--no-ping", "n1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("n1: cannot open"), HasSubstr("control")));
}

TEST_F(JobCommands, FlushFileAnswersByExitCode) {
  EXPECT_EQ(run("scr_flush_file", {"--latest"}).exit_code, 1);
  FlushFile flush;
  flush.at(5) = {.name = "five", .in_cache = true, .in_prefix = true, .is_checkpoint = true};
  flush.at(6) = {.name = "six", .in_cache = true, .is_checkpoint = true};
  ASSERT_TRUE(write_flush_file(file_system(), control() + "/flush.scrinfo", flush).ok());
  const ProcessResult latest = run("scr_flush_file", {"--dir", control(), "--latest"});
  EXPECT_EQ(latest.exit_code, 0);
  EXPECT_EQ(latest.output, "6\n");
  EXPECT_EQ(run("scr_flush_file", {"--needflush", "6"}).exit_code, 0);
  EXPECT_EQ(run("scr_flush_file", {"--needflush", "5"}).exit_code, 1);
  EXPECT_EQ(run("scr_flush_file", {"--id", "5"}).exit_code, 0);
  EXPECT_EQ(run("scr_flush_file", {"--id", "6"}).exit_code, 1);
  EXPECT_EQ(run("scr_flush_file", {"--name", "6"}).output, "six\n");
  Filemap filemap;
  FilemapEntry& entry = filemap.at(0, 6);
  entry.dataset.created = 1700000000000006;
  entry.dataset.ranks = 1;
  ASSERT_TRUE(write_filemap(file_system(), control() + "/" + filemap_name(1, 0), filemap).ok());
  ASSERT_TRUE(
      write_master_filemap(file_system(), control() + "/filemap.scrinfo", {filemap_name(1, 0)})
          .ok());
  const auto list = nlohmann::json::parse(run("scr_flush_file", {"--list-ckpt", "--json"}).output);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_FALSE(list[0].contains("created"));
  EXPECT_EQ(list[1]["created"], 1700000000000006);
  std::ofstream(control() + "/flush.scrinfo") << "no hash";
  EXPECT_EQ(run("scr_flush_file", {"--latest"}).exit_code, 3);
}

TEST_F(JobCommands, NodesFilePrintsTheNumber) {
  EXPECT_EQ(run("scr_nodes_file", {}).exit_code, 1);
  ASSERT_TRUE(write_nodes_file(file_system(), control() + "/nodes.scrinfo", 4).ok());
  EXPECT_EQ(run("scr_nodes_file", {}).output, "4\n");
}

TEST_F(JobCommands, HaltSetsListsAndTakesBackConditions) {
  EXPECT_EQ(run("scr_retries_halt", {}).exit_code, 1);
  EXPECT_EQ(run("scr_halt", {"--checkpoints", "3", "--before", "@2000000000", "--seconds", "60",
                             "--after=@1900000000"})
                .exit_code,
            0);
  HaltConditions expected;
  expected.checkpoints_left = 3;
  expected.exit_before = 2000000000;
  expected.halt_seconds = 60;
  expected.exit_after = 1900000000;
  EXPECT_EQ(halt(), expected);
  EXPECT_THAT(run("scr_halt", {"--list"}).output,
              AllOf(HasSubstr("CheckpointsLeft: 3"), HasSubstr("ExitBefore: 2033-05-18T03:33:20")));
  EXPECT_EQ(run("scr_halt", {"--unset-checkpoints", "--unset-before", "--unset-seconds"}).exit_code,
            0);
  expected = {};
  expected.exit_after = 1900000000;
  EXPECT_EQ(halt(), expected);
  EXPECT_EQ(run("scr_halt", {"--unset"}).output, "no condition is set\n");
}

TEST_F(JobCommands, HaltWithoutConditionIsForTheNextCheckpoint) {
  EXPECT_EQ(run("scr_halt", {}).exit_code, 0);
  EXPECT_THAT(halt().exit_reason, HasSubstr("scr_halt of alice"));
  EXPECT_FALSE(halt().immediate);
  const ProcessResult told = run("scr_retries_halt", {});
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.output, HasSubstr("scr_halt of alice"));
  EXPECT_EQ(run("scr_halt", {"--immediate", "--reason", "enough"}).exit_code, 0);
  EXPECT_EQ(halt().exit_reason, "enough");
  EXPECT_TRUE(halt().immediate);
  EXPECT_EQ(run("scr_halt", {"--unset-reason"}).exit_code, 0);
  EXPECT_EQ(halt(), HaltConditions());
}

TEST_F(JobCommands, HaltRefusesWrongTimesAndWritesNothing) {
  const ProcessResult result = run("scr_halt", {"--before", "teatime"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("'teatime' is not a time"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "prefix/.scr"));
}

TEST_F(JobCommands, HaltSecondsWithoutAnEndSaysSo) {
  const ProcessResult result = run("scr_halt", {"--seconds", "60"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("the end of the job is not known here"));
  set("SCR_END_TIME", "2000000000");
  EXPECT_EQ(run("scr_halt", {"--seconds", "60"}).exit_code, 0);
  HaltConditions expected;
  expected.halt_seconds = 60;
  expected.job_end = 2000000000;
  expected.job_id = "42";
  EXPECT_EQ(halt(), expected);
  EXPECT_THAT(run("scr_halt", {"--list"}).output,
              HasSubstr("JobEnd: 2033-05-18T03:33:20 (of job 42)"));
  EXPECT_EQ(run("scr_halt", {"--unset-seconds"}).output, "no condition is set\n");
}

TEST_F(JobCommands, TheEndOfTheJobHaltsWithoutACondition) {
  set("SCR_END_TIME", "1000000000");
  set("SCR_HALT_SECONDS", "60");
  const ProcessResult told = run("scr_retries_halt", {"--first"});
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.output, HasSubstr("less than 60 seconds (SCR_HALT_SECONDS) are left"));
  EXPECT_THAT(run("scr_halt", {"--list"}).output,
              AllOf(HasSubstr("no condition is set\n"), HasSubstr("the job ends at 2001-09-09T"),
                    HasSubstr("SCR_HALT_SECONDS is 60")));
  const auto json = nlohmann::json::parse(run("scr_halt", {"--list", "--json"}).output);
  EXPECT_EQ(json, nlohmann::json({{"end_time", 1000000000}, {"end_seconds", 60}}));
  const ProcessResult refused = run("scr_run", {"--outside", "--", "true"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("not started: less than 60 seconds"),
                                    Not(HasSubstr("scr_halt --unset"))));
}

TEST_F(JobCommands, ARunThatEndsAsScrRunDoesIsSavedAllTheSame) {
  const ProcessResult ran = run("scr_run", {"--outside", "--", "sh", "-c", "exit 125"});
  EXPECT_EQ(ran.exit_code, 125);
  EXPECT_THAT(ran.errors, HasSubstr("scr_postrun: "));
  const ProcessResult never = run("scr_run", {"--outside", "--force", "--", "/no/such/program"});
  EXPECT_EQ(never.exit_code, 125);
  EXPECT_THAT(never.errors, Not(HasSubstr("scr_postrun: ")));
}

TEST_F(JobCommands, TheFirstRunAloneGetsScrCurrent) {
  std::ofstream(directory_ / "conf") << "SCR_CURRENT=chosen\n";
  set("SCR_CONF_FILE", directory_ / "conf");
  const ProcessResult ran =
      run("scr_run", {"--outside", "--runs", "2", "--wait", "0", "--no-postrun", "--", "sh", "-c",
                      "echo \"run again: ${SCR_RUN_AGAIN:-no}\"; exit 7"});
  EXPECT_EQ(ran.exit_code, 7);
  EXPECT_EQ(ran.output, "run again: no\nrun again: 1\n");
}

// `script` is a terminal for what it runs.
TEST_F(JobCommands, AProgramIsToldOfATerminalThatItsLauncherHidesFromIt) {
  const std::string line = TEST_BIN_DIR
      "/scr_run --outside --no-postrun -- sh -c "
      "'echo \"terminal: ${SCR_RUN_TERMINAL:-no}\"'";
  EXPECT_THAT(run_any({"script", "-qec", line, "/dev/null"}).output, HasSubstr("terminal: 1"));
  set("SCR_RUN_TERMINAL", "1");  // of a scr_run further out
  EXPECT_EQ(run_any({"sh", "-c", line}).output, "terminal: no\n");
}

TEST_F(JobCommands, AWrapperBeforeTheProgramDoesNotSwitchTheDriverOff) {
  for (const char* wrapper : {"env", "sh"}) {
    const auto told =
        nlohmann::json::parse(run("scr_test_runtime", {"--json", wrapper}).output, nullptr, false);
    ASSERT_TRUE(told.is_object()) << wrapper;
    EXPECT_EQ(told["hdf5"], "unknown") << wrapper;
  }
  const Words words = {"--outside", "--no-postrun", "--", "env", "sh", "-c", "echo [$HDF5_DRIVER]"};
  EXPECT_EQ(run("scr_run", words).output, "[scr]\n");
  Words none = {"--hdf5", "none"};
  none.insert(none.end(), words.begin(), words.end());
  EXPECT_EQ(run("scr_run", none).output, "[]\n");
}

TEST_F(JobCommands, AnEndedRunHaltsARelaunchButNotANewJob) {
  std::filesystem::create_directory(directory_ / "prefix/.scr");
  ASSERT_TRUE(
      update_halt_file(file_system(), directory_ / "prefix/.scr/halt.scr",
                       [](HaltConditions& conditions) { conditions.exit_reason = kFinalizeCalled; })
          .ok());
  EXPECT_EQ(run("scr_retries_halt", {}).exit_code, 0);
  EXPECT_EQ(run("scr_retries_halt", {"--first"}).exit_code, 1);
}

TEST_F(JobCommands, LogEventWritesALine) {
  EXPECT_EQ(run("scr_log_event", {"-T", "flush", "-D", "6", "-n", "ckpt.6", "-L", "2", "-B", "4096",
                                  "-N", "by hand"})
                .exit_code,
            0);
  std::ifstream in(directory_ / "prefix/.scr/log.jsonl");
  const auto line = nlohmann::json::parse(in);
  EXPECT_EQ(line["event"], "flush");
  EXPECT_EQ(line["dataset"], 6);
  EXPECT_EQ(line["bandwidth"], 2048.0);
  EXPECT_EQ(line["note"], "by hand");
  EXPECT_EQ(run("scr_log_event", {"-T", "dinner"}).exit_code, 2);
}

TEST_F(JobCommands, LogEventFailsIfItsLineCannotBeWritten) {
  std::filesystem::create_directories(directory_ / "prefix/.scr/log.jsonl");
  const ProcessResult result = run("scr_log_event", {"-T", "flush"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("scr_log_event: "), HasSubstr("log.jsonl")));
  set("SCR_LOG_JSON_ENABLE", "0");
  EXPECT_EQ(run("scr_log_event", {"-T", "flush"}).exit_code, 0);
}

// --- what is saved in the end

TEST_F(JobCommands, NothingToSaveIsToldOnlyIfAllNodesCouldTell) {
  set("SCR_NODELIST", "n[1-2]");
  set("SCR_REMOTE_SHELL", "sh -c 'echo no route >&2; exit 255'");
  for (const char* command : {"scr_postrun", "scr_scavenge"}) {
    const ProcessResult result = run(command, {"--wait", "0"});
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.errors, AllOf(HasSubstr("no answer from n1"), HasSubstr("no answer from n2"),
                                     HasSubstr("no dataset was found, but 2 of 2 node(s) did not "
                                               "answer")));
    EXPECT_THAT(result.output, ::testing::Not(HasSubstr("nothing to save")));
  }
  const ProcessResult told = run("scr_postrun", {"--wait", "0", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(nlohmann::json::parse(told.output)["error"].get<std::string>(),
              HasSubstr("no dataset was found"));
}

TEST_F(JobCommands, NodesOfOtherNamesThanTheirHostNamesAreHeard) {
  set("SCR_NODELIST", "n1-ib,10.0.0.1,10.0.0.2,localhost");
  set("SCR_REMOTE_SHELL", "sh -c 'test $0 != 10.0.0.2 && eval \"$1\"'");
  const ProcessResult result = run("scr_postrun", {"--wait", "0", "--quiet", "--json"});
  EXPECT_EQ(nlohmann::json::parse(result.output)["silent_nodes"],
            nlohmann::json::array({"10.0.0.2"}));
  const ProcessResult rest = run("scr_postrun", {"--wait", "0", "--nodes", "n1-ib,10.0.0.1"});
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, AllOf(HasSubstr("nothing to save: no node has the job's control"),
                                 HasSubstr("alice/scr.42")));
}

TEST_F(JobCommands, CopyTellsThatTheJobWasNeverHere) {
  const ProcessResult result = run("scr_copy", {});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("there is no control directory"));
  EXPECT_EQ(run("scr_copy", {"--host", "../n1"}).exit_code, 2);
}

TEST_F(JobCommands, RunTakesLocalhostForThisHost) {
  std::ofstream(directory_ / "mpirun") << "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.2'\n";
  std::filesystem::permissions(directory_ / "mpirun", std::filesystem::perms::owner_all);
  set("PATH", directory_.path().string() + ":" + std::getenv("PATH"));
  const auto nodes = [&](const std::string& host) {
    return run("scr_run", {"--check", "--", "mpirun", "-host", host, "-n", "4", "/bin/true"});
  };
  const ProcessResult here = nodes("localhost:4");
  EXPECT_NE(here.exit_code, 125) << here.errors;
  EXPECT_THAT(here.errors, ::testing::Not(HasSubstr("is not a node of the job")));
  EXPECT_EQ(nodes("n1:4").exit_code, 125);
}

}  // namespace
}  // namespace scr::job
