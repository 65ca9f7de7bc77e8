// The index of a prefix directory: order, current, changes by several processes at once.
#include "flush/index.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/hash_file.hpp"
#include "flush/roll_forward.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using scr::testing::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

IndexEntry entry(int id, int copy = 0) {
  IndexEntry made;
  made.directory =
      copy == 0 ? fmt::format("scr.dataset.{}", id) : fmt::format("scr.dataset.{}.{}", id, copy);
  made.dataset.id = id;
  made.dataset.name = fmt::format("ckpt {}", id);
  made.dataset.created = 1700000000000000 + id * 1000 + copy;
  made.dataset.checkpoint = id;
  made.dataset.ranks = 4;
  made.complete = true;
  made.flushed = "2026-01-02T03:04:05";
  return made;
}

std::vector<std::string> candidates(const Index& index) {
  std::vector<std::string> names;
  for (const IndexEntry* candidate : index.restart_candidates())
    names.push_back(candidate->directory);
  return names;
}

std::string refusal(const Hash& hash) {
  const auto index = Index::from_hash(hash);
  if (index.ok()) return "accepted";
  EXPECT_EQ(index.status().code(), StatusCode::kCorrupt);
  return std::string(index.status().message());
}

Index sample() {
  Index index;
  for (int id : {1, 3, 2}) index.put(entry(id));
  IndexEntry failed = entry(4);
  failed.failed = {"2026-01-02T03:04:06"};
  failed.fetched = {"2026-01-02T03:04:05", "2026-01-02T03:04:07"};
  index.put(failed);
  index.set_current("scr.dataset.3");
  return index;
}

TEST(Index, ListsTheNewestFirst) {
  std::vector<int> ids;
  const Index index = sample();
  for (const IndexEntry& one : index.entries()) ids.push_back(one.id());
  EXPECT_THAT(ids, ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(index.last_id(), 4);
  EXPECT_EQ(Index().last_id(), 0);
}

TEST(Index, ComesBackFromItsHash) {
  for (const Index& index : {sample(), Index()}) {
    const auto again = Index::from_hash(index.to_hash());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, index);
  }
}

TEST(Index, HasTheKeysOfTheFormat) {
  const Hash hash = sample().to_hash();
  EXPECT_NE(hash.getf("VERSION 2"), nullptr);
  EXPECT_NE(hash.getf("GENERATION 0"), nullptr);
  EXPECT_NE(hash.getf("CURRENT scr.dataset.3"), nullptr);
  EXPECT_NE(hash.getf("DIR scr.dataset.4 DSET 4"), nullptr);
  EXPECT_NE(hash.getf("DSET 4 DIR scr.dataset.4 DSETDESC ID 4"), nullptr);
  EXPECT_NE(hash.getf("DSET 4 DIR scr.dataset.4 COMPLETE 1"), nullptr);
  EXPECT_NE(hash.getf("DSET 4 DIR scr.dataset.4 FLUSHED 2026-01-02T03:04:05"), nullptr);
  EXPECT_NE(hash.getf("DSET 4 DIR scr.dataset.4 FETCHED 2026-01-02T03:04:07"), nullptr);
  EXPECT_NE(hash.getf("DSET 4 DIR scr.dataset.4 FAILED 2026-01-02T03:04:06"), nullptr);
}

TEST(Index, TriesFromTheCurrentOneBackwards) {
  Index index = sample();
  EXPECT_THAT(candidates(index), ElementsAre("scr.dataset.3", "scr.dataset.2", "scr.dataset.1"));
  index.set_current("scr.dataset.2");
  EXPECT_THAT(candidates(index), ElementsAre("scr.dataset.2", "scr.dataset.1"));
}

