// Which checkpoint a run begins with when cache and prefix directory have several, what leaves the
// cache for what, and what datasets that go past the cache have in common with others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/halt_file.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/runtime/room.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/index.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 2;

// Runs of a job on one node, without redundancy.
class Runs {
 public:
  Runs() {
    for (const char* name : {"prefix", "control", "cache"}) {
      std::filesystem::create_directory(root_ / name);
    }
  }

  std::string prefix() const { return root_ / "prefix"; }

  // One run of the program `body`.
  void run(const std::vector<std::string>& settings, const std::function<void(Runtime&)>& body) {
    std::vector<std::string> calls = {"SCR_PREFIX=" + prefix(),
                                      "SCR_CNTL_BASE=" + (root_ / "control"),
                                      "SCR_CACHE_BASE=" + (root_ / "cache"),
                                      "SCR_COPY_TYPE=SINGLE",
                                      "SCR_JOB_ID=7",
                                      "SCR_USER_NAME=someone",
                                      "SCR_FLUSH=0"};
    calls.insert(calls.end(), settings.begin(), settings.end());
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      auto runtime =
          Runtime::start(real_file_system(), comm.duplicate(), "node0", {.calls = calls});
      ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
      body(**runtime);
    });
  }

  void write(Runtime& runtime, const std::string& name, int flags = kFlagCheckpoint) const {
    ASSERT_TRUE(runtime.start_dataset(name, flags).ok());
    const auto path = runtime.route_file(file_of(runtime, name));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << name << " of rank " << runtime.context().rank();
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
  }
  void write(const std::string& name, const std::vector<std::string>& settings = {}) {
    run(settings, [&](Runtime& runtime) { write(runtime, name); });
  }

  // Reads what it restarts from, and returns its name; empty if there is nothing.
  std::string restart(Runtime& runtime) const {
    const auto name = runtime.have_restart();
    EXPECT_TRUE(name.ok()) << name.status().to_string();
    if (!name.ok() || !*name) return {};
    const auto path = runtime.route_file(file_of(runtime, **name));
    EXPECT_TRUE(path.ok()) << path.status().to_string();
    std::ostringstream text;
    if (path.ok()) text << std::ifstream(*path).rdbuf();
    EXPECT_EQ(text.str(), fmt::format("{} of rank {}", **name, runtime.context().rank()));
    return **name;
  }
  std::string start_restart(Runtime& runtime) const {
    const auto name = runtime.start_restart();
    return name.ok() ? *name : name.status().to_string();
  }
  void expect_restart(const std::string& name, const std::vector<std::string>& settings = {}) {
    run(settings, [&](Runtime& runtime) { EXPECT_EQ(restart(runtime), name); });
  }

  std::vector<std::string> names_in_index() const {
    std::vector<std::string> names;
    const auto index = flush::read_index(real_file_system(), prefix());
    for (const auto& entry : index->entries()) names.push_back(entry.dataset.name);
    return names;
  }

 private:
  std::string file_of(const Runtime& runtime, const std::string& name) const {
    return fmt::format("{}/deep/{}/data.{}", prefix(), name, runtime.context().rank());
  }

  ::scr::testing::TemporaryDirectory root_;
};

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

TEST(RestartChoice, WithoutFetchTheCacheAloneCounts) {
  Runs job;
  job.write("first");
  job.write("second", kBypass);
  job.expect_restart("first", {"SCR_FETCH=0"});
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

TEST(RestartChoice, ScrCurrentNamesTheOneToRestartFrom) {
  Runs job;
  job.write("first", kFlushAll);
  job.write("second", kFlushAll);
  job.expect_restart("first", {"SCR_CURRENT=first"});
  job.expect_restart("second", {"SCR_CURRENT=second"});
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

TEST(BypassedDataset, CountsForTheSizeOfThePrefixDirectory) {
  Runs job;
  job.run({"SCR_CACHE_BYPASS=1", "SCR_PREFIX_SIZE=2"}, [&](Runtime& runtime) {
    for (const char* name : {"first", "second", "third"}) job.write(runtime, name);
  });
  EXPECT_THAT(job.names_in_index(), ::testing::ElementsAre("third", "second"));
  job.expect_restart("third");
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
