// Which checkpoint a run begins with when cache and prefix directory have several, what leaves the
// cache for what, and what datasets that go past the cache have in common with others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/halt_file.hpp"
#include "core/runtime/room.hpp"
#include "flush/containers.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::HasSubstr;

using testing::Runs;

const std::vector<std::string> kBypass = {"SCR_CACHE_BYPASS=1"};
const std::vector<std::string> kFlushAll = {"SCR_FLUSH=1", "SCR_CACHE_SIZE=2"};

TEST(CacheOfOneDataset, KeepsTheNewestCheckpointWhenOutputIsWritten) {
  Runs job;
  job.run({"SCR_CACHE_SIZE=1"}, [&](Runtime& runtime) {
    job.write(runtime, "checkpoint");
    job.write(runtime, "plot", kFlagOutput);
    job.write(runtime, "plot2", kFlagOutput);
  });
  job.expect_restart("checkpoint");
  job.run({"SCR_CACHE_SIZE=1"}, [&](Runtime& runtime) {
    job.write(runtime, "newer");
    EXPECT_EQ(runtime.cached().size(), 1U);
  });
  job.expect_restart("newer");
}

TEST(RestartChoice, ANewerCheckpointInThePrefixDirectoryWinsOverTheCache) {
  Runs job;
  job.write("first");
  job.write("second", kBypass);
  job.expect_restart("second");
  job.expect_restart("second", {"SCR_FETCH_BYPASS=1"});
}

TEST(RestartChoice, ANewerCheckpointInTheCacheWinsOverThePrefixDirectory) {
  Runs job;
  job.write("first", kFlushAll);
  job.write("second");
  job.expect_restart("second");
}

TEST(RestartChoice, WithoutFetchTheCacheAloneCountsAndTheUserIsToldOfWhatIsNewer) {
  Runs job;
  job.write("first");
  job.write("second", kBypass);
  ::testing::internal::CaptureStderr();
  job.expect_restart("first", {"SCR_FETCH=0"});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("('second') in '"));
  job.write("third", {"SCR_FETCH=0"});
  ::testing::internal::CaptureStderr();
  job.expect_restart("third", {"SCR_FETCH=0"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("SCR_FETCH=0"), std::string::npos);
}

TEST(RestartChoice, WhatAUserMadeCurrentWinsUntilANewerOneIsWritten) {
  Runs job;
  job.write("first", kFlushAll);
  job.write("second", kFlushAll);
  job.expect_restart("second");
  job.run({}, [](Runtime& runtime) { EXPECT_TRUE(runtime.set_current("first").ok()); });
  job.expect_restart("first");
  job.expect_restart("first", {"SCR_CACHE_SIZE=2"});
  job.write("third");
  job.expect_restart("third");
}

TEST(RestartChoice, WhatIsFlushedAfterAChoiceOfTheUserButWasWrittenBeforeLeavesItAlone) {
  Runs job;
  job.run({"SCR_FLUSH=2", "SCR_CACHE_SIZE=3"}, [&](Runtime& runtime) {
    for (const char* name : {"first", "second", "third"}) job.write(runtime, name);
    EXPECT_TRUE(runtime.set_current("second").ok());
    EXPECT_TRUE(runtime.finalize().ok());
  });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("third", "second"));
  job.expect_restart("second", {"SCR_CACHE_SIZE=3"});
  job.expect_restart("second", {"SCR_CACHE_PURGE=1"});
  job.write("fourth", kFlushAll);
  job.expect_restart("fourth", {"SCR_CACHE_PURGE=1"});
}

TEST(RestartChoice, WhatIsOnlyInTheCacheIsFlushedToBecomeCurrent) {
  Runs job;
  job.run({"SCR_CACHE_SIZE=3"}, [&](Runtime& runtime) {
    for (const char* name : {"first", "second"}) job.write(runtime, name);
    EXPECT_TRUE(runtime.set_current("first").ok());
  });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("first"));
  job.expect_restart("first", {"SCR_CACHE_PURGE=1"});
}