TEST(Index, WithoutACurrentOneTriesFromTheNewest) {
  Index index = sample();
  index.put(entry(5));
  for (const char* current : {"", "scr.dataset.99"}) {
    index.set_current(current);
    EXPECT_THAT(candidates(index),
                ElementsAre("scr.dataset.5", "scr.dataset.3", "scr.dataset.2", "scr.dataset.1"));
  }
}

TEST(Index, ACurrentOneThatNoRestartCanBeginWithDoesNotHideOthers) {
  Index index;
  IndexEntry output = entry(2);
  output.dataset.checkpoint = 0;
  IndexEntry incomplete = entry(1);
  incomplete.complete = false;
  for (const auto& one : {entry(3), output, incomplete}) index.put(one);
  for (const char* current : {"scr.dataset.2", "scr.dataset.1"}) {
    index.set_current(current);
    EXPECT_THAT(candidates(index), ElementsAre("scr.dataset.3")) << current;
  }
  EXPECT_THAT(std::string(check_restartable(output).message()), HasSubstr("is no checkpoint"));
  EXPECT_THAT(std::string(check_restartable(incomplete).message()), HasSubstr("is not complete"));
}

TEST(Index, RemembersWhatHasLeftItUntilThatComesBack) {
  Index index = sample();
  index.remove("scr.dataset.1");
  index.begin_deletion("scr.dataset.2");
  for (const int id : {1, 2}) {
    EXPECT_TRUE(index.has_left(entry(id).dataset));
    EXPECT_EQ(index.find_dataset(entry(id).dataset), nullptr);
  }
  EXPECT_FALSE(index.has_left(entry(1, 1).dataset)) << "another of the same id";
  EXPECT_EQ(*Index::from_hash(index.to_hash()), index);
  index.put(entry(1));
  EXPECT_FALSE(index.has_left(entry(1).dataset));
  EXPECT_NE(index.find_dataset(entry(1).dataset), nullptr);
  for (int id = 10; id < 1100; ++id) {
    index.put(entry(id));
    index.remove(entry(id).directory);
  }
  EXPECT_FALSE(index.has_left(entry(2).dataset)) << "it must not grow for ever";
  EXPECT_TRUE(index.has_left(entry(1099).dataset));
}

TEST(Index, KnowsAChoiceOfTheUserUntilAnotherBecomesCurrent) {
  Index index = sample();
  EXPECT_EQ(index.chosen(), 0);
  index.choose_current("scr.dataset.1", 42);
  EXPECT_EQ(*Index::from_hash(index.to_hash()), index);
  index.set_current("scr.dataset.1");  // as a fetch does
  EXPECT_EQ(index.chosen(), 42);
  index.set_current("scr.dataset.3");
  EXPECT_EQ(index.chosen(), 0);
}

TEST(Index, NeverTriesWhatIsIncompleteFailedOrNoCheckpoint) {
  Index index;
  IndexEntry incomplete = entry(3);
  incomplete.complete = false;
  IndexEntry output = entry(2);
  output.dataset.checkpoint = 0;
  IndexEntry failed = entry(1);
  failed.failed = {"x"};
  for (const auto& one : {incomplete, output, failed}) index.put(one);
  EXPECT_THAT(candidates(index), IsEmpty());
}

TEST(Index, KeepsSeveralCopiesOfOneId) {
  Index index;
  for (int copy : {0, 1, 2}) index.put(entry(7, copy));
  index.put(entry(6));
  ASSERT_EQ(index.entries().size(), 4U);
  EXPECT_EQ(index.find_name("ckpt 7")->directory, "scr.dataset.7.2");
  EXPECT_EQ(*Index::from_hash(index.to_hash()), index);
  index.remove("scr.dataset.7.2");
  EXPECT_EQ(index.find_name("ckpt 7")->directory, "scr.dataset.7.1");
  EXPECT_THAT(candidates(index), ElementsAre("scr.dataset.7.1", "scr.dataset.7", "scr.dataset.6"));
}

