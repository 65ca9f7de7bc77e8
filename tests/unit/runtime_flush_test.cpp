// When datasets reach the prefix directory, and what a program can ask of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/faulty_filesystem.hpp"
#include "flush/containers.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/node_storage.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::NodeStorage;
using ::testing::Not;
using testing::Runs;

using Bytes = std::pair<std::uint64_t, std::uint64_t>;

TEST(FlushRhythm, GoesOnFromRunToRun) {
  Runs job;
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) job.write(name, {"SCR_FLUSH=3"});
  EXPECT_THAT(job.names_in_index(), ElementsAre("6", "3"));
}

TEST(FlushRhythm, OutputIsFlushedAtOnceAndCheckpointsAreNot) {
  Runs job;
  job.run({}, [&](Runtime& runtime) {
    job.write(runtime, "plot", kFlagOutput);
    job.write(runtime, "checkpoint");
    job.write(runtime, "both", kFlagOutput | kFlagCheckpoint);
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("both", "plot"));
}

TEST(FlushRhythm, AFlushThatFailedIsMadeUpForByTheNextCheckpoint) {
  Runs job;
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = job.prefix() + "/deep/*";
  FaultyFileSystem fs(real_file_system(), plan);
  job.fs = &fs;
  job.run({"SCR_FLUSH=2"}, [&](Runtime& runtime) {
    for (const char* name : {"1", "2", "3", "4", "5"}) job.write(runtime, name);
  });
  EXPECT_EQ(fs.hits(), 1U);
  EXPECT_THAT(job.names_in_index(), ElementsAre("4", "3"));
}

// A prefix directory on a device with room for some bytes.
class SmallPrefix : public testing::ForwardingFileSystem {
 public:
  SmallPrefix(std::string prefix, std::uint64_t bytes)
      : prefix_(std::move(prefix)), bytes_(bytes) {}
  void set_room(std::uint64_t bytes) { bytes_ = bytes; }

  std::uint64_t used() const {
    std::uint64_t sum = 0;
    std::error_code gone;  // somebody else may remove files
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix_, gone)) {
      const std::uint64_t size = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
      if (!gone) sum += size;
    }
    return sum;
  }

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::open(at, options));
    if (!file->path().starts_with(prefix_ + "/")) return file;
    return std::unique_ptr<File>(std::make_unique<FileThere>(std::move(file), *this));
  }

 private:
  class FileThere : public testing::ForwardingFile {
   public:
    FileThere(std::unique_ptr<File> inner, const SmallPrefix& device)
        : ForwardingFile(std::move(inner)), device_(device) {}
    Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
      const auto info = inner_->info();
      const std::uint64_t end = offset + data.size();
      const std::uint64_t more = info.ok() && end > info->size ? end - info->size : 0;
      if (more > 0 && device_.used() + more > device_.bytes_)
        return errno_status(ENOSPC, "write", path());
      return inner_->write_some(data, offset);
    }

   private:
    const SmallPrefix& device_;
  };

  std::string prefix_;
  std::atomic<std::uint64_t> bytes_;
};

class FullPrefix : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRoom = 400'000;
  FullPrefix() { job.fs = &device; }

  void write(Runtime& runtime, const std::string& name, std::size_t size) {
    ASSERT_TRUE(runtime.start_dataset(name, kFlagCheckpoint).ok());
    const auto path = runtime.route_file(
        fmt::format("{}/deep/{}/data.{}", job.prefix(), name, runtime.context().rank()));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << std::string(size, name.front());
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
    runtime.context().world().barrier();
  }
  // Temporary files of datasets, not those of our own lists.
  std::vector<std::string> copies() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(job.prefix())) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".tmp")) names.push_back(name.substr(0, name.find(".scr-")));
    }
    std::ranges::sort(names);
    return names;
  }
  // The flush of "big" fails for another reason than room, when all is copied: its copies stay.
  void leave_copies(const std::vector<std::string>& settings,
                    const std::function<void(Runtime&)>& then) {
    FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
    plan.operations = FaultPlan::bit(Operation::kWrite);
    plan.path = job.prefix() + "/.scr/*summary*";
    FaultyFileSystem faulty(device, plan);
    job.fs = &faulty;
    job.run(settings, [&](Runtime& runtime) {
      write(runtime, "big", 150'000);
      EXPECT_THAT(copies(), ElementsAre(".data.0", ".data.1"));
      runtime.context().world().barrier();
      then(runtime);
    });
    job.fs = &device;
  }

  Runs job;
  SmallPrefix device{job.prefix(), kRoom};
};