TEST(RestartChoice, AnOutputDoesNotBecomeCurrent) {
  Runs job;
  job.run(kFlushAll, [&](Runtime& runtime) {
    job.write(runtime, "first");
    job.write(runtime, "plot", kFlagOutput);
    const Status status = runtime.set_current("plot");
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is no checkpoint"));
  });
  job.expect_restart("first", {"SCR_CACHE_PURGE=1"});
}

TEST(RestartChoice, ScrCurrentNamesTheOneToRestartFrom) {
  Runs job;
  job.write("first", kFlushAll);
  job.write("second", kFlushAll);
  job.expect_restart("first", {"SCR_CURRENT=first"});
  job.expect_restart("second", {"SCR_CURRENT=second"});
}

// What scr_run says by SCR_RUN_AGAIN; the variable SCR_CURRENT it takes back itself.
TEST(RestartChoice, ScrCurrentInAFileIsForTheFirstRunOfAJob) {
  ::scr::testing::TemporaryDirectory directory;
  std::ofstream(directory / "conf") << "SCR_CURRENT=first\n";
  Runs job;
  job.write("first", kFlushAll);
  job.write("second", kFlushAll);
  ::setenv("SCR_CONF_FILE", (directory / "conf").c_str(), 1);
  job.expect_restart("first", kFlushAll);
  job.write("third", kFlushAll);
  ::setenv("SCR_RUN_AGAIN", "1", 1);
  job.expect_restart("third", kFlushAll);
  ::unsetenv("SCR_CONF_FILE");
  job.expect_restart("first", {"SCR_CURRENT=first"});  // what the program itself asks for
  ::unsetenv("SCR_RUN_AGAIN");
}

TEST(RestartChoice, WhatTheProgramCannotReadGivesWayToAnOlderOne) {
  Runs job;
  job.write("first", {"SCR_FLUSH=1"});
  job.write("second", {"SCR_FLUSH=1"});
  job.run({}, [&](Runtime& runtime) {
    EXPECT_EQ(job.start_restart(runtime), "second");
    EXPECT_FALSE(runtime.complete_restart(runtime.context().rank() != 1).ok());
    EXPECT_EQ(job.restart(runtime), "first");
    EXPECT_EQ(job.start_restart(runtime), "first");
    EXPECT_FALSE(runtime.complete_restart(false).ok());
    EXPECT_EQ(job.restart(runtime), "");
  });
}

TEST(CallsDuringARestart, MustNotChangeWhatItReads) {
  Runs job;
  job.write("first");
  job.run({}, [&](Runtime& runtime) {
    ASSERT_TRUE(runtime.start_restart().ok());
    for (const Status& status :
         {runtime.remove("first"), runtime.drop("first"), runtime.set_current("first")}) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("during a restart"));
    }
    EXPECT_TRUE(runtime.complete_restart(true).ok());
  });
  job.expect_restart("first");
}

TEST(DatasetsByName, AreDroppedAndDeleted) {
  Runs job;
  for (const char* name : {"first", "second", "third"}) job.write(name, kFlushAll);
  job.run(kFlushAll, [](Runtime& runtime) { EXPECT_TRUE(runtime.drop("third").ok()); });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("second", "first"));
  EXPECT_TRUE(std::filesystem::exists(job.prefix() + "/deep/third/data.0"));
  job.run(kFlushAll, [](Runtime& runtime) { EXPECT_TRUE(runtime.remove("second").ok()); });
  EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/deep/second/data.0"));
  job.expect_restart("first");
}

