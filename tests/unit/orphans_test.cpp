// A node dies while the program writes straight to the prefix directory: what its ranks left there
// goes with the next start, and nothing else.
#include "flush/orphans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/job/process.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "tests/unit/scavenge_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<std::string> kBypass = {"SCR_CACHE_BYPASS=1"};

// Killed in the middle of step 2; step 1 is complete.
void cut(ScavengeJob& job) {
  job.write({1, 2}, kBypass, /*cut=*/true);
  ASSERT_THAT(job.leftovers(), SizeIs(3 * (ScavengeJob::kRanks - 1)));  // one rank has no files
}

// Another node takes its place.
void replace(ScavengeJob& job, int node) {
  std::filesystem::remove_all(job.local(node));
  std::filesystem::create_directories(job.local(node));
}

TEST(Orphans, OfALostNodeAreRemoved) {
  for (const std::vector<int>& lost : std::vector<std::vector<int>>{{}, {0}, {3}, {0, 1, 2}}) {
    SCOPED_TRACE(fmt::format("lost nodes [{}]", fmt::join(lost, " ")));
    ScavengeJob job;
    cut(job);
    for (const int node : lost) replace(job, node);
    job.write({});
    EXPECT_THAT(job.leftovers(), IsEmpty());
    job.expect_bytes("scr.dataset.1", 1);
  }
}

TEST(Orphans, FilesOfOtherDatasetsAndOfUsersStay) {
  ScavengeJob job;
  cut(job);
  const std::string folder = job.prefix() + "/ckpt.2/";
  const std::vector<std::string> names = {".mine.tmp", ".a.scr-2-1.tmp", ".a.scr-22-17.tmp"};
  for (const std::string& name : names) std::ofstream(folder + name) << "mine";
  replace(job, 1);
  job.write({});
  for (const std::string& name : names) {
    EXPECT_EQ(read_bytes(folder + name), "mine") << name;
    std::filesystem::remove(folder + name);
  }
  EXPECT_THAT(job.leftovers(), IsEmpty());
}

TEST(Orphans, OfADatasetThatIsCommittedAreItsData) {
  ScavengeJob job;
  job.write({1}, {"SCR_FLUSH=1"});
  const auto summary = read_summary(real_file_system(), job.dataset_path("scr.dataset.1"));
  ASSERT_TRUE(summary.ok()) << summary.status().to_string();
  const std::string waiting =
      job.prefix() + "/" + temporary_name("ckpt.1/rank_0.h5", summary->dataset);
  std::ofstream(waiting) << "data";
  const std::set<std::string> directories = {".", "ckpt.1", "there/is/none"};
  ASSERT_TRUE(remove_orphans(real_file_system(), job.prefix(), directories, summary->dataset).ok());
  EXPECT_EQ(read_bytes(waiting), "data");
  std::filesystem::remove(job.dataset_path("scr.dataset.1") + "/summary.scr");
  ASSERT_TRUE(remove_orphans(real_file_system(), job.prefix(), directories, summary->dataset).ok());
  EXPECT_THAT(job.leftovers(), IsEmpty());
  EXPECT_FALSE(
      remove_orphans(real_file_system(), job.prefix(), {"../elsewhere"}, summary->dataset).ok());
}

// Only ranks of the lost node used the directory, so nobody who is left knows of it.
class FarFromTheOthers : public ::testing::Test {
 protected:
  FarFromTheOthers() {
    job.write({1}, {"SCR_FLUSH=1"});
    std::filesystem::create_directories(job.prefix() + "/only/here");
    std::ofstream(job.prefix() + "/" + kFar) << "left";
    std::ofstream(job.prefix() + "/only/.scr-1-2.txt") << "mine";
    std::ofstream(job.prefix() + "/only/.mine.scr-x-2.tmp") << "mine";
    std::filesystem::create_directory_symlink(".", job.prefix() + "/only/loop");
  }
  job::ProcessResult scr_index(job::Words options) {
    job::Words words = {TEST_BIN_DIR "/scr_index", "--prefix", job.prefix()};
    words.insert(words.end(), options.begin(), options.end());
    return job::run_program(words);
  }
  static constexpr const char* kFar = "only/here/.a.h5.scr-2-12ab.tmp";
  ScavengeJob job;
};

