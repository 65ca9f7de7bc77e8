// What SCR_Init makes of storage that cannot be read: sound data must not be given up.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/runtime/runtime.hpp"
#include "tests/unit/run_settings.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 2;

// Runs of a job on one node, without redundancy, so that every file is the only copy.
class Job {
 public:
  int faulty_rank = 1;
  std::vector<std::string> more_settings = {};

  Job() {
    for (const char* name : {"prefix", "control", "cache"}) {
      std::filesystem::create_directory(root_ / name);
    }
  }

  struct Outcome {
    std::vector<Status> start = std::vector<Status>(kRanks);
    std::vector<std::string> restart = std::vector<std::string>(kRanks);  // empty: fresh
  };

  // Starts a run whose faulty rank has another file system, and asks what there is to restart from.
  Outcome look(FileSystem& of_faulty_rank = real_file_system()) {
    return run(of_faulty_rank, /*checkpoint=*/"");
  }
  // The same, and writes a checkpoint.
  Outcome write(const std::string& checkpoint, FileSystem& of_faulty_rank = real_file_system()) {
    return run(of_faulty_rank, checkpoint);
  }

  // Registers and writes files, and ends without completing the dataset. Returns its directory.
  std::filesystem::path write_unfinished(int files) {
    std::filesystem::path directory;
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      auto runtime =
          Runtime::start(real_file_system(), comm.duplicate(), "node0", {.calls = calls()});
      ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
      ASSERT_TRUE((*runtime)->start_dataset("unfinished", kFlagCheckpoint).ok());
      for (int i = 0; i < files; ++i) {
        const std::string name = fmt::format("{}/many.{}.{}", prefix(), comm.rank(), i);
        const auto path = (*runtime)->route_file(name);
        ASSERT_TRUE(path.ok());
        std::ofstream(*path) << i;
        if (comm.rank() == 0) directory = std::filesystem::path(*path).parent_path();
      }
      comm.barrier();
    });
    return directory;
  }

  // Writes a checkpoint, damages the file of rank 1, and writes another.
  void write_damage_write() {
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      auto runtime =
          Runtime::start(real_file_system(), comm.duplicate(), "node0", {.calls = calls()});
      ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
      write_checkpoint(**runtime, "first", comm.rank());
      if (comm.rank() == 1) std::ofstream(directory_of("data.1") / "data.1", std::ios::in) << "T";
      write_checkpoint(**runtime, "second", comm.rank());
    });
  }

  // Where the cache holds a file.
  std::filesystem::path directory_of(const std::string& file) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ / "cache")) {
      if (entry.path().filename() == file) return entry.path().parent_path();
    }
    return {};
  }

 private:
  std::string prefix() const { return root_ / "prefix"; }

  Outcome run(FileSystem& of_faulty_rank, const std::string& checkpoint) {
    Outcome outcome;
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      FileSystem& fs = comm.rank() == faulty_rank ? of_faulty_rank : real_file_system();
      auto runtime = Runtime::start(fs, comm.duplicate(), "node0", {.calls = calls()});
      outcome.start[rank] = runtime.status();
      if (!runtime.ok()) return;
      auto name = (*runtime)->have_restart();
      ASSERT_TRUE(name.ok()) << name.status().to_string();
      outcome.restart[rank] = name->value_or("");
      if (!checkpoint.empty()) write_checkpoint(**runtime, checkpoint, comm.rank());
    });
    return outcome;
  }

  std::vector<std::string> calls() const {
    return scr::testing::run_settings(root_, prefix(), more_settings);
  }

  void write_checkpoint(Runtime& runtime, const std::string& name, int rank) const {
    ASSERT_TRUE(runtime.start_dataset(name, kFlagCheckpoint).ok());
    auto path = runtime.route_file(prefix() + "/data." + std::to_string(rank));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << "the data of rank " << rank;
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
  }

  ::scr::testing::TemporaryDirectory root_;
};

FaultPlan unreadable(const std::string& path, Operation operation) {
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(operation);
  plan.path = path;
  return plan;
}

TEST(RestartFromUnreadableStorage, DataFileThatCannotBeReadFailsTheStartOnAllRanks) {
  Job job;
  job.write("first");
  for (const Operation operation : {Operation::kRead, Operation::kOpen, Operation::kInfo}) {
    FaultyFileSystem fs(real_file_system(), unreadable("*/data.1", operation));
    const auto outcome = job.look(fs);
    ASSERT_GT(fs.hits(), 0U);
    for (const Status& status : outcome.start) {
      EXPECT_EQ(status.code(), StatusCode::kIoError);
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("data.1"));
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("Input/output error"));
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("dataset 1 ('first')"));
    }
    EXPECT_THAT(job.look().restart, ::testing::Each("first"));
  }
}

