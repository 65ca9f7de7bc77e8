// What scr_index shows of, and copies out of, datasets that are only in the cache of a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scavenge_fixture.hpp"
#include "tools/index/extract.hpp"
#include "tools/index/inspect.hpp"

namespace scr::tools {
namespace {

using flush::testing::ScavengeJob;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

DatasetRow only_row(const ScavengeJob& job, int node) {
  std::vector<std::string> warnings;
  auto rows =
      list_datasets(real_file_system(), job.prefix(), {{job.local(node)}, "someone"}, warnings);
  EXPECT_TRUE(rows.ok()) << rows.status().to_string();
  if (!rows.ok() || rows->size() != 1) {
    ADD_FAILURE() << "not one dataset is listed";
    return {};
  }
  return rows->front();
}

std::vector<DatasetFile> files_on(const ScavengeJob& job, const DatasetRow& row) {
  auto files = files_of(real_file_system(), job.prefix(), row);
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  return files.ok() ? *files : std::vector<DatasetFile>();
}

TEST(CachedDataset, ASharedFileIsListedOnceAndItsLogsNever) {
  ScavengeJob job;
  job.shared = true;
  job.write({1});
  const auto expected = ScavengeJob::shared_files_of(1);
  const auto files = files_on(job, only_row(job, 0));
  std::map<std::string, int> seen;
  for (const DatasetFile& file : files) {
    ++seen[file.name];
    EXPECT_EQ(file.name.find(".scrlog"), std::string::npos) << file.name;
    EXPECT_EQ(file.only_logs, expected.contains(file.name)) << file.name;
  }
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
  // Rank 0, which is on this node, knows its size.
  const auto all = std::ranges::find(files, "ckpt.1/all.h5", &DatasetFile::name);
  ASSERT_NE(all, files.end());
  EXPECT_EQ(all->size, expected.at("ckpt.1/all.h5").bytes.size());
}

TEST(CachedDataset, ASharedFileIsNotDamagedButSaidToNeedAFlush) {
  ScavengeJob job;
  job.shared = true;
  job.write({1});
  const DatasetRow row = only_row(job, 0);
  std::vector<std::string> notes;
  const Status status =
      inspect_files(real_file_system(), job.prefix(), {{row, files_on(job, row)}}, Depth::kCheck,
                    {}, [&](const FileReport& report) {
                      EXPECT_TRUE(report.problems.empty()) << report.file->name;
                      notes.insert(notes.end(), report.notes.begin(), report.notes.end());
                    });
  (void)status;  // HDF5 may be missing, and there is no HDF5 file
  EXPECT_THAT(notes, Contains(AllOf(HasSubstr("all.h5"), HasSubstr("flush it first"),
                                    HasSubstr("scr_postrun"))));
}

TEST(CachedDataset, ASharedFileIsNotExtracted) {
  ScavengeJob job;
  job.shared = true;
  job.write({1});
  const std::string to = job.prefix() + "/extracted";
  const auto extracted =
      extract_files(real_file_system(), job.prefix(), files_on(job, only_row(job, 0)), to, nullptr);
  EXPECT_EQ(extracted.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(extracted.status().message()), HasSubstr("flush it first"));
  EXPECT_FALSE(std::filesystem::exists(to));
}

TEST(CachedDataset, OfSeveralNodesTheRanksThatAreElsewhereAreNamed) {
  ScavengeJob job;
  job.write({1});
  const Status status = check_all_ranks(only_row(job, 1));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 0-1,4-7"), HasSubstr("scr_scavenge --id 1")));
  const auto saved = job.save_one();
  EXPECT_TRUE(check_all_ranks(only_row(job, 1)).ok()) << saved.directory;
}

}  // namespace
}  // namespace scr::tools
