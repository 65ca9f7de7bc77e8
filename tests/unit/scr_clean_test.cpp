// scr_clean as users and administrators run it: dead jobs go, all else stays and is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "core/base/filemap.hpp"
#include "core/base/flush_file.hpp"
#include "core/base/job_owner.hpp"
#include "core/base/log.hpp"
#include "core/base/nodes_file.hpp"
#include "flush/index.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

namespace stdfs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryDirectory;

constexpr const char* kUser = "clean_test";

struct Output {
  int exit_code = -1;
  std::string text;
};

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class ScrClean : public ::testing::Test {
 protected:
  ScrClean() {
    for (const char* base : {"control", "cache"}) {
      stdfs::create_directory(directory_ / base);
      stdfs::permissions(directory_ / base, stdfs::perms(01777));
    }
    stdfs::create_directory(directory_ / "empty");
  }

  Output run(const std::string& arguments) {
    return run_shell("env SCR_USER_NAME=" + std::string(kUser) +
                     " timeout 60 " TEST_BIN_DIR "/scr_clean " + bases_ + arguments);
  }

  // Only arguments of this test go to the shell.
  Output run_shell(const std::string& line) {
    const std::string command = "cd '" + (directory_ / "empty") + "' && " + line + " 2>&1";
    Output output;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      output.text.append(buffer.data(), count);
    }
    const int status = ::pclose(pipe);
    output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return output;
  }

  std::string control(const std::string& job) {
    return directory_ / (std::string("control/") + kUser + "/scr." + job);
  }
  std::string cache(const std::string& job) {
    return directory_ / (std::string("cache/") + kUser + "/scr." + job);
  }

  void make_private(const std::string& path) {
    stdfs::create_directories(path);
    stdfs::permissions(path, stdfs::perms(0700));
    stdfs::permissions(stdfs::path(path).parent_path(), stdfs::perms(0700));
  }

  // Gives it an owner other than root, as jobs have.
  void give_away(const std::string& job) {
    constexpr uid_t kNobody = 65534;
    for (const std::string& top : {control(job), cache(job)}) {
      for (const auto& entry : stdfs::recursive_directory_iterator(top)) {
        ASSERT_EQ(::lchown(entry.path().c_str(), kNobody, kNobody), 0);
      }
      ASSERT_EQ(::lchown(top.c_str(), kNobody, kNobody), 0);
    }
  }
  void give_user_directories_away() {
    constexpr uid_t kNobody = 65534;
    for (const std::string& top : {control("any"), cache("any")}) {
      const std::string parent = stdfs::path(top).parent_path();
      ASSERT_EQ(::lchown(parent.c_str(), kNobody, kNobody), 0);
    }
  }

  JobOwnerInfo owner_of(const std::string& job) {
    JobOwnerInfo info;
    info.user = kUser;
    info.job_id = job;
    info.prefix = directory_ / "prefix";
    return info;
  }

  // A job that ended: two ranks, one checkpoint of two files each, in the prefix or not.
  void make_job(const std::string& job, bool flushed) {
    make_private(control(job));
    make_private(cache(job));
    for (int rank = 0; rank < 2; ++rank) {
      Filemap filemap;
      add_files(filemap.at(rank, 3), rank, cache(job) + "/scr.dataset.3");
      ASSERT_TRUE(write_filemap(fs_, control(job) + "/" + filemap_name(1, rank), filemap).ok());
    }
    ASSERT_TRUE(write_master_filemap(fs_, control(job) + "/filemap.scrinfo",
                                     {filemap_name(1, 0), filemap_name(1, 1)})
                    .ok());
    FlushFile flush;
    flush.at(3) = {.in_cache = true, .in_prefix = flushed, .is_checkpoint = true};
    ASSERT_TRUE(write_flush_file(fs_, control(job) + "/flush.scrinfo", flush).ok());
    ASSERT_TRUE(write_nodes_file(fs_, control(job) + "/nodes.scrinfo", 1).ok());
    write_text(control(job) + "/.filemap_1_0.scrinfo.tmp.1-2-3", "killed while writing");
    ASSERT_TRUE(hold(job).ok());
  }

  void add_files(FilemapEntry& entry, int rank, const std::string& directory) {
    entry.dataset.checkpoint = 3;
    entry.dataset.complete = true;
    entry.directory = directory;
    for (const char* kind : {"a/rank", "parity"}) {
      FileMeta meta;
      meta.file = std::string(kind) + std::to_string(rank);
      entry.put(meta);
      stdfs::create_directories(stdfs::path(directory + "/" + meta.file).parent_path());
      write_text(directory + "/" + meta.file, "0123456789");
    }
  }

  Result<JobOwner> hold(const std::string& job) {
    auto directory = fs_.open_directory(control(job));
    if (!directory.ok()) return directory.status();
    return JobOwner::hold(fs_, **directory, owner_of(job));
  }

  TemporaryDirectory directory_;
  FileSystem& fs_ = real_file_system();
  std::string bases_ =
      "--base '" + (directory_ / "control") + "' --base '" + (directory_ / "cache") + "' ";
};

