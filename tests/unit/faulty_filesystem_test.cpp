#include "core/base/faulty_filesystem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Faulty : public ::testing::Test {
 protected:
  std::string read(const std::string& path) {
    const auto bytes = real_.read_file(path);
    if (!bytes.ok()) return bytes.status().to_string();
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  static FaultPlan plan(std::string_view text) {
    auto parsed = FaultPlan::parse(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return parsed.ok() ? *std::move(parsed) : FaultPlan();
  }

  FileSystem& real_ = real_file_system();
  TemporaryDirectory root_;
};

// --- counting

TEST_F(Faulty, CountsEveryCallOfFileSystemAndFile) {
  FaultPlan all = plan("action=count-only");
  all.operations = FaultPlan::kAllOperations;  // the hints, too
  FaultyFileSystem fs(real_, all);
  const std::string f = root_ / "f";
  std::uint64_t expected = 0;
  const auto expect_one_more = [&](const char* what) {
    EXPECT_EQ(fs.operations(), ++expected) << what;
  };
  auto file = fs.open(f, OpenOptions::create_truncate()).value();
  expect_one_more("open");
  std::array<std::byte, 4> buffer{};
  EXPECT_TRUE(file->write_some(buffer, 0).ok());
  expect_one_more("write");
  EXPECT_TRUE(file->read_some(buffer, 0).ok());
  expect_one_more("read");
  EXPECT_TRUE(file->info().ok());
  expect_one_more("info");
  EXPECT_TRUE(file->truncate(4).ok());
  expect_one_more("truncate");
  EXPECT_TRUE(file->allocate(0, 4).ok());
  expect_one_more("allocate");
  EXPECT_TRUE(file->sync().ok());
  expect_one_more("sync");
  EXPECT_TRUE(file->set_mode(0600).ok());
  expect_one_more("chmod");
  EXPECT_TRUE(file->map(0, 4).ok());
  expect_one_more("map");
  file->start_writing(0, 4);
  expect_one_more("writeback");
  file->set_time(1'000'000'000);
  expect_one_more("utime");
  EXPECT_TRUE(file->lock(LockMode::kExclusive, false).ok());
  expect_one_more("lock");
  EXPECT_TRUE(file->unlock().ok());
  expect_one_more("unlock");
  EXPECT_TRUE(file->close().ok());
  expect_one_more("close");
  EXPECT_TRUE(fs.open_directory(root_.path()).ok());
  expect_one_more("opendir");
  EXPECT_TRUE(fs.info(f).ok());
  expect_one_more("info");
  EXPECT_TRUE(fs.make_directory(root_ / "d").ok());
  expect_one_more("mkdir");
  EXPECT_TRUE(fs.remove_directory(root_ / "d").ok());
  expect_one_more("rmdir");
  EXPECT_TRUE(fs.rename(f, root_ / "g").ok());
  expect_one_more("rename");
  EXPECT_TRUE(fs.make_symlink("g", root_ / "l").ok());
  expect_one_more("symlink");
  EXPECT_TRUE(fs.read_symlink(root_ / "l").ok());
  expect_one_more("readlink");
  EXPECT_TRUE(fs.list(root_.path()).ok());
  expect_one_more("list");
  EXPECT_TRUE(fs.sync_directory(root_.path()).ok());
  expect_one_more("syncdir");
  EXPECT_TRUE(fs.space(root_.path()).ok());
  expect_one_more("space");
  EXPECT_TRUE(fs.remove(root_ / "g").ok());
  expect_one_more("remove");
  EXPECT_EQ(fs.hits(), 0U);
  fs.reset();
  EXPECT_EQ(fs.operations(), 0U);
}

TEST_F(Faulty, CountsOnlyWhatMatchesOperationAndPath) {
  FaultyFileSystem fs(real_, plan("action=count-only,op=write|sync,path=*.xor"));
  EXPECT_TRUE(fs.write_file_atomically(root_ / "a.h5", bytes_of("x"), true).ok());
  EXPECT_EQ(fs.operations(), 0U);
  auto file = fs.open(root_ / "b.xor", OpenOptions::create_new()).value();
  EXPECT_TRUE(file->write_all(bytes_of("x"), 0).ok());
  EXPECT_TRUE(file->sync().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(fs.operations(), 2U);
}

TEST_F(Faulty, MatchesARenameByEitherPath) {
  ASSERT_TRUE(real_.write_file_atomically(root_ / "a", {}, false).ok());
  FaultyFileSystem fs(real_, plan("action=eio,op=rename,path=*.done,repeat=all"));
  EXPECT_EQ(fs.rename(root_ / "a", root_ / "b.done").errno_value(), EIO);
  EXPECT_TRUE(fs.rename(root_ / "a", root_ / "b").ok());
  EXPECT_EQ(fs.operations(), 1U);
}

TEST_F(Faulty, LeavesOutAHintThatFails) {
  FaultyFileSystem fs(real_, plan("action=eio,op=utime"));
  auto file = fs.open(root_ / "a", OpenOptions::create_new()).value();
  const std::int64_t before = file->info()->mtime_ns;
  file->set_time(1'000'000'000);
  EXPECT_EQ(file->info()->mtime_ns, before);
  file->set_time(1'000'000'000);
  EXPECT_EQ(file->info()->mtime_ns, 1'000'000'000);
  EXPECT_EQ(fs.hits(), 1U);
}

TEST_F(Faulty, CountsFromManyThreads) {
  FaultyFileSystem fs(real_, plan("action=enospc,n=1000,op=info"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) (void)fs.info(root_.path());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fs.operations(), 2000U);
  EXPECT_EQ(fs.hits(), 1U);
}

TEST_F(Faulty, LogsEachMatchingOperation) {
  const std::string log = root_ / "log";
  FaultyFileSystem fs(real_, plan("action=eio,n=2,op=mkdir|info,log=" + log));
  EXPECT_TRUE(fs.make_directory(root_ / "d").ok());
  EXPECT_FALSE(fs.info(root_ / "d").ok());
  EXPECT_TRUE(fs.remove_directory(root_ / "d").ok());
  EXPECT_EQ(read(log), "0 1 mkdir " + root_ / "d" + "\n0 2 info " + root_ / "d" + "\n");
}

// --- actions

TEST_F(Faulty, FailsOnceWithTheErrnoAskedForAndLooksReal) {
  FaultyFileSystem fs(real_, plan("n=2,op=mkdir,action=EDQUOT"));
  EXPECT_TRUE(fs.make_directory(root_ / "a").ok());
  const Status status = fs.make_directory(root_ / "b");
  EXPECT_EQ(status.code(), StatusCode::kNoSpace);
  EXPECT_EQ(status.message(), "cannot create directory '" + root_ / "b" + "': Disk quota exceeded");
  EXPECT_FALSE(real_.exists(root_ / "b").value());
  EXPECT_TRUE(fs.make_directory(root_ / "b").ok());
  EXPECT_EQ(fs.hits(), 1U);
}

TEST_F(Faulty, FailsSeveralTimesOrFromThenOn) {
  FaultyFileSystem fs(real_, plan("n=2,op=info,action=eio,repeat=2"));
  const auto outcomes = [&] {
    std::string text;
    for (int i = 0; i < 5; ++i) text += fs.info(root_.path()).ok() ? '+' : '-';
    return text;
  };
  EXPECT_EQ(outcomes(), "+--++");
  fs.reset(plan("n=2,op=info,action=eio,repeat=all"));
  EXPECT_EQ(outcomes(), "+----");
}

TEST_F(Faulty, ClosesAFileEvenWhenCloseFails) {
  FaultyFileSystem fs(real_, plan("op=close,action=eio"));
  auto file = fs.open(root_ / "f", OpenOptions::create_new()).value();
  EXPECT_EQ(file->close().errno_value(), EIO);
  EXPECT_EQ(file->descriptor(), -1);
}

TEST_F(Faulty, CutsAWriteShortAndThenTheDeviceIsFull) {
  FaultyFileSystem fs(real_, plan("n=2,op=write,action=short"));
  auto file = fs.open(root_ / "f", OpenOptions::create_new()).value();
  EXPECT_EQ(file->write_some(bytes_of("0123"), 0).value(), 4U);
  EXPECT_EQ(file->write_some(bytes_of("456789"), 4).value(), 3U);
  EXPECT_EQ(file->write_some(bytes_of("789"), 7).status().code(), StatusCode::kNoSpace);
  EXPECT_EQ(file->allocate(0, 100).code(), StatusCode::kNoSpace);
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(read(root_ / "f"), "0123456");
  auto other = fs.open(root_ / "g", OpenOptions::create_new()).value();
  EXPECT_EQ(other->write_all(bytes_of("x"), 0).code(), StatusCode::kNoSpace);
  fs.reset(plan("action=count-only"));
  EXPECT_TRUE(other->write_all(bytes_of("x"), 0).ok());
}

TEST_F(Faulty, CutsAReadShortAndThenTheFileEnds) {
  ASSERT_TRUE(real_.write_file_atomically(root_ / "f", bytes_of("0123456789"), false).ok());
  ASSERT_TRUE(real_.write_file_atomically(root_ / "g", bytes_of("0123456789"), false).ok());
  FaultyFileSystem fs(real_, plan("op=read,action=short"));
  auto file = fs.open(root_ / "f", OpenOptions::read()).value();
  std::array<std::byte, 10> buffer{};
  EXPECT_EQ(file->read(buffer, 0).value(), 5U);
  EXPECT_EQ(file->read_exactly(buffer, 0).code(), StatusCode::kCorrupt);
  EXPECT_EQ(fs.read_file(root_ / "g").value().size(), 10U);
}

int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int result = 0;
  EXPECT_EQ(::waitpid(child, &result, 0), child);
  return result;
}

TEST_F(Faulty, KillsTheProcessBeforeTheOperation) {
  const int result = status_of_child([&] {
    FaultyFileSystem fs(real_, plan("n=2,op=mkdir,action=kill"));
    (void)fs.make_directory(root_ / "a");
    (void)fs.make_directory(root_ / "b");
  });
  ASSERT_TRUE(WIFSIGNALED(result));
  EXPECT_EQ(WTERMSIG(result), SIGKILL);
  EXPECT_TRUE(real_.exists(root_ / "a").value());
  EXPECT_FALSE(real_.exists(root_ / "b").value());
}

TEST_F(Faulty, TearsAWriteAndDies) {
  const int result = status_of_child([&] {
    FaultyFileSystem fs(real_, plan("n=2,action=tear"));
    auto file = fs.open(root_ / "f", OpenOptions::create_new()).value();
    (void)file->write_all(bytes_of("0123"), 0);
    (void)file->write_all(bytes_of("456789"), 4);
  });
  ASSERT_TRUE(WIFSIGNALED(result));
  EXPECT_EQ(WTERMSIG(result), SIGKILL);
  EXPECT_EQ(read(root_ / "f"), "0123456");
}

TEST_F(Faulty, LetsFilesOutliveIt) {
  std::unique_ptr<File> file;
  {
    FaultyFileSystem fs(real_, plan("op=sync,action=eio"));
    file = fs.open(root_ / "f", OpenOptions::create_new()).value();
  }
  EXPECT_EQ(file->sync().errno_value(), EIO);
}

// --- SCR_FAULT

TEST(FaultPlanText, IsReadInFull) {
  const auto plan =
      FaultPlan::parse("n=3,op=write|sync,path=*.xor,action=enospc,rank=2,repeat=5,log=ops.log");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->n, 3U);
  EXPECT_EQ(plan->operations, FaultPlan::bit(Operation::kWrite) | FaultPlan::bit(Operation::kSync));
  EXPECT_EQ(plan->path, "*.xor");
  EXPECT_EQ(plan->action, FaultPlan::Action::kFail);
  EXPECT_EQ(plan->errno_value, ENOSPC);
  EXPECT_EQ(plan->rank, 2);
  EXPECT_EQ(plan->repeat, 5U);
  EXPECT_EQ(plan->log, "ops.log");
}

TEST(FaultPlanText, NeedsNothingButAnAction) {
  const auto plan = FaultPlan::parse("action=kill");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n, 1U);
  EXPECT_EQ(plan->repeat, 1U);
  EXPECT_EQ(plan->operations, FaultPlan::kAllOperations);
  EXPECT_FALSE(plan->rank);
}

TEST(FaultPlanText, NamesEveryOperation) {
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    const auto plan = FaultPlan::parse("action=eio,op=" + std::string(kOperationNames[i]));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->operations, 1U << i);
  }
  EXPECT_EQ(kOperationNames[static_cast<std::size_t>(Operation::kClose)], "close");
}

TEST(FaultPlanText, IsRefusedWithThePartThatIsWrong) {
  const auto message = [](std::string_view text) {
    return std::string(FaultPlan::parse(text).status().message());
  };
  EXPECT_EQ(message("n=0,action=eio"),
            "cannot understand SCR_FAULT: 'n=0': this must be a number from 1");
  EXPECT_THAT(message("action=explode"),
              HasSubstr("'action=explode': action is count-only, short"));
  EXPECT_THAT(message("action=eio,op=write|sink"),
              HasSubstr("'op=write|sink': operations are open|"));
  EXPECT_THAT(message("n=3"), HasSubstr("action=... is missing"));
  EXPECT_THAT(message(""), HasSubstr("must be KEY=VALUE"));
  EXPECT_THAT(message("action=eio,"), HasSubstr("must be KEY=VALUE"));
  EXPECT_THAT(message("action=eio,path="), HasSubstr("'path=': the value is missing"));
  EXPECT_THAT(message("action=eio,rank=-1"), HasSubstr("'rank=-1'"));
  EXPECT_THAT(message("action=eio,when=now"), HasSubstr("'when=now': keys are action, n"));
  EXPECT_THAT(message("action=tear,op=sync"), HasSubstr("action=tear with op=write"));
}

TEST(FaultPlanText, ChoosesTheRankByTheLauncher) {
  const FaultPlan plan = FaultPlan::parse("action=eio,rank=2").value();
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    ::setenv(variable, "2", 1);
    EXPECT_TRUE(plan.applies_to_this_rank()) << variable;
    ::setenv(variable, "12", 1);
    EXPECT_FALSE(plan.applies_to_this_rank()) << variable;
    ::unsetenv(variable);
  }
  EXPECT_FALSE(plan.applies_to_this_rank());
  EXPECT_TRUE(FaultPlan::parse("action=eio,rank=0").value().applies_to_this_rank());
}