// The first process of the node reads the filemaps of all.
TEST(RestartFromUnreadableStorage, FilemapThatCannotBeReadFailsTheStartOnAllRanks) {
  Job job;
  job.write("first");
  job.faulty_rank = 0;
  for (const char* name : {"*/filemap_*", "*/filemap_?_1.scrinfo", "*/filemap.scrinfo"}) {
    FaultyFileSystem fs(real_file_system(), unreadable(name, Operation::kRead));
    const auto outcome = job.look(fs);
    ASSERT_GT(fs.hits(), 0U);
    for (const Status& status : outcome.start) {
      EXPECT_EQ(status.code(), StatusCode::kIoError);
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("filemap"));
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("Input/output error"));
    }
    EXPECT_THAT(job.look().restart, ::testing::Each("first"));
  }
}

// A file that is really gone is a loss: the run goes on without it, as ever.
TEST(UnusedCache, IsNotDeletedWhenItHasTheOnlyCopy) {
  Job job;
  job.write("first");
  job.more_settings = {"SCR_DISTRIBUTE=0"};
  for (const Status& status : job.look().start)
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("dataset 1 ('first') is only in the cache"));
  job.more_settings.clear();
  EXPECT_THAT(job.look().restart, ElementsAre("first", "first"));
  job.more_settings = {"SCR_CACHE_PURGE=1"};
  EXPECT_THAT(job.look().restart, ElementsAre("", ""));
  job.more_settings = {"SCR_DISTRIBUTE=0"};  // nothing to lose
  for (const Status& status : job.look().start) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(EvictedDataset, IsVerifiedIfAsked) {
  Job job;
  job.more_settings = {"SCR_CRC_ON_DELETE=1", "SCR_CACHE_SIZE=1"};
  ::testing::internal::CaptureStderr();
  job.write_damage_write();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("data.1' of dataset 1 was damaged in the cache"));
  EXPECT_THAT(said, Not(HasSubstr("data.0'")));
}

TEST(RestartFromUnreadableStorage, MissingFileIsALoss) {
  Job job;
  job.write("first");
  FaultPlan plan = unreadable("*/data.1", Operation::kInfo);
  plan.errno_value = ENOENT;
  FaultyFileSystem fs(real_file_system(), plan);
  const auto outcome = job.look(fs);
  for (const Status& status : outcome.start) EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(outcome.restart, ::testing::Each(""));
}

TEST(RestartLeftovers, TemporariesOfAKilledMoveOrRebuildGoAndNothingElse) {
  Job job;
  job.write("first");
  const auto directory = job.directory_of("data.0");
  const auto touch = [&](const char* name) { std::ofstream(directory / name) << "x"; };
  for (const char* name : {".moving.data.0", ".rebuild.0.0.0", ".rebuild.0.0.13"}) touch(name);
  const std::vector<std::string> others = {".moving.other", ".rebuild.0.0.x", ".rebuild.7.0.0",
                                           "moving.data.0"};
  for (const std::string& name : others) touch(name.c_str());
  EXPECT_THAT(job.look().restart, ::testing::Each("first"));
  for (const char* name : {".moving.data.0", ".rebuild.0.0.0", ".rebuild.0.0.13"}) {
    EXPECT_FALSE(std::filesystem::exists(directory / name)) << name;
  }
  for (const std::string& name : others) {
    EXPECT_TRUE(std::filesystem::exists(directory / name)) << name;
  }
}

// Opening the lock finds the directory gone, as it does when scr_clean was faster.
TEST(RestartAfterClean, DirectoriesThatWereRemovedMeanwhileAreMadeAgain) {
  Job job;
  FaultPlan plan = FaultPlan::fail_at(1, ENOENT);
  plan.operations = FaultPlan::bit(Operation::kOpen);
  plan.path = "*/owner.lock";
  FaultyFileSystem fs(real_file_system(), plan);
  const auto outcome = job.write("first", fs);
  EXPECT_EQ(fs.hits(), 1U);
  for (const Status& status : outcome.start) EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(job.look().restart, ::testing::Each("first"));
}

TEST(RegisteredFiles, EveryFileOfAKilledRunIsKnownToTheNext) {
  Job job;
  const auto directory = job.write_unfinished(300);
  EXPECT_TRUE(std::filesystem::exists(directory / "many.0.299"));
  EXPECT_THAT(job.look().restart, ::testing::Each(""));
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(RestartFromUnreadableStorage, NoFailingOperationOfAStartCostsACheckpoint) {
  Job job;
  job.write("newest");
  std::uint64_t failed = 0;
  for (job.faulty_rank = 0; job.faulty_rank < kRanks; ++job.faulty_rank) {
    for (std::uint64_t n = 1;; ++n) {
      FaultyFileSystem fs(real_file_system(), FaultPlan::fail_at(n, EIO));
      const auto outcome = job.look(fs);
      if (fs.hits() == 0) break;
      ASSERT_EQ(outcome.start[0].ok(), outcome.start[1].ok()) << "operation " << n;
      if (!outcome.start[0].ok()) {
        ++failed;
        continue;
      }
      ASSERT_THAT(outcome.restart, ::testing::Each("newest")) << "operation " << n;
    }
  }
  EXPECT_GT(failed, 5U);
  EXPECT_THAT(job.look().restart, ::testing::Each("newest"));
}

}  // namespace
}  // namespace scr
