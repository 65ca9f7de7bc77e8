// scr_transfer as a launcher runs it: on the control directory of a job, with and without the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>  // kill
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "core/base/checksum.hpp"
#include "core/base/job_owner.hpp"
#include "flush/clean_up.hpp"
#include "flush/intent.hpp"
#include "flush/transfer_client.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

namespace stdfs = std::filesystem;
using scr::testing::TemporaryDirectory;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};

class ScrTransfer : public ::testing::Test {
 protected:
  ScrTransfer() {
    for (const std::string& base : {std::string("control"), std::string("cache")}) {
      stdfs::create_directories(directory_ / (base + "/me/scr.1"));
      for (const char* part : {"/me", "/me/scr.1"})
        stdfs::permissions(directory_ / (base + part), stdfs::perms(0700));
    }
    control_ = *fs_.open_directory(directory_ / "control/me/scr.1");
    dataset_.id = 5;
    dataset_.name = "five";
    dataset_.created = 77;
    dataset_.ranks = 1;
    stdfs::create_directories(directory_ / "prefix/.scr/scr.dataset.5");
    EXPECT_TRUE(write_intent(fs_, directory_ / "prefix/.scr/scr.dataset.5",
                             {.dataset = dataset_, .layout = "FILES", .superseded = {}},
                             Durability::kDurable)
                    .ok());
    JobOwnerInfo owner;
    owner.user = "me";
    owner.job_id = "1";
    owner.prefix = directory_ / "prefix";
    EXPECT_TRUE(
        JobOwner::hold(fs_, *control_, owner).ok());  // a process of the job was here, and died
  }
  ~ScrTransfer() override {
    if (daemon_ > 0) end(SIGKILL);
  }

