// A process outside of MPI works alone, with a cache of its own: what scr_postrun saves of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/log.hpp"
#include "core/job/alone_jobs.hpp"
#include "core/job/process.hpp"
#include "core/mpi/single_communicator.hpp"
#include "core/runtime/runtime.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryDirectory;

class AloneProcess : public ::testing::Test {
 protected:
  AloneProcess() {
    for (const char* name : {"prefix", "control", "cache"}) {
      std::filesystem::create_directory(directory_ / name);
    }
  }

  std::vector<std::string> settings() const {
    return {"SCR_PREFIX=" + (directory_ / "prefix"), "SCR_CNTL_BASE=" + (directory_ / "control"),
            "SCR_CACHE_BASE=" + (directory_ / "cache"), "SCR_JOB_ID=7", "SCR_USER_NAME=someone"};
  }

  // A process that writes a checkpoint of one file to its cache, and lives as long as what is
  // returned.
  std::unique_ptr<Runtime> write(const std::string& name) {
    std::vector<std::string> calls = settings();
    calls.emplace_back("SCR_FLUSH=0");
    auto runtime = Runtime::start(real_file_system(), std::make_unique<SingleCommunicator>(),
                                  log::host_name(), {.calls = calls, .alone = true});
    EXPECT_TRUE(runtime.ok()) << runtime.status().to_string();
    EXPECT_TRUE((*runtime)->start_dataset(name, kFlagCheckpoint).ok());
    const auto path = (*runtime)->route_file(directory_ / ("prefix/" + name));
    EXPECT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << "data of " << name;
    EXPECT_TRUE((*runtime)->complete_dataset(true).ok());
    return *std::move(runtime);
  }

  // A checkpoint with a file of another name than its own.
  void write_more(Runtime& runtime, const std::string& file, const std::string& text) {
    ASSERT_TRUE(runtime.start_dataset("with " + file + " " + text, kFlagCheckpoint).ok());
    const auto path = runtime.route_file(directory_ / ("prefix/" + file));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << text;
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
  }

  job::ProcessResult run(const std::string& command, const job::Words& arguments) {
    job::Words words = {"env"};
    for (const std::string& setting : settings()) words.push_back(setting);
    words.push_back("SCR_NODELIST=" + log::host_name());
    words.push_back(TEST_BIN_DIR "/" + command);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return job::run_program(words);
  }

  std::string text_of(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(directory_ / ("prefix/" + name)).rdbuf();
    return text.str();
  }

  TemporaryDirectory directory_;
};

TEST_F(AloneProcess, ItsNewestCheckpointIsSavedAfterTheJob) {
  write("first").reset();
  write("second").reset();  // in the same slot
  const job::ProcessResult saved = run("scr_postrun", {});
  EXPECT_EQ(saved.exit_code, 0) << saved.errors;
  EXPECT_THAT(saved.output, HasSubstr("'second' of job 7.s0: saved"));
  EXPECT_EQ(text_of("second"), "data of second");
  EXPECT_THAT(run("scr_postrun", {}).output, HasSubstr("nothing to save"));
  EXPECT_EQ(run("scr_index", {"--verify-all"}).exit_code, 0);
}

TEST_F(AloneProcess, OfSeveralEachIsSaved) {
  {
    const auto first = write("first");
    const auto other = write("other");
  }
  write("later").reset();  // in the slot of the first
  const job::ProcessResult saved = run("scr_postrun", {});
  EXPECT_EQ(saved.exit_code, 0) << saved.output << saved.errors;
  EXPECT_THAT(saved.output,
              AllOf(HasSubstr("'later' of job 7.s0: saved"),
                    HasSubstr("'other' of job 7.s1: saved"), Not(HasSubstr("'first'"))));
  EXPECT_EQ(text_of("later"), "data of later");
  EXPECT_EQ(text_of("other"), "data of other");
  EXPECT_EQ(run("scr_index", {"--verify-all"}).exit_code, 0);
  EXPECT_THAT(run("scr_postrun", {}).output, HasSubstr("nothing to save"));
  EXPECT_EQ(run("scr_flush_file", {"--list-alone"}).output, "");
}

// Their numbers do not tell which is the newer one: the second has written more datasets before.
TEST_F(AloneProcess, OfSeveralWithTheSameFileTheNewerOneStays) {
  {
    const auto first = write("unimportant");
    auto second = write("1");
    second = nullptr;
    for (const char* name : {"2", "3"}) write(name).reset();
    write_more(*write("old"), "same", "older");
    write_more(*first, "same", "newer");
  }
  const job::ProcessResult saved = run("scr_postrun", {"--json"});
  EXPECT_EQ(saved.exit_code, 0) << saved.output << saved.errors;
  EXPECT_THAT(saved.output, AllOf(HasSubstr("\"job\": \"7.s0\""), HasSubstr("\"job\": \"7.s1\"")));
  EXPECT_EQ(text_of("same"), "newer");
  EXPECT_EQ(run("scr_index", {"--verify-all"}).exit_code, 0);
}

// One of them cannot be read: the other is saved, and the loss is told.
TEST_F(AloneProcess, OfSeveralOneThatIsLostKeepsNobodyFromSavingTheOthers) {
  {
    const auto first = write("first");
    const auto other = write("other");
  }
  std::filesystem::remove_all(directory_ / "cache/someone/scr.7.s0");
  const job::ProcessResult saved = run("scr_postrun", {});
  EXPECT_NE(saved.exit_code, 0);
  EXPECT_THAT(saved.output, AllOf(HasSubstr("'first' of job 7.s0: NOT saved"),
                                  HasSubstr("'other' of job 7.s1: saved")));
  EXPECT_EQ(text_of("other"), "data of other");
}

TEST(AloneDatasets, OddAnswersOfANodeAreLeftOut) {
  EXPECT_TRUE(job::parse_alone_datasets("", "7").empty());
  const auto found = job::parse_alone_datasets(
      R"([1, {"job": 7}, {"job": "7", "id": 1, "name": "own"}, {"job": "8.s0", "id": 1, "name": "a"},
          {"job": "7.s0/../x", "id": 1, "name": "b"}, {"job": "7.s0", "id": "1", "name": "c"},
          {"job": "7.s0", "id": 4294967297, "name": "e"}, {"job": "7.s0", "id": -1, "name": "f"},
          {"job": "7.p3", "id": 4, "name": "d"}])",
      "7");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().job_id, "7.p3");
  EXPECT_EQ(found.front().id, 4);
}

}  // namespace
}  // namespace scr