// One dataset in cache and index, and not one in each.
TEST(DatasetsByName, OfANameThatWasUsedSeveralTimesTheNewestIsMeant) {
  for (const bool deletes : {false, true}) {
    Runs job;
    job.run({"SCR_FLUSH=2", "SCR_CACHE_SIZE=3", "SCR_USE_CONTAINERS=1"}, [&](Runtime& runtime) {
      for (int i = 0; i < 3; ++i) job.write(runtime, "same");
      const auto take_away = [&] {
        return deletes ? runtime.remove("same") : runtime.drop("same");
      };
      const auto cached = [&] {
        std::vector<int> ids;
        for (const CachedDataset& one : runtime.cached()) ids.push_back(one.dataset.id);
        return ids;
      };
      EXPECT_TRUE(take_away().ok());
      EXPECT_THAT(cached(), ::testing::ElementsAre(1, 2));
      EXPECT_EQ(job.names_in_index().size(), 1U);
      EXPECT_TRUE(runtime.is_in_prefix(2));
      runtime.context().world().barrier();
      EXPECT_TRUE(take_away().ok());
      EXPECT_THAT(cached(), ::testing::ElementsAre(1));
      EXPECT_EQ(job.names_in_index().size(), 0U);
      EXPECT_TRUE(runtime.set_current("same").ok());
    });
    EXPECT_EQ(job.names_in_index().size(), 1U);
    job.expect_restart("same", {"SCR_CACHE_PURGE=1"});
  }
}

TEST(DatasetsByName, NewerOnesGoIfAsked) {
  Runs job;
  for (const char* name : {"first", "second"}) job.write(name, kFlushAll);
  job.run({"SCR_DROP_AFTER_CURRENT=1", "SCR_CACHE_SIZE=2"},
          [](Runtime& runtime) { EXPECT_TRUE(runtime.set_current("first").ok()); });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("first"));
  job.expect_restart("first");
}

TEST(BypassedDataset, CountsForHaltConditions) {
  Runs job;
  job.run({"SCR_CACHE_BYPASS=1", "SCR_HALT_EXIT=1"}, [&](Runtime& runtime) {
    if (runtime.context().rank() == 0) {
      ASSERT_TRUE(update_halt_file(real_file_system(), job.prefix() + "/.scr/halt.scr",
                                   [](HaltConditions& halt) { halt.checkpoints_left = 2; })
                      .ok());
    }
    job.write(runtime, "first");
    EXPECT_FALSE(runtime.must_exit());
    job.write(runtime, "second");
    EXPECT_TRUE(runtime.must_exit());
  });
}

TEST(EndOfTheJob, OfAnEarlierJobDoesNotHaltTheNext) {
  Runs job;
  const auto ends_in = [](std::int64_t seconds) {
    return fmt::format("SCR_END_TIME={}", std::time(nullptr) + seconds);
  };
  const auto halts = [](Runtime& runtime, bool expected) {
    const auto asked = runtime.should_exit();
    ASSERT_TRUE(asked.ok());
    EXPECT_EQ(*asked, expected);
  };
  job.run({ends_in(5000), "SCR_HALT_SECONDS=100000"}, [&](Runtime& run) { halts(run, true); });
  EXPECT_EQ(*read_halt_file(real_file_system(), job.prefix() + "/.scr/halt.scr"), HaltConditions());
  job.run({ends_in(90000)}, [&](Runtime& run) { halts(run, false); });
  job.run({ends_in(90000), "SCR_HALT_SECONDS=1000"}, [&](Runtime& run) { halts(run, false); });
  job.run({}, [&](Runtime& run) { halts(run, false); });
}

// It is dropped, or its run is killed: neither leaves files there, nor keeps the next run from
// starting.
TEST(BypassedDataset, IsRemovedAlsoBelowSymbolicLinks) {
  Runs job;
  const std::filesystem::path root(job.root());
  for (const char* name : {"real", "scratch"}) std::filesystem::create_directory(root / name);
  std::filesystem::create_directory_symlink(root / "real", root / "link");
  std::filesystem::create_directory_symlink(root / "scratch", root / "real/out");
  job.move_to("link");
  const auto begin = [&](Runtime& runtime) {
    ASSERT_TRUE(runtime.start_dataset("second", kFlagCheckpoint).ok());
    for (const char* name : {"data", "out/data"}) {
      const auto path =
          runtime.route_file(fmt::format("{}/{}.{}", job.prefix(), name, runtime.context().rank()));
      ASSERT_TRUE(path.ok()) << path.status().to_string();
      std::ofstream(*path) << "second";
    }
  };
  const std::vector<std::string> settings = {"SCR_CACHE_BYPASS=1"};
  job.run(settings, [&](Runtime& runtime) {
    job.write(runtime, "first");
    begin(runtime);
    EXPECT_FALSE(runtime.complete_dataset(false).ok());
    begin(runtime);
  });
  job.expect_restart("first", settings);
  for (const char* name : {"real", "scratch"}) {
    for (const auto& entry : std::filesystem::directory_iterator(root / name))
      EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
  }
}