TEST_F(ScrClean, OfOneJobTheCachesOfProcessesOutsideOfMpiGoToo) {
  for (const char* job : {"7", "7.s0", "7.p12", "7.sx", "7.server", "71", "71.s0"}) {
    make_job(job, true);
  }
  EXPECT_EQ(run("--job 7").exit_code, 0);
  for (const char* job : {"7", "7.s0", "7.p12"}) EXPECT_FALSE(stdfs::exists(cache(job))) << job;
  for (const char* job : {"7.sx", "7.server", "71", "71.s0"}) {
    EXPECT_TRUE(stdfs::exists(cache(job))) << job;
  }
}

TEST_F(ScrClean, RemovesAllOfADeadJobThatIsFlushed) {
  make_job("7", true);
  const Output output = run("");
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_THAT(output.text,
              AllOf(HasSubstr("removed job 7 of clean_test"), HasSubstr("4 files, 40 bytes")));
  EXPECT_FALSE(stdfs::exists(control("7")));
  EXPECT_FALSE(stdfs::exists(cache("7")));
}

TEST_F(ScrClean, KeepsTheNewestCheckpointThatIsNotInThePrefix) {
  make_job("7", false);
  const Output output = run("");
  EXPECT_EQ(output.exit_code, 3) << output.text;
  EXPECT_THAT(output.text, HasSubstr("kept job 7 of clean_test"));
  EXPECT_THAT(output.text, HasSubstr("dataset 3 is not in the prefix '" + (directory_ / "prefix") +
                                     "'; bring it there, or use --force to lose it"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank1"));
  EXPECT_EQ(run("--force").exit_code, 0);
  EXPECT_FALSE(stdfs::exists(cache("7")));
}

// Prefix directories may be wiped out, or a dataset deleted there, after the flush was marked.
TEST_F(ScrClean, ThePrefixDirectoryCountsAndNotTheMarkOfTheFlush) {
  make_job("7", true);
  stdfs::create_directories(directory_ / "prefix/.scr");
  EXPECT_EQ(run("").exit_code, 3) << "the index has nothing";
  const auto change = [&](const std::function<void(flush::Index&)>& what) {
    ASSERT_TRUE(flush::update_index(fs_, directory_ / "prefix", [&](flush::Index& index) -> Status {
                  what(index);
                  return {};
                }).ok());
  };
  flush::IndexEntry entry;
  entry.directory = "scr.dataset.3";
  entry.dataset.id = 3;
  entry.dataset.checkpoint = 3;
  entry.complete = true;
  entry.dataset.created = 5;  // another of that id
  change([&](flush::Index& index) { index.put(entry); });
  EXPECT_EQ(run("").exit_code, 3);
  entry.dataset.created =
      read_filemap(fs_, control("7") + "/" + filemap_name(1, 0))->get(0, 3)->dataset.created;
  change([&](flush::Index& index) { index.put(entry); });
  EXPECT_EQ(run("--dry-run").exit_code, 0);
  change([&](flush::Index& index) { index.remove("scr.dataset.3"); });
  EXPECT_EQ(run("").exit_code, 0) << "a user has taken it away";
}

TEST_F(ScrClean, WithoutAFlushFileACompleteCheckpointCountsAsNotFlushed) {
  make_job("7", true);
  stdfs::remove(control("7") + "/flush.scrinfo");
  EXPECT_EQ(run("").exit_code, 3);
  write_text(control("7") + "/flush.scrinfo", "damaged");
  EXPECT_EQ(run("").exit_code, 3);
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank1"));
}

TEST_F(ScrClean, DoesNotTouchAJobThatRuns) {
  make_job("7", true);
  {
    const auto first = hold("7");
    const auto second = hold("7");  // as the other processes of the job do
    ASSERT_TRUE(first.ok() && second.ok());
    const Output output = run("--force");
    EXPECT_EQ(output.exit_code, 0);
    EXPECT_THAT(output.text, HasSubstr("kept job 7 of clean_test in"));
    EXPECT_THAT(output.text, HasSubstr("a process of the job is running"));
    EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/parity0"));
  }
  EXPECT_THAT(run("").text, HasSubstr("removed job 7"));
}

TEST_F(ScrClean, AJobIsDeadOnceItsLastProcessIsKilled) {
  make_job("7", true);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = hold("7");
    (void)!::write(ready[1], held.ok() ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_THAT(run("").text, HasSubstr("is running"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(run("").text, HasSubstr("removed job 7"));
}

TEST_F(ScrClean, LeavesAndNamesFilesThatNoFilemapLists) {
  make_job("7", true);
  write_text(cache("7") + "/scr.dataset.3/a/precious", "x");
  write_text(control("7") + "/notes.txt", "x");
  const Output output = run("");
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.text, HasSubstr("left: " + cache("7") + "/scr.dataset.3/a/precious\n"));
  EXPECT_THAT(output.text, HasSubstr("left: " + control("7") + "/notes.txt\n"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/precious"));
  EXPECT_FALSE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank0"));
  EXPECT_TRUE(stdfs::exists(control("7") + "/owner.scr")) << "so that it is found again";
}

TEST_F(ScrClean, DryRunOnlyTells) {
  make_job("7", true);
  const Output output = run("--dry-run");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.text, HasSubstr("would remove job 7 of clean_test"));
  EXPECT_THAT(output.text, HasSubstr("4 files, 40 bytes"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank0"));
  EXPECT_TRUE(stdfs::exists(control("7") + "/filemap.scrinfo"));
}

TEST_F(ScrClean, OnlyTheJobAskedFor) {
  make_job("7", true);
  make_job("8", true);
  EXPECT_EQ(run("--job 8").exit_code, 0);
  EXPECT_TRUE(stdfs::exists(control("7")));
  EXPECT_FALSE(stdfs::exists(control("8")));
  EXPECT_EQ(run("--job 9").exit_code, 0);
}

TEST_F(ScrClean, OnlyJobsOldEnough) {
  make_job("7", true);
  const Output output = run("--older-than 3600");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.text, HasSubstr("its last sign of life is"));
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  JobOwnerInfo info = *read_owner_file(fs_, **directory);
  info.heartbeat = std::time(nullptr) - 4000;
  ASSERT_TRUE(write_owner_file(fs_, **directory, info).ok());
  EXPECT_THAT(run("--older-than 3600").text, HasSubstr("removed job 7"));
}

TEST_F(ScrClean, DirectoriesOfOtherHostsOnlyIfAsked) {
  make_job("7", true);
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  JobOwnerInfo info = *read_owner_file(fs_, **directory);
  info.host = "far away";
  ASSERT_TRUE(write_owner_file(fs_, **directory, info).ok());
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.text, HasSubstr("made by host 'far away'"));
  EXPECT_EQ(run("--other-hosts").exit_code, 0);
}

TEST_F(ScrClean, PrintsJson) {
  make_job("7", true);
  make_job("8", false);
  const Output output = run("--json");
  EXPECT_EQ(output.exit_code, 3);
  const auto all = nlohmann::json::parse(output.text);
  ASSERT_EQ(all["jobs"].size(), 2U);
  EXPECT_EQ(all["jobs"][0]["job_id"], "7");
  EXPECT_EQ(all["jobs"][0]["state"], "removed");
  EXPECT_EQ(all["jobs"][0]["files"], 4);
  EXPECT_EQ(all["jobs"][1]["state"], "unflushed");
}

TEST_F(ScrClean, FollowsNoSymbolicLink) {
  make_job("7", true);
  stdfs::create_directories(directory_ / "elsewhere/a");
  write_text(directory_ / "elsewhere/a/rank0", "not ours");
  stdfs::remove_all(cache("7") + "/scr.dataset.3");
  stdfs::create_directory_symlink(directory_ / "elsewhere", cache("7") + "/scr.dataset.3");
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.text, HasSubstr("left: " + cache("7") + "/scr.dataset.3\n"));
  EXPECT_TRUE(stdfs::exists(directory_ / "elsewhere/a/rank0"));
}

TEST_F(ScrClean, AJobDirectoryThatIsALinkIsNone) {
  make_job("7", true);
  stdfs::create_directory_symlink(control("7"), control("8"));
  EXPECT_THAT(run("--job 8").text, Not(HasSubstr("job 8")));
}

TEST_F(ScrClean, FilesElsewhereThatAFilemapListsStay) {
  make_job("7", true);
  write_text(directory_ / "precious0", "x");
  Filemap filemap;
  filemap.at(0, 4).directory = directory_.path().string();
  filemap.at(0, 4).put([] {
    FileMeta meta;
    meta.file = "precious0";
    return meta;
  }());
  ASSERT_TRUE(write_filemap(fs_, control("7") + "/" + filemap_name(1, 2), filemap).ok());
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.text, HasSubstr("left: " + directory_.path().string() + "\n"));
  EXPECT_TRUE(stdfs::exists(directory_ / "precious0"));
  EXPECT_TRUE(stdfs::exists(control("7") + "/" + filemap_name(1, 2)))
      << "the only record of these files";
}

TEST_F(ScrClean, ADatasetThatBypassedTheCacheStaysInThePrefix) {
  make_job("7", true);
  Filemap filemap;
  filemap.at(0, 4).directory = directory_ / "prefix/ckpt.4";
  ASSERT_TRUE(write_filemap(fs_, control("7") + "/" + filemap_name(1, 2), filemap).ok());
  EXPECT_EQ(run("").exit_code, 0);
  EXPECT_FALSE(stdfs::exists(control("7")));
}

TEST_F(ScrClean, ADamagedFilemapStopsAndIsNamed) {
  make_job("7", true);
  write_text(control("7") + "/" + filemap_name(1, 1), "garbage");
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.text, HasSubstr(filemap_name(1, 1) + "' is not a valid hash file"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank0"));
}

TEST_F(ScrClean, PipesInPlaceOfStateFilesDoNotHangIt) {
  for (const char* name : {"owner.scr", "owner.lock", "filemap_1_0.scrinfo", "filemap.scrinfo"}) {
    make_job("7", true);
    stdfs::remove(control("7") + "/" + name);
    ASSERT_EQ(::mkfifo((control("7") + "/" + name).c_str(), 0600), 0);
    const Output output = run("");
    EXPECT_EQ(output.exit_code, 1) << name;
    EXPECT_THAT(output.text, HasSubstr("is not a regular file"));
    stdfs::remove_all(control("7"));
  }
}

TEST_F(ScrClean, AnOwnerFileOfAnotherJobIsRefused) {
  make_job("7", true);
  make_job("8", true);
  stdfs::copy_file(control("8") + "/owner.scr", control("7") + "/owner.scr",
                   stdfs::copy_options::overwrite_existing);
  const Output output = run("--job 7");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.text, HasSubstr("is that of job '8' of user 'clean_test'"));
}

TEST_F(ScrClean, DirectoriesThatOthersCanWriteAreLeftAlone) {
  make_job("7", true);
  stdfs::permissions(cache("7"), stdfs::perms(0777));
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.text, HasSubstr("can be written by others"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/scr.dataset.3/a/rank0"));
}

TEST_F(ScrClean, ADirectoryThatH5scrDidNotMakeIsLeftAlone) {
  make_private(cache("7"));
  write_text(cache("7") + "/x", "x");
  const Output output = run("--force");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.text, HasSubstr("has no owner.lock"));
  EXPECT_TRUE(stdfs::exists(cache("7") + "/x"));
}

TEST_F(ScrClean, TakesUpACleanThatWasInterruptedAnywhere) {
  for (int n = 1; n < 200; ++n) {
    make_job("7", true);
    const std::string fault = "SCR_FAULT=n=" + std::to_string(n) + ",action=kill";
    ::setenv("SCR_FAULT", fault.substr(10).c_str(), 1);
    const Output killed = run("");
    ::unsetenv("SCR_FAULT");
    EXPECT_EQ(run("").exit_code, 0) << "after a kill at operation " << n;
    EXPECT_FALSE(stdfs::exists(control("7"))) << n;
    EXPECT_FALSE(stdfs::exists(cache("7"))) << n;
    if (killed.exit_code == 0) return;
  }
  FAIL() << "it never got through";
}

TEST_F(ScrClean, AJobThatStartsAgainAfterItsDirectoryWentIsTold) {
  make_job("7", true);
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  ASSERT_EQ(run("").exit_code, 0);
  const auto held = JobOwner::hold(fs_, **directory, owner_of("7"));
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("was removed by scr_clean"));
}

TEST_F(ScrClean, ADirectoryThatSomeoneHoldsAloneIsWaitedForInVain) {
  make_job("7", true);
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  const auto taken = JobOwner::take_over(fs_, **directory);
  ASSERT_TRUE(taken.ok());
  const auto held = JobOwner::hold(fs_, **directory, owner_of("7"), std::chrono::milliseconds(50));
  EXPECT_EQ(held.status().code(), StatusCode::kUnavailable);
}

TEST_F(ScrClean, TheOwnerFileTellsHostBootAndSignsOfLife) {
  make_job("7", true);
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  JobOwnerInfo old = owner_of("7");
  old.heartbeat = 5;
  auto owner = JobOwner::hold(fs_, **directory, old);
  ASSERT_TRUE(owner.ok());
  EXPECT_EQ(read_owner_file(fs_, **directory)->heartbeat, 5);
  EXPECT_EQ(read_owner_file(fs_, **directory)->host, log::host_name());
  EXPECT_EQ(read_owner_file(fs_, **directory)->boot_id, current_boot_id(fs_));
  ASSERT_TRUE(owner->beat(fs_, **directory).ok());
  EXPECT_GT(read_owner_file(fs_, **directory)->heartbeat, 1'000'000'000);
}

// For a prefix directory whose file system has no locks.
TEST_F(ScrClean, AnotherJobThatGaveASignOfLifeLatelyIsTakenToLive) {
  make_job("7", true);
  auto directory = fs_.open_directory(control("7"));
  ASSERT_TRUE(directory.ok());
  JobOwnerInfo owner = owner_of("7");
  owner.host = "node3";
  owner.heartbeat = 10'000;
  ASSERT_TRUE(write_owner_file(fs_, **directory, owner).ok());
  JobOwnerInfo mine = owner_of("8");
  mine.heartbeat = 10'599;
  const Status refused = check_no_other_job(fs_, **directory, mine);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("in use by job 7"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a sign of life 599 s ago"));
  mine.heartbeat = 10'600;
  EXPECT_TRUE(check_no_other_job(fs_, **directory, mine).ok());
  mine = owner_of("7");  // the same job, started again
  mine.heartbeat = 10'001;
  EXPECT_TRUE(check_no_other_job(fs_, **directory, mine).ok());
  owner.heartbeat = 0;  // it said that it ended
  ASSERT_TRUE(write_owner_file(fs_, **directory, owner).ok());
  mine = owner_of("8");
  mine.heartbeat = 10'001;
  EXPECT_TRUE(check_no_other_job(fs_, **directory, mine).ok());
}

TEST_F(ScrClean, AdministratorsCleanForAllUsers) {
  if (::geteuid() != 0) {
    const Output output = run("--all-users");
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_THAT(output.text, HasSubstr("for administrators"));
    return;
  }
  make_job("7", true);
  give_away("7");
  EXPECT_THAT(run("--all-users").text, HasSubstr("belong to different users"));
  give_user_directories_away();
  EXPECT_THAT(run("").text, HasSubstr("it belongs to another user"));
  const Output output = run("--all-users");
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_FALSE(stdfs::exists(cache("7")));
}

TEST_F(ScrClean, TellsItsExitCodesAndRefusesWrongArguments) {
  const Output help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("Exit codes:"));
  EXPECT_EQ(run("--no-such-option").exit_code, 2);
  EXPECT_EQ(run("--older-than -1").exit_code, 2);
}

TEST_F(ScrClean, ABaseThatDoesNotExistHasNoJobs) {
  bases_ = "--base '" + (directory_ / "nowhere") + "' ";
  const Output output = run("");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.text, "");
}

// The samples of docs/administrators.md, as they stand there.
class CleanSamples : public ScrClean {
 protected:
  // Jobs of a user: 6 died just now, 7 also has what is nowhere else, 8 is long dead, 9 runs.
  void SetUp() override {
    for (const char* job : {"6", "7", "8", "9"}) {
      make_job(job, std::string(job) != "7");
      if (root_) give_away(job);
    }
    if (root_) give_user_directories_away();
    auto directory = fs_.open_directory(control("8"));
    ASSERT_TRUE(directory.ok());
    JobOwnerInfo info = *read_owner_file(fs_, **directory);
    info.heartbeat = std::time(nullptr) - 86400 - 60;
    ASSERT_TRUE(write_owner_file(fs_, **directory, info).ok());
    running_.emplace(*hold("9"));
    write_text(directory_ / "logger",
               "#!/bin/sh\nshift 2\n{ if [ $# -gt 0 ]; then echo \"$*\"; else cat; fi; } >> '" +
                   (directory_ / "logged") + "'\n");
    stdfs::permissions(directory_ / "logger", stdfs::perms(0755));
  }

  // The block of the page that has this comment, with the folder of this build and our logger;
  // for the own jobs only, if we may not more.
  std::string sample(const std::string& comment) {
    std::ostringstream page;
    page << std::ifstream(TEST_DATA_DIR "/../../../docs/administrators.md").rdbuf();
    const std::string text = page.str();
    const std::size_t middle = text.find("\n# " + comment + "\n");
    EXPECT_NE(middle, std::string::npos) << comment;
    if (middle == std::string::npos) return {};
    const std::size_t begin = text.rfind("```sh\n", middle) + 6;
    std::string script = text.substr(begin, text.find("```", middle) - begin);
    replace(script, "/opt/h5scr/bin", directory_.path().string() + ":" TEST_BIN_DIR);
    if (!root_) replace(script, " --all-users", "");
    return script;
  }
  static void replace(std::string& text, const std::string& part, const std::string& by) {
    const std::size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, part.size(), by);
  }

  // Runs it as Slurm does: without a search path.
  void run_sample(const std::string& comment, const std::string& variables) {
    write_text(directory_ / "sample", sample(comment));
    const Output output =
        run_shell("env -i " + variables + " SCR_USER_NAME=" + kUser + " SCR_CNTL_BASE='" +
                  (directory_ / "control") + "' SCR_CACHE_BASE='" + (directory_ / "cache") +
                  "' /bin/sh '" + (directory_ / "sample") + "'");
    EXPECT_EQ(output.exit_code, 0) << output.text;
    EXPECT_EQ(output.text, "");
  }

  std::vector<std::string> jobs_left() {
    std::vector<std::string> left;
    for (const char* job : {"6", "7", "8", "9"}) {
      EXPECT_EQ(stdfs::exists(control(job)), stdfs::exists(cache(job))) << job;
      if (stdfs::exists(cache(job) + "/scr.dataset.3/parity0")) left.emplace_back(job);
    }
    return left;
  }

  std::string logged() {
    std::ostringstream text;
    text << std::ifstream(directory_ / "logged").rdbuf();
    return text.str();
  }

 private:
  const bool root_ = ::geteuid() == 0;
  std::optional<JobOwner> running_;
};

TEST_F(CleanSamples, TheEpilogRemovesTheJobThatIsOverAndNoOther) {
  run_sample("/etc/slurm/epilog.d/50-scr", "");
  EXPECT_THAT(jobs_left(), ElementsAre("6", "7", "8", "9"));
  run_sample("/etc/slurm/epilog.d/50-scr", "SLURM_JOB_ID=7");
  EXPECT_THAT(jobs_left(), ElementsAre("6", "8", "9"));
  run_sample("/etc/slurm/epilog.d/50-scr", "SLURM_JOB_ID=9");
  EXPECT_THAT(jobs_left(), ElementsAre("6", "8", "9"));
}

TEST_F(CleanSamples, TheEpilogTellsTheSystemLogWhatItCouldNotRemove) {
  write_text(cache("7") + "/scr.dataset.3/unknown", "not ours");
  run_sample("/etc/slurm/epilog.d/50-scr", "SLURM_JOB_ID=7");
  EXPECT_THAT(logged(), AllOf(HasSubstr("job 7: exit code 3"), HasSubstr("unknown")));
}

TEST_F(CleanSamples, ThePrologRemovesEveryDeadJob) {
  run_sample("/etc/slurm/prolog.d/50-scr", "");
  EXPECT_THAT(jobs_left(), ElementsAre("9"));
  EXPECT_THAT(logged(), HasSubstr("removed job 7"));
}

TEST_F(CleanSamples, ThePrologOfASharedNodeSparesWhatMayStillBeWanted) {
  run_sample("/etc/slurm/prolog.d/50-scr, on shared nodes", "");
  EXPECT_THAT(jobs_left(), ElementsAre("6", "7", "9"));
  EXPECT_THAT(logged(), HasSubstr("removed job 8"));
}

}  // namespace
}  // namespace scr