  // A file in the cache and its way to the prefix directory.
  TransferTask task(const std::string& name, std::size_t size, const std::string& destination) {
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 7 + i / 251);
    std::ofstream(cache(name)) << data;
    const std::uint32_t crc = crc32(std::as_bytes(std::span(data)));
    return {{cache(name), size, crc, {{destination, 0, size, 0}}}, 0};
  }
  std::string cache(const std::string& name) { return directory_ / ("cache/me/scr.1/" + name); }
  std::string prefix(const std::string& name) { return directory_ / ("prefix/" + name); }

  Transfer transfer(std::vector<TransferTask> tasks, double bytes_per_second = 0) {
    Transfer result;
    result.dataset = dataset_.id;
    result.created = dataset_.created;
    result.bytes_per_second = bytes_per_second;
    result.mode = 0640;
    result.tasks = std::move(tasks);
    return result;
  }
  std::string submit(Transfer what) {
    std::string key = what.key();
    EXPECT_TRUE(TransferClient(fs_, *control_).submit(std::move(what)).ok());
    return key;
  }

  void start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {TEST_BIN_DIR "/scr_transfer", control_->path(), "--poll", "0.05"});
    daemon_ = ::fork();
    if (daemon_ != 0) return;
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int wait_for_end() {
    int status = 0;
    ::waitpid(daemon_, &status, 0);
    daemon_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int end(int signal) {
    ::kill(daemon_, signal);
    return wait_for_end();
  }
  int run_once() {
    start({"--once"});
    return wait_for_end();
  }
  bool wait_until(const std::function<bool()>& condition) {
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  Transfer look(const std::string& key) {
    bool served = false;
    auto found = TransferClient(fs_, *control_).look(key, served);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : Transfer();
  }
  TransferFile file() {
    auto found = read_transfer_file(fs_, *control_);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : TransferFile();
  }
  void expect_copied(const std::string& from, const std::string& to) {
    const auto a = fs_.read_file(from);
    const auto b = fs_.read_file(to);
    ASSERT_TRUE(a.ok() && b.ok()) << from << " " << to;
    EXPECT_TRUE(*a == *b) << to << " has other bytes";
  }
  void expect_refused(const TransferTask& what, const std::string& why) {
    const std::string key = submit(transfer({what}));
    EXPECT_EQ(run_once(), 0);
    EXPECT_FALSE(look(key).done);
    EXPECT_THAT(look(key).error, HasSubstr(why));
  }

  FileSystem& fs_ = real_file_system();
  TemporaryDirectory directory_;
  std::unique_ptr<Directory> control_;
  DatasetDescriptor dataset_;
  pid_t daemon_ = 0;
};

TEST_F(ScrTransfer, CopiesFilesAndPiecesAndSaysSo) {
  TransferTask pieces = task("b", 3000, prefix(".scr/scr.dataset.5/c0"));
  pieces.copy.pieces = {{prefix(".scr/scr.dataset.5/c0"), 500, 1000, 0},
                        {prefix(".scr/scr.dataset.5/c1"), 0, 2000, 0}};
  const std::string key = submit(
      transfer({task("a", 2500000, prefix(".a.tmp")), pieces, task("e", 0, prefix(".e.tmp"))}));
  EXPECT_EQ(run_once(), 0);
  const Transfer done = look(key);
  EXPECT_TRUE(done.done) << done.error;
  EXPECT_EQ(done.written(), 2503000U);
  EXPECT_EQ(file().state, TransferState::kStopped);
  expect_copied(cache("a"), prefix(".a.tmp"));
  expect_copied(cache("e"), prefix(".e.tmp"));
  EXPECT_EQ(stdfs::file_size(prefix(".scr/scr.dataset.5/c0")), 1500U);
  EXPECT_EQ(stdfs::file_size(prefix(".scr/scr.dataset.5/c1")), 2000U);
  const auto& copied = done.tasks[1].copy;
  EXPECT_EQ(crc32_combine(copied.pieces[0].crc, copied.pieces[1].crc, 2000), copied.crc);
  EXPECT_EQ(stdfs::status(prefix(".a.tmp")).permissions(), stdfs::perms(0640))
      << "the program's mode, not the daemon's";
}

TEST_F(ScrTransfer, DoesNothingWithoutTheCommandToRun) {
  const std::string key = submit(transfer({task("a", 10, prefix(".a.tmp"))}));
  ASSERT_TRUE(update_transfer_file(fs_, *control_, [](TransferFile& file) {
                file.command = TransferCommand::kStop;
                return true;
              }).ok());
  EXPECT_EQ(run_once(), 0);
  EXPECT_TRUE(look(key).pending());
  EXPECT_FALSE(stdfs::exists(prefix(".a.tmp")));
}

// A run on other nodes cannot reach this daemon's control directory, but it takes up the flush.
TEST_F(ScrTransfer, DoesNotCopyForAFlushThatAnotherRunHasTakenUp) {
  const std::string key = submit(transfer({task("a", 10, prefix(".a.tmp"))}));
  const std::string directory = directory_ / "prefix/.scr/scr.dataset.5";
  ASSERT_TRUE(take_up(fs_, directory_ / "prefix", "scr.dataset.5", "FILES").ok());
  EXPECT_EQ(run_once(), 0);
  EXPECT_THAT(look(key).error, HasSubstr("another run has taken up the flush of dataset 5"));
  EXPECT_FALSE(stdfs::exists(prefix(".a.tmp")));
}

TEST_F(ScrTransfer, StopsWhenAnotherRunTakesUpTheFlushMeanwhile) {
  const std::string key = submit(
      transfer({task("a", 1000000, prefix(".a.tmp")), task("b", 1000000, prefix(".b.tmp"))}, 5e5));
  start({});
  ASSERT_TRUE(wait_until([&] { return stdfs::exists(prefix(".a.tmp")); }));
  ASSERT_TRUE(take_up(fs_, directory_ / "prefix", "scr.dataset.5", "FILES").ok());
  ASSERT_TRUE(wait_until([&] { return file().state == TransferState::kStopped; }));
  EXPECT_FALSE(look(key).done);
  EXPECT_FALSE(stdfs::exists(prefix(".b.tmp")));
  EXPECT_EQ(end(SIGTERM), 0);
}

// scr_clean takes the owner's lock for a moment, to see whether anybody has it.
TEST_F(ScrTransfer, WaitsForSomebodyWhoOnlyAsksWhetherTheJobLives) {
  auto asking = JobOwner::take_over(fs_, *control_);
  ASSERT_TRUE(asking.ok()) << asking.status().message();
  const std::string key = submit(transfer({task("a", 10, prefix(".a.tmp"))}));
  start({"--once"});
  ASSERT_TRUE(wait_until([&] { return file().state == TransferState::kRunning; }));
  { const auto gone = std::move(asking); }
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(look(key).done) << look(key).error;
}

TEST_F(ScrTransfer, KeepsBelowTheBandwidth) {
  const std::string key = submit(transfer({task("a", 4000000, prefix(".a.tmp"))}, 4e6));
  const auto start = Clock::now();
  EXPECT_EQ(run_once(), 0);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(950));
  EXPECT_TRUE(look(key).done);
}

TEST_F(ScrTransfer, RefusesDestinationsOutsideThePrefix) {
  stdfs::create_directories(directory_ / "elsewhere");
  expect_refused(task("a", 10, directory_ / "elsewhere/a"), "is not below the prefix directory");
  expect_refused(task("a", 10, directory_ / "prefix2"), "is not below the prefix directory");
  stdfs::create_directory_symlink(directory_ / "elsewhere", prefix("link"));
  expect_refused(task("a", 10, prefix("link/a")), "link/a");
  stdfs::create_symlink(directory_ / "elsewhere/a", prefix("link2"));
  expect_refused(task("a", 10, prefix("link2")), "is not a regular file");
  ASSERT_EQ(::mkfifo(prefix("pipe").c_str(), 0600), 0);
  expect_refused(task("a", 10, prefix("pipe")), "is not a regular file");
  EXPECT_TRUE(stdfs::is_empty(directory_ / "elsewhere"));
}

