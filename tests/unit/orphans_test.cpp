// A node dies while the program writes straight to the prefix directory: what its ranks left there
// goes with the next start, and nothing else.
#include "flush/orphans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flush/flush.hpp"
#include "tests/unit/scavenge_fixture.hpp"

namespace scr::flush::testing {
namespace {

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

}  // namespace
}  // namespace scr::flush::testing