// Each child asks for file_system() for the first time, which no test of this program does itself.
TEST(ProcessWideFileSystem, IsFaultyIfScrFaultSaysSo) {
  const int result = status_of_child([] {
    ::setenv("SCR_FAULT", "action=enomem,op=info,n=2", 1);
    const bool first = file_system().info("/").ok();
    const Status second = file_system().info("/").status();
    ::_exit(first && second.errno_value() == ENOMEM ? 7 : 1);
  });
  ASSERT_TRUE(WIFEXITED(result));
  EXPECT_EQ(WEXITSTATUS(result), 7);
}

TEST(ProcessWideFileSystem, IsTheRealOneOtherwise) {
  const int result = status_of_child([] {
    ::unsetenv("SCR_FAULT");
    ::_exit(&file_system() == &real_file_system() ? 7 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(result), 7);
  const int other_rank = status_of_child([] {
    ::setenv("SCR_FAULT", "action=eio,rank=1", 1);
    ::_exit(&file_system() == &real_file_system() ? 7 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(other_rank), 7);
}

TEST(ProcessWideFileSystemDeathTest, EndsTheProgramIfScrFaultIsWrong) {
  const auto use = [](const char* fault) {
    ::setenv("SCR_FAULT", fault, 1);
    (void)file_system().info("/");
    std::_Exit(0);
  };
  EXPECT_EXIT(use("action=oops"), ::testing::ExitedWithCode(2),
              "SCR: cannot understand SCR_FAULT: 'action=oops'");
  EXPECT_EXIT(use("action=eio,log=/no/such/directory/log"), ::testing::ExitedWithCode(2),
              "SCR: cannot open the log of SCR_FAULT '/no/such/directory/log': No such file");
}

}  // namespace
}  // namespace scr
