// Scavenges of files that several ranks have written together: their logs may be damaged, or lie.
// (That every byte of them is saved, whatever is lost, is in scavenge_test.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flush/clean_up.hpp"
#include "flush/flush.hpp"
#include "tests/unit/scavenge_damage.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kAll = "ckpt.1/all.h5";

std::string log_of(int rank) { return shared_file::log_name(kAll, rank); }

ScavengeJob& with_shared(ScavengeJob& job) {
  job.shared = true;
  job.write({1});
  return job;
}

// The copy of a rank's log that waits in the prefix directory.
std::filesystem::path staged_log(const ScavengeJob& job, int rank) {
  const std::string start = "." + shared_file::log_name("all.h5", rank) + ".scr-1-";
  for (const auto& entry : std::filesystem::directory_iterator(job.prefix() + "/ckpt.1")) {
    if (entry.path().filename().string().starts_with(start)) return entry.path();
  }
  ADD_FAILURE() << "no log of rank " << rank;
  return {};
}

// Gives a log another table, with all checksums that it has itself.
void forge(const std::filesystem::path& path,
           const std::function<void(shared_file::LogTable&)>& change) {
  auto table = shared_file::read_log_table(real_file_system(), path.string());
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  auto log = shared_file::Log::reopen(real_file_system(), path.string());
  ASSERT_TRUE(log.ok()) << log.status().to_string();
  change(*table);
  std::vector<shared_file::Extent> extents;
  for (const auto& entry : table->entries)
    extents.push_back({entry.offset, entry.length, entry.log_offset, {}});
  table->entries.clear();
  ASSERT_TRUE((*log)->finish(*table, extents).ok());
}

TEST(ScavengeShared, AFlippedByteOfACachedLogIsFoundAndTheLogRebuilt) {
  for (const bool containers : {false, true}) {
    ScavengeJob job(containers ? in_containers() : std::vector<std::string>());
    with_shared(job);
    flip(job.cached(1, "all.h5.2.scrlog"), 5);
    const SavedDataset saved = job.save_one();
    ASSERT_NO_FATAL_FAILURE(job.expect_saved(saved, 1));
    EXPECT_THAT(saved.rebuilt, ElementsAre(2));
  }
}

TEST(ScavengeShared, AFileWhoseRanksAreAllLostIsRebuilt) {
  for (const bool containers : {false, true}) {
    ScavengeJob job(containers ? in_containers() : std::vector<std::string>());
    with_shared(job);
    job.lose(2);  // rank 5, which has one for itself
    job.expect_saved(job.save_one(), 1);
  }
}

// The log was right when it was copied. Nothing is made of it now, and it is copied again.
TEST(ScavengeShared, ALogThatIsDamagedInThePrefixIsNotUsedAndReplacedTheNextTime) {
  for (const std::int64_t at : {std::int64_t{3}, std::int64_t{-3}, std::int64_t{-70}}) {
    SCOPED_TRACE(at);
    ScavengeJob job;
    with_shared(job);
    const Stopped stopped(job);
    flip(staged_log(job, 3), at);
    const Status status = commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1");
    EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.to_string();
    EXPECT_THAT(std::string(status.message()), HasSubstr("all.h5"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("tried again"));
    EXPECT_THAT(job.index().entries(), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(job.prefix() + "/" + kAll));
    auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
    ASSERT_TRUE(scan.ok());
    EXPECT_EQ(scan->missing.to_text(), "3");
    job.expect_saved(job.save_one(), 1);
  }
}

TEST(ScavengeShared, ALogThatTellsOtherThanItsFilemapIsRefused) {
  using shared_file::LogTable;
  struct Lie {
    std::function<void(LogTable&)> change;
    std::string message;
  };
  const std::vector<Lie> lies = {
      {[](LogTable& table) { table.rank = 4; }, "is of another rank"},
      {[](LogTable& table) { table.first_rank = 3; }, "who lists the file"},
      {[](LogTable& table) { table.size = std::uint64_t{1} << 62U; }, "another size"},
      {[](LogTable& table) { table.size = ~std::uint64_t{0}; }, "no file is as long"},
      {[](LogTable& table) { table.entries.at(0).offset -= 26; }, "both claim byte"},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.message);
    ScavengeJob job;
    with_shared(job);
    const Stopped stopped(job);
    ASSERT_NO_FATAL_FAILURE(forge(staged_log(job, 3), lie.change));
    const Status status = commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1");
    EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.to_string();
    EXPECT_THAT(std::string(status.message()), HasSubstr(lie.message));
    EXPECT_THAT(job.index().entries(), IsEmpty());
    // Some of these have the checksum of the whole log, since the table has one of its own: they
    // stay until somebody takes them away.
    std::filesystem::remove(staged_log(job, 3));
    job.expect_saved(job.save_one(), 1);
  }
}

TEST(ScavengeShared, ARankFilemapThatLiesAboutALogIsRefusedByNameAndNothingIsTouched) {
  const Outside outside;
  const auto meta_of = [](Hash& entry, int rank) -> Hash& {
    return entry.at("FILE").at(log_of(rank)).at("META");
  };
  const std::vector<std::function<void(Hash&)>> lies = {
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED", "../evil"); },
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED", outside.path() + "/precious"); },
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED", "new\nline"); },
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED", ".scr/index.scr"); },
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED", "other.h5"); },
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED_SIZE", "many"); },
      // It would list the file that rank 0 lists.
      [&](Hash& entry) { meta_of(entry, 3).set_value("SHARED_SIZE", 7); },
      [&](Hash& entry) { rename_file(entry, log_of(3), log_of(2)); },
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    SCOPED_TRACE(i);
    ScavengeJob job;
    with_shared(job);
    const Stopped stopped(job);
    Hash hash = stopped.read(3);
    lies[i](const_cast<Hash&>(*hash.getf("RANK 3 DSET 1")));
    stopped.write(3, hash);
    auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
    ASSERT_TRUE(scan.ok()) << scan.status().to_string();
    EXPECT_EQ(scan->missing.to_text(), "3");
    EXPECT_THAT(scan->problems, Contains(HasSubstr("3.scrfilemap")));
    outside.expect_untouched();
    job.expect_saved(job.save_one(), 1);
  }
}

TEST(ScavengeShared, ALinkAtTheTemporaryNameOfTheFileIsNotFollowed) {
  const Outside outside;
  ScavengeJob job;
  with_shared(job);
  const Stopped stopped(job);
  auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
  ASSERT_TRUE(scan.ok());
  const std::string name = job.prefix() + "/" + temporary_name(kAll, scan->dataset());
  std::filesystem::create_symlink(outside.path() + "/precious", name);
  const Status status = commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("all.h5"));
  EXPECT_THAT(job.index().entries(), IsEmpty());
  outside.expect_untouched();
  std::filesystem::remove(name);
  job.expect_saved(job.save_one(), 1);
}

// The program comes back: what the scavenge left, with which nothing can be done any more, goes.
TEST(ScavengeShared, WhatAScavengeThatWasCutLeftGoesWithTheNextStart) {
  ScavengeJob job;
  with_shared(job);
  const Stopped stopped(job);
  for (const int rank : {2, 4}) std::filesystem::remove(staged_log(job, rank));
  ASSERT_TRUE(clean_up(real_file_system(), job.prefix(), {}).ok());
  EXPECT_THAT(job.leftovers(), IsEmpty());
  job.expect_saved(job.save_one(), 1);
}

}  // namespace
}  // namespace scr::flush::testing