TEST(Index, OfCopiesOfOneDatasetTheLastIsTheNewestHoweverManyThereAre) {
  Index index;
  for (int copy = 0; copy < 25; ++copy) {
    IndexEntry one = entry(7, copy);
    one.dataset.created = 1;
    index.put(one);
  }
  EXPECT_EQ(index.find_name("ckpt 7")->directory, "scr.dataset.7.24");
  EXPECT_EQ(*Index::from_hash(index.to_hash()), index);
}

TEST(Index, PutReplacesTheEntryOfTheSameDirectory) {
  Index index = sample();
  IndexEntry changed = entry(2);
  changed.complete = false;
  index.put(changed);
  EXPECT_EQ(index.entries().size(), 4U);
  EXPECT_FALSE(index.find_directory("scr.dataset.2")->complete);
}

TEST(Index, RefusesDirectoriesThatLeaveItsOwn) {
  for (const char* name : {"../x", "/etc", "a/b", "", ".", ".."}) {
    Hash hash = sample().to_hash();
    Hash& directories = *hash.get("DSET")->get("2")->get("DIR");
    directories.set(name, directories.extract("scr.dataset.2"));
    EXPECT_NE(refusal(hash), "accepted") << name;
    hash = sample().to_hash();
    hash.set_value("CURRENT", name);
    EXPECT_NE(refusal(hash), "accepted") << name;
  }
}

TEST(Index, RefusesWhatDoesNotHoldTogether) {
  Hash hash = sample().to_hash();
  hash.set_value("VERSION", 1);
  EXPECT_THAT(refusal(hash), HasSubstr("version 1"));
  hash = sample().to_hash();
  hash.unset("GENERATION");
  EXPECT_THAT(refusal(hash), HasSubstr("GENERATION"));
  hash = sample().to_hash();
  hash.get("DSET")->get("2")->unset("DIR");
  EXPECT_THAT(refusal(hash), HasSubstr("dataset 2 has no directory"));
  hash = sample().to_hash();
  hash.get("DSET")->get("2")->get("DIR")->get("scr.dataset.2")->unset("DSETDESC");
  EXPECT_THAT(refusal(hash), HasSubstr("scr.dataset.2"));
  hash = sample().to_hash();
  hash.get("DSET")->set("9", hash.get("DSET")->extract("2"));
  EXPECT_THAT(refusal(hash), HasSubstr("wrong id"));
  hash = sample().to_hash();
  Hash& second = *hash.get("DSET")->get("2")->get("DIR");
  second.set("scr.dataset.1", second.extract("scr.dataset.2"));
  EXPECT_THAT(refusal(hash), HasSubstr("listed twice"));
}

// --- on disk -------------------------------------------------------------------------------------

class IndexFile : public ::testing::Test {
 protected:
  IndexFile() { std::filesystem::create_directory(prefix_.path() / ".scr"); }

  std::string prefix() const { return prefix_.path().string(); }
  std::filesystem::path link() const { return prefix_.path() / "scr.current"; }
  void move_link(const std::string& target) {
    std::filesystem::remove(link());
    std::filesystem::create_symlink(target, link());
  }
  Status add(int id, FileSystem& fs = real_file_system()) {
    Summary summary;
    summary.dataset = entry(id).dataset;
    summary.complete = true;
    return add_to_index(fs, prefix(), entry(id).directory, summary);
  }
  Index read() {
    auto index = read_index(real_file_system(), prefix());
    EXPECT_TRUE(index.ok()) << index.status().message();
    return index.ok() ? *index : Index();
  }

  TemporaryDirectory prefix_;
};

TEST_F(IndexFile, ThatIsMissingIsEmpty) { EXPECT_EQ(read(), Index()); }