TEST(BypassedDataset, CountsForTheSizeOfThePrefixDirectory) {
  Runs job;
  job.run({"SCR_CACHE_BYPASS=1", "SCR_PREFIX_SIZE=2"}, [&](Runtime& runtime) {
    for (const char* name : {"first", "second", "third"}) job.write(runtime, name);
  });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("third", "second"));
  job.expect_restart("third");
}

TEST(SizeOfThePrefixDirectory, DoesNotCountWhatIsKnownToBeDamaged) {
  Runs job;
  const auto write = [&](const char* name) {
    job.write(name, {"SCR_FLUSH=1", "SCR_PREFIX_SIZE=2"});
  };
  write("first");
  write("second");
  ASSERT_TRUE(flush::update_index(real_file_system(), job.prefix(), [](flush::Index& index) {
                index.find_name("second")->failed.push_back(flush::timestamp_now());
                return Status();
              }).ok());
  write("third");
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("third", "second", "first"));
  write("fourth");
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("fourth", "third"));
}

// A node is out, so the cached copy cannot be used in this run, and that in the prefix directory is
// damaged: with the node back, the first is whole.
TEST(RemainsInTheCache, StayUntilTheCopyInThePrefixDirectoryIsKnownToBeSound) {
  for (const bool contained : {false, true}) {
    Runs job;
    const std::string containers = fmt::format("SCR_USE_CONTAINERS={}", contained ? 1 : 0);
    job.write("first", {"SCR_FLUSH=1", containers});
    const std::string away = job.root() + "/away";
    const std::filesystem::path cached = job.cached_file("first", 1);
    std::filesystem::rename(cached, away);
    const std::string flushed =
        contained ? job.prefix() + "/.scr/scr.dataset.1/" + flush::container_name(0)
                  : job.prefix() + "/deep/first/data.0";
    std::fstream(flushed, std::ios::in | std::ios::out) << "X";
    job.expect_restart("", {containers});
    ASSERT_FALSE(job.cached_file("first", 0).empty());
    std::filesystem::create_directories(cached.parent_path());
    std::filesystem::rename(away, cached);
    job.expect_restart("first", {containers});
  }
}

TEST(RemainsInTheCache, MakeWayForASoundCopy) {
  Runs job;
  job.write("first", {"SCR_FLUSH=1"});
  std::filesystem::remove(job.cached_file("first", 1));
  job.expect_restart("first");
  EXPECT_FALSE(job.cached_file("first", 1).empty());
}

// Another allocation has given the same id to its first checkpoint.
class TheSameIdTwice : public ::testing::TestWithParam<bool> {};

TEST_P(TheSameIdTwice, CostsNoOutputThatIsOnlyInTheCache) {
  const bool contained = GetParam();
  Runs job;
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = job.prefix() + "/deep/*";
  FaultyFileSystem full(real_file_system(), plan);
  job.fs = &full;
  job.run({}, [&](Runtime& runtime) { job.write(runtime, "plot", kFlagOutput); });
  job.fs = &real_file_system();
  ASSERT_EQ(job.names_in_index().size(), 0U);
  job.write("other", {"SCR_JOB_ID=8", "SCR_FLUSH=1",
                      fmt::format("SCR_USE_CONTAINERS={}", contained ? 1 : 0)});
  job.run({}, [&](Runtime& runtime) {
    // Plain files can be read where they are.
    EXPECT_EQ(job.restart(runtime), contained ? "" : "other");
    EXPECT_TRUE(runtime.flush_wait("plot").ok());
  });
  EXPECT_EQ(job.flushed_text("plot", 1), "plot of rank 1");
  EXPECT_THAT(job.names_in_index(), ::testing::UnorderedElementsAre("plot", "other"));
  // Now that it is there, too, it makes way.
  job.expect_restart("other");
}