TEST_F(FullPrefix, AFlushWithoutRoomLeavesNoneOfItsCopiesInTheWayOfTheNext) {
  job.run({"SCR_FLUSH=1"}, [&](Runtime& runtime) {
    write(runtime, "a", 50'000);
    write(runtime, "b", 250'000);
    EXPECT_THAT(copies(), IsEmpty());
    runtime.context().world().barrier();
    EXPECT_EQ(*runtime.have_restart(), "b");  // it is in the cache
    write(runtime, "c", 50'000);
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("c", "a"));
  EXPECT_THAT(copies(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/deep/b"));
}

TEST_F(FullPrefix, CopiesOfAFlushThatFailedGoWhenTheDatasetLeavesTheCache) {
  leave_copies({"SCR_FLUSH=1", "SCR_CACHE_SIZE=1"}, [&](Runtime& runtime) {
    write(runtime, "next", 10);  // whose flush fails, too, but is not held up by the room
    EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/deep/big"));
    EXPECT_LT(device.used(), 100'000U);
  });
}

TEST_F(FullPrefix, AStartMakesRoomBeforeItWrites) {
  leave_copies({"SCR_FLUSH=1"}, [](Runtime&) {});
  device.set_room(device.used());
  job.run({"SCR_FLUSH=1"}, [&](Runtime& runtime) {
    EXPECT_EQ(*runtime.have_restart(), "big");
    EXPECT_THAT(copies(), IsEmpty());
    device.set_room(kRoom);
    runtime.context().world().barrier();
    EXPECT_TRUE(runtime.flush_wait("big").ok());
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("big"));
}

TEST_F(FullPrefix, AStartWithRoomTakesCopiesUpThatAreThere) {
  leave_copies({"SCR_FLUSH=1"}, [](Runtime&) {});
  device.set_room(device.used() + 100'000);  // not enough for a second copy of them
  job.run({}, [&](Runtime&) {});
  EXPECT_THAT(job.names_in_index(), ElementsAre("big"));
}

// The end of a flush fails, and what it has left to do is still there when the program takes the
// dataset out of the index: no later start must take that up.
class UnendedFlush : public ::testing::TestWithParam<std::pair<Operation, std::string>> {
 protected:
  UnendedFlush() {
    FaultPlan plan = FaultPlan::fail_at(1, EIO);
    plan.operations = FaultPlan::bit(GetParam().first);
    plan.path = GetParam().second;
    fs_ = std::make_unique<FaultyFileSystem>(real_file_system(), plan);
    job_.fs = fs_.get();
  }
  // One run in which the flush of "first" fails, and the next.
  void leave(Status (Runtime::*call)(const std::string&)) {
    job_.run({"SCR_FLUSH=1"}, [&](Runtime& runtime) {
      job_.write(runtime, "first");
      runtime.context().world().barrier();
      EXPECT_EQ(fs_->hits(), 1U);
      const Status status = (runtime.*call)("first");
      EXPECT_TRUE(status.ok()) << status.message();
    });
    EXPECT_THAT(job_.names_in_index(), IsEmpty());
    job_.run({}, [&](Runtime& runtime) { EXPECT_EQ(job_.restart(runtime), ""); });
    EXPECT_THAT(job_.names_in_index(), IsEmpty());
  }
  Runs job_;
  std::unique_ptr<FaultyFileSystem> fs_;
};

TEST_P(UnendedFlush, OfADatasetThatIsDroppedDoesNotBringItBack) {
  ASSERT_NO_FATAL_FAILURE(leave(&Runtime::drop));
  EXPECT_EQ(job_.flushed_text("first", 0), "first of rank 0");
  EXPECT_EQ(job_.flushed_text("first", 1), "first of rank 1");
}

TEST_P(UnendedFlush, OfADatasetThatIsDeletedDoesNotBringItBack) {
  ASSERT_NO_FATAL_FAILURE(leave(&Runtime::remove));
  EXPECT_EQ(job_.flushed_text("first", 0), "");
  EXPECT_FALSE(std::filesystem::exists(job_.prefix() + "/.scr/scr.dataset.1"));
}

TEST_P(UnendedFlush, DoesNotOutliveAPurgeOfThePrefixDirectory) {
  job_.run({"SCR_FLUSH=1"}, [&](Runtime& runtime) {
    job_.write(runtime, "first");
    runtime.context().world().barrier();
    EXPECT_EQ(fs_->hits(), 1U);
  });
  job_.expect_restart("", {"SCR_PREFIX_PURGE=1", "SCR_CACHE_PURGE=1"});
  EXPECT_THAT(job_.names_in_index(), IsEmpty());
  EXPECT_EQ(job_.flushed_text("first", 0), "");
}

INSTANTIATE_TEST_SUITE_P(
    WhereItFails, UnendedFlush,
    ::testing::Values(std::pair(Operation::kRename, "*/deep/first/data.0"),  // committed only
                      std::pair(Operation::kRemove, "*/flush.scr")),         // in the index
    [](const auto& param) {
      return param.param.first == Operation::kRename ? "AtAName" : "AtItsLastStep";
    });

TEST(FlushOnRestart, BringsTheNewestToThePrefixDirectory) {
  Runs job;
  job.write("first");
  job.expect_restart("first");
  EXPECT_THAT(job.names_in_index(), IsEmpty());
  job.expect_restart("first", {"SCR_FLUSH_ON_RESTART=1"});
  EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
}

TEST(FlushProgress, OfANameThatWasUsedTwiceTellsOfTheNewerDataset) {
  Runs job;
  job.run({"SCR_CACHE_SIZE=2", "SCR_USE_CONTAINERS=1"}, [&](Runtime& runtime) {
    const std::uint64_t size = std::string("same of rank 0").size();
    job.write(runtime, "same");
    EXPECT_TRUE(runtime.flush_wait("same").ok());
    job.write(runtime, "same");
    EXPECT_EQ(*runtime.flush_progress("same"), Bytes(0, size));
    EXPECT_TRUE(runtime.flush_wait("same").ok());
    EXPECT_TRUE(runtime.is_in_prefix(2));
    EXPECT_EQ(*runtime.flush_progress("same"), Bytes(size, size));
  });
}

TEST(FlushProgress, WhatHasLeftTheCacheOrWentPastItIsInThePrefixDirectory) {
  for (const char* way : {"SCR_FLUSH=1", "SCR_CACHE_BYPASS=1"}) {
    Runs job;
    job.run({way, "SCR_CACHE_SIZE=1"}, [&](Runtime& runtime) {
      job.write(runtime, "first");
      job.write(runtime, "second");
      const std::uint64_t size = std::string("first of rank 0").size();
      EXPECT_TRUE(runtime.flush_wait("first").ok()) << way;
      EXPECT_EQ(*runtime.flush_progress("first"), Bytes(size, size)) << way;
    });
    job.run({"SCR_CACHE_PURGE=1"}, [](Runtime& runtime) {
      EXPECT_TRUE(runtime.flush_wait("first").ok()) << "of an earlier run";
    });
  }
}

TEST(FlushProgress, CountsTheBytesOfTheRankAndWaitBringsThemAll) {
  for (const auto& settings : {std::vector<std::string>{},
                               {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"}}) {
    Runs job;
    job.run(settings, [&](Runtime& runtime) {
      job.write(runtime, "first");
      const auto before = runtime.flush_progress("first");
      ASSERT_TRUE(before.ok()) << before.status().to_string();
      const std::uint64_t size = std::string("first of rank 0").size();
      EXPECT_EQ(before->second, size);
      EXPECT_LE(before->first, size);
      if (settings.empty()) {
        EXPECT_EQ(before->first, 0U);
      }
      EXPECT_TRUE(runtime.flush_wait("first").ok());
      EXPECT_EQ(*runtime.flush_progress("first"), Bytes(size, size));
      EXPECT_EQ(runtime.flush_progress("other").status().code(), StatusCode::kNotFound);
      EXPECT_EQ(runtime.flush_wait("other").code(), StatusCode::kNotFound);
      EXPECT_TRUE(runtime.flush_wait("").ok());
    });
    EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
  }
}

// Keeps in mind which threads make parity containers, and how many polls the program needs.
class WatchedParity : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    if (options.create && at.path.find("ctr.parity") != std::string::npos) {
      const std::lock_guard lock(mutex_);
      makers_.insert(std::this_thread::get_id());
    }
    return ForwardingFileSystem::open(at, options);
  }
  std::set<std::thread::id> makers() const {
    const std::lock_guard lock(mutex_);
    return makers_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::thread::id> makers_;
};

class ParityInTheBackground : public ::testing::TestWithParam<bool> {};

TEST_P(ParityInTheBackground, IsNoWorkOfTheProgramsThreads) {
  const bool by_poll = GetParam();
  const std::vector<std::string> settings = {
      "SCR_FLUSH=1",          "SCR_FLUSH_ASYNC=1",    "SCR_FLUSH_TYPE=PTHREAD",
      "SCR_USE_CONTAINERS=1", "SCR_CONTAINER_SIZE=7", "SCR_CONTAINER_PARITY=2"};
  Runs job;
  WatchedParity fs;
  job.fs = &fs;
  job.run(settings, [&](Runtime& runtime) {
    job.write(runtime, "first");
    // As often as it takes; each poll is collective, so all ranks end together.
    for (int i = 0; by_poll && !runtime.idle() && i < 100'000; ++i) runtime.poll();
    EXPECT_TRUE(!by_poll || runtime.idle());
    EXPECT_TRUE(runtime.flush_wait("first").ok());
    const auto makers = fs.makers();
    EXPECT_THAT(makers, Not(IsEmpty()));
    EXPECT_FALSE(makers.contains(std::this_thread::get_id()));
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
  // The parity is right: what is lost comes back.
  const std::string dataset = job.prefix() + "/.scr/scr.dataset.1/";
  ASSERT_TRUE(std::filesystem::remove(dataset + flush::container_name(0)));
  ASSERT_TRUE(std::filesystem::remove(dataset + flush::container_name(3)));
  job.expect_restart("first", {"SCR_CACHE_PURGE=1"});
}

INSTANTIATE_TEST_SUITE_P(HowTheProgramWaits, ParityInTheBackground, ::testing::Bool(),
                         [](const auto& how) { return how.param ? "ByPoll" : "ByWait"; });

TEST(ParityOfABackgroundFlush, ThatFailsIsAFailedFlushAndTheNextOneMakesUpForIt) {
  Runs job;
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = "*ctr.parity*";
  FaultyFileSystem fs(real_file_system(), plan);
  job.fs = &fs;
  job.run({"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD", "SCR_USE_CONTAINERS=1",
           "SCR_CONTAINER_SIZE=7", "SCR_CONTAINER_PARITY=1"},
          [&](Runtime& runtime) {
            job.write(runtime, "first");
            for (int i = 0; !runtime.idle() && i < 100'000; ++i) runtime.poll();
            EXPECT_FALSE(runtime.is_in_prefix(1));
            job.write(runtime, "second");
            EXPECT_TRUE(runtime.flush_wait("second").ok());
          });
  EXPECT_EQ(fs.hits(), 1U);
  EXPECT_THAT(job.names_in_index(), ::testing::Contains("second"));
  job.expect_restart("second", {"SCR_CACHE_PURGE=1"});
}

struct DamagedInTheCache : ::testing::Test {
  DamagedInTheCache() { job.nodes = {&node0, &node1}; }
  void damage(const Runtime& runtime) {
    if (runtime.context().rank() != 1) return;
    std::fstream(job.cached_file("first", 1), std::ios::in | std::ios::out) << "X";
  }

  Runs job;
  NodeStorage node0{job.root(), 0};
  NodeStorage node1{job.root(), 1};
};

TEST_F(DamagedInTheCache, IsRebuiltAndFlushed) {
  job.run({"SCR_COPY_TYPE=PARTNER"}, [&](Runtime& runtime) {
    job.write(runtime, "first");
    damage(runtime);
    EXPECT_TRUE(runtime.flush_wait("first").ok());
    EXPECT_TRUE(runtime.is_in_prefix(1));
    EXPECT_EQ(job.restart(runtime), "first");
  });
  EXPECT_THAT(job.names_in_index(), ElementsAre("first"));
  EXPECT_EQ(job.flushed_text("first", 1), "first of rank 1");
}

TEST_F(DamagedInTheCache, BeyondRepairStaysThere) {
  job.run({}, [&](Runtime& runtime) {
    job.write(runtime, "first", kFlagCheckpoint);
    damage(runtime);
    EXPECT_EQ(runtime.flush_wait("first").code(), StatusCode::kCorrupt);
    ASSERT_EQ(runtime.cached().size(), 1U);
    EXPECT_TRUE(runtime.cached().front().usable);
    EXPECT_EQ(job.restart(runtime), "");
  });
  EXPECT_THAT(job.names_in_index(), IsEmpty());
  EXPECT_FALSE(job.cached_file("first", 0).empty());
}

// Tells whether both ranks open files of datasets in the prefix directory at the same time: an open
// waits for that of the other.
class MeetingPlace final : public testing::ForwardingFileSystem {
 public:
  MeetingPlace(std::string where, std::chrono::milliseconds patience)
      : where_(std::move(where)), patience_(patience) {}

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    if (at.display().starts_with(where_)) meet();
    return ForwardingFileSystem::open(at, options);
  }
  int opens() const { return opens_; }
  bool met() const { return met_; }

 private:
  void meet() {
    std::unique_lock lock(mutex_);
    ++opens_;
    met_ = met_ || ++inside_ > 1;
    changed_.notify_all();
    changed_.wait_for(lock, patience_, [&] { return met_; });
    --inside_;
  }

  std::string where_;
  std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int opens_ = 0;
  int inside_ = 0;
  bool met_ = false;
};

// Flushes and fetches with this width; whether the ranks copied at the same time, in each of them.
std::pair<bool, bool> ranks_meet(int width, std::chrono::milliseconds patience) {
  Runs job;
  const std::string files = job.prefix() + "/deep/";
  MeetingPlace flush(files, patience);
  job.fs = &flush;
  job.write("first", {"SCR_FLUSH=1", fmt::format("SCR_FLUSH_WIDTH={}", width)});
  MeetingPlace fetch(files, patience);
  job.fs = &fetch;
  job.expect_restart("first", {"SCR_CACHE_PURGE=1", fmt::format("SCR_FETCH_WIDTH={}", width)});
  EXPECT_GT(flush.opens(), 1);
  EXPECT_GT(fetch.opens(), 1);
  return {flush.met(), fetch.met()};
}

TEST(Width, OfOneLetsOneRankCopyAtATime) {
  EXPECT_EQ(ranks_meet(1, std::chrono::milliseconds(100)), std::pair(false, false));
}

TEST(Width, OfTwoLetsTwoRanksCopyAtTheSameTime) {
  EXPECT_EQ(ranks_meet(2, std::chrono::seconds(30)), std::pair(true, true));
}

}  // namespace
}  // namespace scr