TEST_F(FarFromTheOthers, AreFoundAndRemovedByScrIndex) {
  const auto before = ScavengeJob::snapshot(job.prefix());
  auto told = scr_index({"--clean", "--dry-run"});
  EXPECT_EQ(told.exit_code, 0) << told.errors;
  EXPECT_THAT(told.output, HasSubstr(std::string("would remove: ") + kFar));
  EXPECT_EQ(ScavengeJob::snapshot(job.prefix()), before);
  told = scr_index({"--clean", "--json"});
  EXPECT_EQ(told.exit_code, 0) << told.errors;
  EXPECT_THAT(told.output, HasSubstr(kFar));
  auto after = before;
  after.erase(kFar);
  EXPECT_EQ(ScavengeJob::snapshot(job.prefix()), after);
  EXPECT_THAT(scr_index({"--clean"}).output, HasSubstr("0 file(s)"));
}

// The next start ends a flush that is committed: they are its data.
TEST_F(FarFromTheOthers, FilesThatSomebodyWaitsForStay) {
  const auto summary = read_summary(real_file_system(), job.dataset_path("scr.dataset.1"));
  ASSERT_TRUE(summary.ok());
  const std::string committed = temporary_name("only/b.h5", summary->dataset);
  std::ofstream(job.prefix() + "/" + committed) << "data";
  EXPECT_EQ(scr_index({"--clean"}).exit_code, 0);
  EXPECT_EQ(read_bytes(job.prefix() + "/" + committed), "data");
  EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/" + kFar));
}

// Who takes it up later begins anew; until then its copies take room that others may need.
TEST_F(FarFromTheOthers, FilesOfAFlushThatWasCutGo) {
  const auto summary = read_summary(real_file_system(), job.dataset_path("scr.dataset.1"));
  ASSERT_TRUE(summary.ok());
  Intent begun;
  begun.dataset = summary->dataset;
  begun.dataset.id = 3;
  const std::string directory = job.dataset_path("scr.dataset.3");
  std::filesystem::create_directory(directory);
  ASSERT_TRUE(write_intent(real_file_system(), directory, begun, Durability::kVolatile).ok());
  const std::vector<std::string> copies = {
      temporary_name("only/c.h5", begun.dataset),
      ".scr/scr.dataset.3/" + temporary_name("ctr.0.scr", begun.dataset)};
  for (const std::string& name : copies) std::ofstream(job.prefix() + "/" + name) << "data";
  const auto before = ScavengeJob::snapshot(job.prefix());
  EXPECT_THAT(scr_index({"--clean", "--dry-run"}).output, HasSubstr("3 file(s), 12"));
  EXPECT_EQ(ScavengeJob::snapshot(job.prefix()), before);
  EXPECT_THAT(scr_index({"--clean"}).output, HasSubstr("3 file(s), 12"));
  for (const std::string& name : copies)
    EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/" + name)) << name;
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_EQ(read_bytes(job.prefix() + "/only/.mine.scr-x-2.tmp"), "mine");
  job.expect_bytes("scr.dataset.1", 1);
}

TEST_F(FarFromTheOthers, NothingIsRemovedWhileAProgramRunsOrOwnersCannotBeRead) {
  {
    const auto lock = lock_prefix(real_file_system(), job.prefix(), std::chrono::milliseconds(0));
    ASSERT_TRUE(lock.ok());
    const auto told = scr_index({"--clean"});
    EXPECT_EQ(told.exit_code, 1);
    EXPECT_THAT(told.errors, HasSubstr("in use"));
  }
  std::ofstream(job.dataset_path("scr.dataset.1") + "/summary.scr") << "damaged";
  const auto told = scr_index({"--clean"});
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.errors, HasSubstr("nobody knows whose"));
  EXPECT_EQ(read_bytes(job.prefix() + "/" + kFar), "left");
}

}  // namespace
}  // namespace scr::flush::testing