TEST_F(IndexFile, TheNewestFlushedIsCurrentAndTheLinkNamesIt) {
  ASSERT_TRUE(add(1).ok());
  ASSERT_TRUE(add(2).ok());
  EXPECT_EQ(read().current(), "scr.dataset.2");
  EXPECT_EQ(std::filesystem::read_symlink(link()), ".scr/scr.dataset.2");
  EXPECT_EQ(read().generation(), 2U);
  EXPECT_EQ(read().entries().front().flushed.size(), 19U);
}

TEST_F(IndexFile, AnOlderDatasetThatComesLateDoesNotBecomeCurrent) {
  ASSERT_TRUE(add(2).ok());
  ASSERT_TRUE(add(1).ok());
  EXPECT_EQ(read().current(), "scr.dataset.2");
  EXPECT_EQ(read().entries().size(), 2U);
}

// As on a parallel file system that is mounted without locks.
class WithoutLocks : public IndexFile, public ::testing::WithParamInterface<int> {
 protected:
  static FaultPlan plan(int errno_value) {
    FaultPlan plan = FaultPlan::fail_at(1, errno_value, FaultPlan::kForever);
    plan.operations = FaultPlan::bit(Operation::kLock);
    return plan;
  }
  FaultyFileSystem fs_{real_file_system(), plan(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(IndexFile, WithoutLocks, ::testing::Values(ENOSYS, EOPNOTSUPP, ENOLCK));

TEST_P(WithoutLocks, AChangeThatWasOvertakenIsMadeAnew) {
  ASSERT_TRUE(add(1, fs_).ok());
  int tries = 0;
  const Status status = update_index(fs_, prefix(), [&](Index& index) -> Status {
    if (++tries == 1) {  // another process, at the same time
      EXPECT_TRUE(add(2, fs_).ok());
    }
    index.put(entry(3));
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(read().entries().size(), 3U);
  EXPECT_EQ(read().generation(), 3U);
}

TEST_F(IndexFile, ALockThatFailsForAnotherReasonIsAFailure) {
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.operations = FaultPlan::bit(Operation::kLock);
  FaultyFileSystem fs(real_file_system(), plan);
  EXPECT_EQ(add(1, fs).code(), StatusCode::kIoError);
}

TEST_F(IndexFile, ALinkMovedByHandWinsAndIsWrittenBack) {
  for (int id : {1, 2, 3}) ASSERT_TRUE(add(id).ok());
  const std::vector<std::string> spellings = {".scr/scr.dataset.1", ".scr/scr.dataset.1/",
                                              "./.scr/scr.dataset.1",
                                              prefix() + "/.scr/scr.dataset.1"};
  for (const std::string& spelling : spellings) {
    move_link(spelling);
    EXPECT_EQ(read().current(), "scr.dataset.1") << spelling;
    EXPECT_THAT(candidates(read()), ElementsAre("scr.dataset.1"));
  }
  const Status status =
      update_index(real_file_system(), prefix(), [](Index&) -> Status { return {}; });
  ASSERT_TRUE(status.ok());
  const auto hash = read_hash_file(real_file_system(), prefix() + "/.scr/index.scr");
  EXPECT_EQ(hash->value("CURRENT"), "scr.dataset.1");
  EXPECT_GT(read().chosen(), 0);
}

TEST_F(IndexFile, ALinkToSomethingElseDoesNotCount) {
  ASSERT_TRUE(add(1).ok());
  for (const char* target : {".scr/scr.dataset.9", "/etc", "..", ".scr/../..", ".scr/"}) {
    move_link(target);
    EXPECT_EQ(read().current(), "scr.dataset.1") << target;
  }
  std::filesystem::remove(link());
  EXPECT_EQ(read().current(), "scr.dataset.1");
}

TEST_F(IndexFile, AFileInPlaceOfTheLinkStays) {
  std::filesystem::create_directory(link());
  ASSERT_TRUE(add(1).ok());
  EXPECT_TRUE(std::filesystem::is_directory(link()));
  EXPECT_EQ(read().current(), "scr.dataset.1");
}

TEST_F(IndexFile, WithoutACurrentDatasetTheLinkGoes) {
  ASSERT_TRUE(add(1).ok());
  ASSERT_TRUE(update_index(real_file_system(), prefix(), [](Index& index) -> Status {
                index.remove("scr.dataset.1");
                index.set_current("");
                return {};
              }).ok());
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(link())));
}

TEST_F(IndexFile, AChangeThatFailsChangesNothing) {
  ASSERT_TRUE(add(1).ok());
  const Index before = read();
  const Status status = update_index(real_file_system(), prefix(), [](Index& index) -> Status {
    index.remove("scr.dataset.1");
    return not_found("no such thing");
  });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(read(), before);
}

TEST_F(IndexFile, ThatIsDamagedIsNamedAndNotOverwritten) {
  ASSERT_TRUE(add(1).ok());
  const std::string file = prefix() + "/.scr/index.scr";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(read_index(real_file_system(), prefix()).status().code(), StatusCode::kCorrupt);
  const Status status = add(2);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file));
}

TEST_F(IndexFile, ThatIsDamagedIsSetAsideAndTheMessageSaysHow) {
  FileSystem& fs = real_file_system();
  EXPECT_EQ(*set_damaged_index_aside(fs, prefix()), "") << "there is none";
  const std::string file = prefix() + "/.scr/index.scr";
  for (const char* n : {"1", "2"}) {
    ASSERT_TRUE(add(1).ok());
    EXPECT_EQ(*set_damaged_index_aside(fs, prefix()), "") << "it is sound";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
    for (const Status& status : {read_index(fs, prefix()).status(), add(2)}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("'scr_index --build'"));
    }
    EXPECT_EQ(*set_damaged_index_aside(fs, prefix()), file + ".corrupt." + n);
    EXPECT_THAT(read().entries(), IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::exists(file + ".corrupt.1"));
}

TEST_F(IndexFile, ThatCannotBeReadIsNotTakenForDamaged) {
  ASSERT_TRUE(add(1).ok());
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.operations = FaultPlan::bit(Operation::kRead);
  FaultyFileSystem fs(real_file_system(), plan);
  EXPECT_EQ(set_damaged_index_aside(fs, prefix()).status().code(), StatusCode::kIoError);
  EXPECT_EQ(read().entries().size(), 1U);
}

// A link that a power failure takes back would pass for one moved by hand.
TEST_F(IndexFile, IsWrittenOnlyWhenTheLinkIsDurable) {
  ASSERT_TRUE(add(1).ok());
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.operations = FaultPlan::bit(Operation::kSyncDirectory);
  plan.path = prefix();
  FaultyFileSystem fs(real_file_system(), plan);
  EXPECT_EQ(add(2, fs).code(), StatusCode::kIoError);
  EXPECT_EQ(fs.hits(), 1U);
  EXPECT_EQ(read().last_id(), 1);
}

TEST(Index, AnEntryThatIsPutAgainIsNotBeingDeleted) {
  Index index = sample();
  index.begin_deletion("scr.dataset.2");
  EXPECT_EQ(index.find_directory("scr.dataset.2"), nullptr);
  EXPECT_EQ(*Index::from_hash(index.to_hash()), index);
  EXPECT_THAT(index.deletions(), ElementsAre("scr.dataset.2"));
  index.put(entry(2));
  EXPECT_THAT(index.deletions(), IsEmpty());
  index.begin_deletion("scr.dataset.2");
  Hash hash = index.to_hash();
  hash.at("DELETING").at("../elsewhere");
  EXPECT_NE(refusal(hash), "accepted");
}

TEST_F(IndexFile, IfSomebodyWroteInBetweenTheChangeIsMadeAnewOnWhatTheyWrote) {
  ASSERT_TRUE(add(1).ok());
  int calls = 0;
  const Status status = update_index(real_file_system(), prefix(), [&](Index& index) -> Status {
    if (++calls == 1) {  // as another process could where locks do nothing
      Index theirs = index;
      theirs.put(entry(2));
      theirs.next_generation();
      EXPECT_TRUE(write_hash_file(real_file_system(), prefix() + "/.scr/index.scr",
                                  theirs.to_hash(), Durability::kVolatile)
                      .ok());
    }
    index.put(entry(3));
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(read().entries().size(), 3U);
  EXPECT_EQ(read().generation(), 3U);
}

TEST_F(IndexFile, FourProcessesThatChangeItAtOnceLoseNothing) {
  constexpr int kProcesses = 4;
  constexpr int kEach = 15;
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() == 0) {
      bool ok = true;
      for (int i = 0; i < kEach; ++i) ok = add(process * kEach + i + 1).ok() && ok;
      _exit(ok ? 0 : 1);
    }
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = -1;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read().entries().size(), static_cast<std::size_t>(kProcesses * kEach));
  EXPECT_EQ(read().generation(), static_cast<std::uint64_t>(kProcesses * kEach));
  EXPECT_EQ(read().current(), "scr.dataset.60");
}

// A new dataset must not be forgotten, nor an old one become current, wherever an update is cut.
TEST_F(IndexFile, AnUpdateKilledAnywhereLeavesTheOldOrTheNewIndex) {
  ASSERT_TRUE(add(1).ok());
  ASSERT_TRUE(add(2).ok());
  bool finished = false;
  for (std::uint64_t n = 1; !finished; ++n) {
    const int id = read().last_id() + 1;
    const pid_t child = fork();
    if (child == 0) {
      FaultyFileSystem faulty(real_file_system(), FaultPlan::kill_at(n));
      _exit(add(id, faulty).ok() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    finished = WIFEXITED(status);
    const Index index = read();
    EXPECT_EQ(index.current(), index.entries().front().directory) << "killed at operation " << n;
    EXPECT_GE(index.last_id(), id - 1);
    EXPECT_GT(n, 0U);
    EXPECT_LT(n, 100U);
  }
}

TEST_F(IndexFile, AFailedOperationIsReportedAndLeavesTheOldOrTheNewIndex) {
  ASSERT_TRUE(add(1).ok());
  for (std::uint64_t n = 1;; ++n) {
    const int id = read().last_id() + 1;
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    const Status status = add(id, faulty);
    if (faulty.hits() == 0) break;
    const Index index = read();
    if (status.ok()) {
      EXPECT_EQ(index.last_id(), id);
    }
    EXPECT_EQ(index.current(), index.entries().front().directory) << "operation " << n;
  }
}

TEST_F(IndexFile, HoldsTenThousandDatasets) {
#ifdef __SANITIZE_THREAD__  // which takes its time
  constexpr int kDatasets = 1000;
#else
  constexpr int kDatasets = 10000;
#endif
  ASSERT_TRUE(update_index(real_file_system(), prefix(), [](Index& index) -> Status {
                for (int id = 1; id <= kDatasets; ++id) index.put(entry(id));
                return {};
              }).ok());
  EXPECT_EQ(read().entries().size(), static_cast<std::size_t>(kDatasets));
}

TEST_F(IndexFile, DatasetDirectoriesAreTakenOnlyOnce) {
  FileSystem& fs = real_file_system();
  EXPECT_EQ(*make_dataset_directory(fs, prefix(), 6), "scr.dataset.6");
  EXPECT_EQ(*make_dataset_directory(fs, prefix(), 6), "scr.dataset.6.1");
  EXPECT_EQ(*make_dataset_directory(fs, prefix(), 6), "scr.dataset.6.2");
  EXPECT_EQ(*make_dataset_directory(fs, prefix(), 60), "scr.dataset.60");
  EXPECT_FALSE(make_dataset_directory(fs, prefix() + "/nowhere", 6).ok());
}

}  // namespace
}  // namespace scr::flush