INSTANTIATE_TEST_SUITE_P(OfAnotherJob, TheSameIdTwice, ::testing::Bool(),
                         [](const auto& contained) {
                           return contained.param ? "InContainers" : "InPlainFiles";
                         });

// Killed when the summary is there and the first file is about to get its name. The next process
// does not clean up, because another one works in the prefix directory.
TEST(BypassedDataset, ThatWasCommittedIsEndedByTheNextProcessAlone) {
  for (const char* purge : {"SCR_CACHE_PURGE=0", "SCR_CACHE_PURGE=1"}) {
    Runs job;
    const auto neighbour = job.start_alone();
    const pid_t child = fork();
    if (child == 0) {
      FaultPlan plan = FaultPlan::kill_at(1);
      plan.operations = FaultPlan::bit(Operation::kRename);
      plan.path = job.prefix() + "/deep/*";
      FaultyFileSystem faulty(real_file_system(), plan);
      job.fs = &faulty;
      const auto killed = job.start_alone(kBypass);
      job.write(*killed, "first");
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(job.names_in_index().size(), 0U);
    const auto next = job.start_alone({purge});
    EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("first"));
    EXPECT_EQ(job.flushed_text("first", 0), "first of rank 0");
  }
}

// From the summary on, nothing can be renamed, and no summary read.
class BreaksAtTheSummary : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    if (broken_ && at.path.ends_with("/summary.scr")) return error(at);
    return ForwardingFileSystem::open(at, options);
  }
  Status rename(const At& from, const At& to, bool exclusive) override {
    if (broken_ && to.path.find("/deep/") != std::string::npos) return error(to);
    if (to.path.ends_with("summary.scr")) broken_ = true;
    return ForwardingFileSystem::rename(from, to, exclusive);
  }

 private:
  static Status error(const At& at) { return errno_status(EIO, "reach", at.display()); }
  std::atomic<bool> broken_ = false;
};

TEST(BypassedDataset, IsNotDeletedIfNobodyCanSayWhetherItIsCommitted) {
  Runs job;
  BreaksAtTheSummary fs;
  job.fs = &fs;
  job.run(kBypass, [&](Runtime& runtime) {
    ASSERT_TRUE(runtime.start_dataset("first", kFlagCheckpoint).ok());
    const int rank = runtime.context().rank();
    const auto path = runtime.route_file(fmt::format("{}/deep/first/data.{}", job.prefix(), rank));
    ASSERT_TRUE(path.ok());
    std::ofstream(*path) << "first of rank " << rank;
    EXPECT_EQ(runtime.complete_dataset(true).code(), StatusCode::kIoError);
  });
  job.fs = &real_file_system();
  job.expect_restart("first");
}

TEST(MemoryLeft, CountsWhatTheKernelWouldTakeBack) {
  ::scr::testing::TemporaryDirectory root;
  std::filesystem::create_directories(root / "job/step");
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(root / name) << text;
  };
  put("self", "12:cpu:/other\n0::/job/step\n");
  put("job/memory.max", "max\n");
  put("job/memory.current", "999\n");
  put("job/step/memory.max", "1000\n");
  put("job/step/memory.current", "900\n");
  EXPECT_EQ(memory_left(real_file_system(), root.path(), root / "self"), 100U);
  put("job/step/memory.stat", "anon 500\nfile 400\ninactive_file 200\nactive_file 50\n");
  EXPECT_EQ(memory_left(real_file_system(), root.path(), root / "self"), 350U);
  put("job/memory.max", "1100\n");
  EXPECT_EQ(memory_left(real_file_system(), root.path(), root / "self"), 101U);
  put("self", "no such line\n");
  EXPECT_EQ(memory_left(real_file_system(), root.path(), root / "self"), std::nullopt);
}

}  // namespace
}  // namespace scr