TEST_F(ScrTransfer, RefusesSourcesThatAreNotInACacheOfTheJob) {
  TransferTask secret = task("a", 10, prefix(".a.tmp"));
  stdfs::create_directories(directory_ / "other/me/scr.2");
  stdfs::copy(cache("a"), directory_ / "other/me/scr.2/a");
  secret.copy.source = directory_ / "other/me/scr.2/a";
  expect_refused(secret, "is not below a '*/me/scr.1'");
  stdfs::create_symlink(directory_ / "other/me/scr.2/a", cache("link"));
  secret.copy.source = cache("link");
  expect_refused(secret, "is not a regular file");
  stdfs::permissions(directory_ / "cache/me/scr.1", stdfs::perms(0777));
  secret.copy.source = cache("a");
  expect_refused(secret, "others can write to it");
  EXPECT_FALSE(stdfs::exists(prefix(".a.tmp")));
}

TEST_F(ScrTransfer, RefusesADatasetOfWhichNoFlushIsUnderWay) {
  Transfer over = transfer({task("a", 10, prefix(".a.tmp"))});
  over.created = 78;
  const std::string key = submit(over);
  EXPECT_EQ(run_once(), 0);
  EXPECT_THAT(look(key).error, HasSubstr("no flush of dataset 5 is under way"));
  EXPECT_FALSE(stdfs::exists(prefix(".a.tmp")));
}

TEST_F(ScrTransfer, ReportsASourceWithWrongBytes) {
  TransferTask damaged = task("a", 1000, prefix(".a.tmp"));
  damaged.copy.crc ^= 1;
  expect_refused(damaged, "has the checksum");
}

TEST_F(ScrTransfer, SurvivesAKillAndResumes) {
  std::vector<TransferTask> tasks;
  for (int i = 0; i < 6; ++i)
    tasks.push_back(task("a" + std::to_string(i), 1000000, prefix("a" + std::to_string(i))));
  const std::string key = submit(transfer(tasks, 2e6));
  start({});
  ASSERT_TRUE(wait_until([&] { return look(key).written() >= 1000000; })) << "WRITTEN never grew";
  end(SIGKILL);
  EXPECT_EQ(file().state, TransferState::kRunning) << "it could not say that it stopped";
  EXPECT_TRUE(look(key).pending());
  const auto first = fs_.info(prefix("a0"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(run_once(), 0);
  EXPECT_TRUE(look(key).done);
  EXPECT_EQ(file().state, TransferState::kStopped);
  for (int i = 0; i < 6; ++i)
    expect_copied(cache("a" + std::to_string(i)), prefix("a" + std::to_string(i)));
  EXPECT_EQ(fs_.info(prefix("a0"))->mtime_ns, first->mtime_ns)
      << "what was there was not written again";
}

TEST_F(ScrTransfer, EndsCleanlyOnSigterm) {
  const std::string key = submit(transfer({task("a", 3000000, prefix(".a.tmp"))}, 5e5));
  start({});
  ASSERT_TRUE(wait_until([&] { return file().state == TransferState::kRunning; }));
  const auto start = Clock::now();
  EXPECT_EQ(end(SIGTERM), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4))
      << "it did not wait for the end of the file";
  EXPECT_EQ(file().state, TransferState::kStopped);
  EXPECT_TRUE(look(key).pending()) << "left for the next daemon";
}

TEST_F(ScrTransfer, StopsForARunThatTakesOver) {
  submit(transfer({task("a", 3000000, prefix(".a.tmp"))}, 5e5));
  start({});
  ASSERT_TRUE(wait_until([&] { return file().state == TransferState::kRunning; }));
  EXPECT_TRUE(TransferClient(fs_, *control_).take_over().ok());
  EXPECT_EQ(file().state, TransferState::kStopped);
  const std::string key = submit(transfer({task("b", 10, prefix(".b.tmp"))}));
  EXPECT_TRUE(wait_until([&] { return look(key).done; })) << "and works for the new run";
}

TEST_F(ScrTransfer, OnlyOneWorksForAControlDirectory) {
  start({});
  ASSERT_TRUE(wait_until([&] { return TransferClient(fs_, *control_).daemon_lives(); }));
  const pid_t first = std::exchange(daemon_, 0);
  EXPECT_EQ(run_once(), 3);
  daemon_ = first;
  EXPECT_EQ(end(SIGTERM), 0);
}

TEST_F(ScrTransfer, ObeysTheExitCommandOnce) {
  start({});
  ASSERT_TRUE(wait_until([&] { return TransferClient(fs_, *control_).daemon_lives(); }));
  const pid_t first = std::exchange(daemon_, 0);
  start({"--send", "EXIT"});
  EXPECT_EQ(wait_for_end(), 0);
  daemon_ = first;
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_EQ(file().command, TransferCommand::kStop);
}

TEST_F(ScrTransfer, EndsWhenIdleAndWhenItsDirectoryGoes) {
  start({"--idle-exit", "0.2"});
  EXPECT_EQ(wait_for_end(), 0);
  start({});
  ASSERT_TRUE(wait_until([&] { return TransferClient(fs_, *control_).daemon_lives(); }));
  stdfs::remove_all(control_->path());
  EXPECT_EQ(wait_for_end(), 0);
}

}  // namespace
}  // namespace scr::flush
