// Scavenges that are cut, find damage, or meet files that somebody has made to harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/filemap_journal.hpp"
#include "flush/clean_up.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "tests/unit/scavenge_damage.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void cut(const std::filesystem::path& path) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
}

// --- damage in the caches

TEST(ScavengeDamage, AFlippedByteInACachedFileIsFoundAndItsRankRebuilt) {
  for (const bool containers : {false, true}) {
    ScavengeJob job(containers ? in_containers() : std::vector<std::string>());
    job.write({1});
    flip(job.cached(1, "rank_3.h5"), 17);
    const SavedDataset saved = job.save_one();
    ASSERT_NO_FATAL_FAILURE(job.expect_saved(saved, 1));
    EXPECT_THAT(saved.rebuilt, ::testing::ElementsAre(3));
  }
}

TEST(ScavengeDamage, ATruncatedCachedFileIsFoundAndItsRankRebuilt) {
  ScavengeJob job;
  job.write({1});
  cut(job.cached(3, "rank_7.h5"));
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(outcome->problems, Contains(HasSubstr("rank_7.h5")));
  job.expect_saved(outcome->datasets.at(0), 1);
}

TEST(ScavengeDamage, DamageOfTwoMembersOfAnXorSetIsUnrecoverable) {
  ScavengeJob job;
  job.write({1});
  flip(job.cached(1, "rank_3.h5"), 17);
  flip(job.cached(2, "3_of_4_in_1.xor"), -1);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->datasets.at(0).state, SaveState::kUnrecoverable);
  EXPECT_THAT(job.index().entries(), IsEmpty());
}

// What is a survivor's copy in the prefix directory may be damaged after it was copied; the rebuild
// reads it, and must not use it.
TEST(ScavengeDamage, ADamagedSurvivorInThePrefixIsNeverUsedToRebuild) {
  for (const char* scheme : {"XOR", "RS"}) {
    ScavengeJob job({std::string("SCR_COPY_TYPE=") + scheme, "SCR_SET_FAILURES=2"});
    job.write({1});
    job.lose(0);
    SaveRequest request = job.request();
    const auto run = request.run;
    request.run = [&](const std::vector<std::string>& nodes, const NodeCommand& command) {
      const Status status = run(nodes, command);
      if (command.kind == NodeCommand::Kind::kCopy) {
        const std::string path = job.prefix() + "/ckpt.1/.rank_2.h5.scr-1-";
        for (const auto& entry : std::filesystem::directory_iterator(job.prefix() + "/ckpt.1")) {
          if (entry.path().string().starts_with(path)) flip(entry.path(), 5);
        }
      }
      return status;
    };
    auto outcome = save_datasets(real_file_system(), request);
    ASSERT_TRUE(outcome.ok());
    ASSERT_EQ(outcome->datasets.size(), 1U);
    if (std::string(scheme) == "XOR") {
      EXPECT_EQ(outcome->datasets[0].state, SaveState::kUnrecoverable);
      EXPECT_THAT(job.index().entries(), IsEmpty());
    } else {
      EXPECT_THAT(outcome->datasets[0].rebuilt, ::testing::ElementsAre(0, 1, 2));
      job.expect_saved(outcome->datasets[0], 1);
    }
  }
}

// --- cut at any instant

// Every operation of one node's copy fails once, as if it were killed there; the next scavenge ends
// what it began.
// Containers, and shared files.
class ScavengeCut : public ::testing::TestWithParam<std::pair<bool, bool>> {
 protected:
  ScavengeCut() : job(GetParam().first ? in_containers() : std::vector<std::string>()) {
    job.shared = GetParam().second;
  }
  ScavengeJob job;
};
INSTANTIATE_TEST_SUITE_P(Layouts, ScavengeCut,
                         ::testing::Values(std::pair(false, false), std::pair(true, false),
                                           std::pair(false, true), std::pair(true, true)),
                         [](const auto& layout) {
                           return std::string(layout.param.first ? "Containers" : "Files") +
                                  (layout.param.second ? "WithShared" : "");
                         });

FaultPlan dead_from(std::uint64_t operation) {
  return FaultPlan::fail_at(operation, EIO, FaultPlan::kForever);
}

TEST_P(ScavengeCut, ACopyThatStopsAnywhereIsTakenUpAgain) {
  job.write({1});
  std::uint64_t step = 1;
  for (std::uint64_t n = 1;; n += step, step = n < 20 ? 1 : 7) {
    FaultyFileSystem dead(real_file_system(), dead_from(n));
    job.node_fs[1] = &dead;
    // Three of four nodes answer, so XOR makes up for the one that is dead; but here it shall not:
    SaveRequest request = job.request();
    const auto run = request.run;
    bool stop = false;
    request.run = [&](const std::vector<std::string>& nodes, const NodeCommand& command) -> Status {
      if (stop) return failed_precondition("killed");
      const Status status = run(nodes, command);
      stop = command.kind == NodeCommand::Kind::kCopy;
      return status;
    };
    auto first = save_datasets(real_file_system(), request);
    job.node_fs.clear();
    const bool hit = dead.hits() > 0;
    if (job.index().entries().empty()) {
      auto outcome = job.save();
      ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
      ASSERT_EQ(outcome->datasets.size(), 1U) << "operation " << n;
      ASSERT_EQ(outcome->datasets[0].state, SaveState::kSaved)
          << "operation " << n << ": " << outcome->datasets[0].message;
    }
    job.expect_bytes("scr.dataset.1", 1);
    ASSERT_THAT(job.leftovers(), IsEmpty()) << "operation " << n;
    ASSERT_TRUE(delete_dataset(real_file_system(), job.prefix(), "scr.dataset.1").ok());
    // The nodes believe that it is in the prefix directory.
    for (int node = 0; node < ScavengeJob::kNodes; ++node)
      std::filesystem::remove(job.job(node).control + "/flush.scrinfo");
    if (!hit) break;
  }
}

TEST_P(ScavengeCut, ACommitOrRebuildThatStopsAnywhereIsEndedLater) {
  job.write({1});
  job.lose(2);
  std::uint64_t step = 1;
  for (std::uint64_t n = 1;; n += step, step = n < 20 ? 1 : 5) {
    FaultyFileSystem dead(real_file_system(), dead_from(n));
    job.fs = &dead;
    auto first = job.save();
    job.fs = &real_file_system();
    const bool hit = dead.hits() > 0;
    const Index after_death = job.index();
    for (const IndexEntry& entry : after_death.entries()) ASSERT_TRUE(entry.complete);
    auto outcome = job.save();
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    ASSERT_TRUE(outcome->all_saved())
        << "operation " << n << ": "
        << (outcome->datasets.empty() ? "" : outcome->datasets[0].message);
    const Index now = job.index();
    ASSERT_EQ(now.entries().size(), 1U) << "operation " << n;
    const std::string directory = now.entries().front().directory;
    EXPECT_EQ(now.current(), directory);
    job.expect_bytes(directory, 1);
    // A directory that was taken before it was said for what goes at the next start of the program.
    ASSERT_TRUE(clean_up(real_file_system(), job.prefix(), {}).ok());
    ASSERT_THAT(job.leftovers(), IsEmpty()) << "operation " << n;
    ASSERT_TRUE(delete_dataset(real_file_system(), job.prefix(), directory).ok());
    for (int node = 0; node < ScavengeJob::kNodes; ++node)
      std::filesystem::remove(job.job(node).control + "/flush.scrinfo");
    if (!hit) break;
  }
}

// A flush that was cut has copied some of it already; what it wrote is kept.
TEST(ScavengeAfterAFlush, TakesUpWhatACutFlushHasBegun) {
  ScavengeJob job;
  job.write({1});
  auto survey = survey_node(real_file_system(), job.job(0), "node0");
  ASSERT_TRUE(survey.ok());
  const DatasetDescriptor dataset = survey->datasets.at(0).dataset;
  auto name = begin_scavenge(real_file_system(), job.prefix(), dataset, {});
  ASSERT_TRUE(name.ok() && name->has_value());
  auto again = begin_scavenge(real_file_system(), job.prefix(), dataset, {});
  ASSERT_TRUE(again.ok() && again->has_value());
  EXPECT_EQ(**name, **again);
  // Another layout cannot use it.
  auto other = begin_scavenge(real_file_system(), job.prefix(), dataset, {700, 0});
  ASSERT_TRUE(other.ok() && other->has_value());
  auto intent = read_intent(real_file_system(), job.dataset_path(**other));
  ASSERT_TRUE(intent.ok());
  EXPECT_EQ(intent->layout, "CONTAINERS 700 0");
  const SavedDataset saved = job.save_one();
  job.expect_saved(saved, 1);
}

// --- hostile files

// Changes the hash of the first filemap of a node that lists the dataset.
void change_filemap(const ScavengeJob& job, int node, int rank,
                    const std::function<void(Hash& entry)>& change) {
  for (const auto& entry : std::filesystem::directory_iterator(job.job(node).control)) {
    if (!is_filemap_name(entry.path().filename().string())) continue;
    auto hash = read_hash_file(real_file_system(), entry.path());
    ASSERT_TRUE(hash.ok());
    Hash* found = const_cast<Hash*>(hash->getf("RANK %d DSET 1", rank));
    if (found == nullptr) continue;
    change(*found);
    ASSERT_TRUE(
        write_hash_file(real_file_system(), entry.path(), *hash, Durability::kVolatile).ok());
    return;
  }
  FAIL() << "no filemap of rank " << rank << " on node " << node;
}

TEST(ScavengeHostile, AFilemapWithNamesThatLeadElsewhereIsRefusedAndNothingIsTouched) {
  const Outside outside;
  const std::vector<std::string> names = {"../../../../evil",
                                          outside.path() + "/evil",
                                          "a/../../evil",
                                          "ckpt.1/new\nline",
                                          "",
                                          "./x",
                                          "a//b"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    ScavengeJob job;
    job.write({1});
    change_filemap(job, 1, 2,
                   [&](Hash& entry) { rename_file(entry, ScavengeJob::file_name(1, 2, 0), name); });
    auto outcome = job.save();
    ASSERT_TRUE(outcome.ok());
    // The filemap counts as lost; redundancy makes up for its rank.
    EXPECT_THAT(outcome->problems, Contains(HasSubstr("filemap_")));
    ASSERT_EQ(outcome->datasets.size(), 1U);
    job.expect_saved(outcome->datasets[0], 1);
    outside.expect_untouched();
  }
}

TEST(ScavengeHostile, AFilemapThatNamesAnotherDirectoryThanTheJobsCacheIsRefused) {
  const Outside outside;
  for (const std::string& directory :
       {outside.path(), std::string("/etc"), outside.path() + "/someone/scr.8"}) {
    ScavengeJob job;
    job.write({1});
    change_filemap(job, 1, 2, [&](Hash& entry) { entry.set_value("DIR", directory); });
    auto outcome = job.save();
    ASSERT_TRUE(outcome.ok());
    EXPECT_THAT(outcome->problems, Contains(HasSubstr("is refused")));
    job.expect_saved(outcome->datasets.at(0), 1);
    outside.expect_untouched();
  }
}

TEST(ScavengeHostile, AFileOfTheCacheThatIsASymbolicLinkIsNotRead) {
  const Outside outside;
  ScavengeJob job;
  job.write({1});
  const auto path = job.cached(1, "rank_2.h5");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(outside.path() + "/precious", path);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(outcome->problems, Contains(HasSubstr("rank_2.h5")));
  job.expect_saved(outcome->datasets.at(0), 1);
  outside.expect_untouched();
}

TEST(ScavengeHostile, ALinkToElsewhereInThePrefixIsNotFollowed) {
  const Outside outside;
  ScavengeJob job;
  job.write({1});
  std::filesystem::create_directory_symlink(outside.path(), job.prefix() + "/ckpt.1");
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  EXPECT_NE(outcome->datasets[0].state, SaveState::kSaved);
  EXPECT_THAT(outcome->problems, Contains(HasSubstr("ckpt.1")));
  EXPECT_THAT(job.index().entries(), IsEmpty());
  outside.expect_untouched();
  ASSERT_TRUE(clean_up(real_file_system(), job.prefix(), {}).ok());
  outside.expect_untouched();
}

TEST(ScavengeHostile, AControlDirectoryThatOthersCanWriteToIsRefused) {
  ScavengeJob job;
  job.write({1});
  std::filesystem::permissions(job.job(1).control, std::filesystem::perms::all);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(outcome->problems, Contains(HasSubstr("others can write to it")));
  job.expect_saved(outcome->datasets.at(0), 1);
}

TEST(ScavengeHostile, ARankFilemapThatLiesIsRefusedByNameAndNothingIsTouched) {
  const Outside outside;
  const std::vector<std::function<void(Hash&)>> lies = {
      [&](Hash& entry) { rename_file(entry, ScavengeJob::file_name(1, 2, 0), "../evil"); },
      [&](Hash& entry) {
        rename_file(entry, ScavengeJob::file_name(1, 2, 0), outside.path() + "/precious");
      },
      [&](Hash& entry) { rename_file(entry, ScavengeJob::file_name(1, 2, 0), "new\nline"); },
      [&](Hash& entry) { rename_file(entry, ScavengeJob::file_name(1, 2, 0), ".scr/index.scr"); },
      [&](Hash& entry) { entry.set_value("DIR", outside.path()); },
      [&](Hash& entry) { entry.get("DSETDESC")->set_value("CREATED", 5); },
      [&](Hash& entry) { entry.get("DSETDESC")->set_value("ID", 2); },
      [&](Hash& entry) { entry.set_value("FILES", 1); },
      [&](Hash& entry) {
        entry.at("FILE").at(ScavengeJob::file_name(1, 2, 0)).at("META").set_value("TYPE", "XOR");
      },
      // Another rank's file.
      [&](Hash& entry) {
        rename_file(entry, ScavengeJob::file_name(1, 2, 0), ScavengeJob::file_name(1, 1, 0));
      },
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    SCOPED_TRACE(i);
    ScavengeJob job;
    job.write({1});
    const Stopped stopped(job);
    Hash hash = stopped.read(2);
    lies[i](const_cast<Hash&>(*hash.getf("RANK 2 DSET 1")));
    stopped.write(2, hash);
    auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
    ASSERT_TRUE(scan.ok()) << scan.status().to_string();
    EXPECT_EQ(scan->missing.to_text(), "2");
    EXPECT_THAT(scan->problems, Contains(HasSubstr("2.scrfilemap")));
    EXPECT_EQ(commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1").code(),
              StatusCode::kFailedPrecondition);
    EXPECT_THAT(job.index().entries(), IsEmpty());
    outside.expect_untouched();
    // The node copies it again.
    job.expect_saved(job.save_one(), 1);
  }
}

Hash* first_segment(const Hash& hash) {
  return const_cast<Hash*>(
      hash.getf("RANK 2 DSET 1 FLUSHDESC FILE %s SEG 0", ScavengeJob::file_name(1, 2, 0).c_str()));
}

TEST(ScavengeHostile, SegmentsThatLeaveTheirContainersAreRefused) {
  const Outside outside;
  const std::vector<std::pair<std::string, std::string>> lies = {
      {"FILE", "../ctr.0.scr"},
      {"FILE", outside.path() + "/precious"},
      {"FILE", "summary.scr"},
      {"FILE", "ctr.00.scr"},
      {"FILE", "ctr.99999999999.scr"},
      {"OFFSET", "18446744073709551615"},
      {"OFFSET", "699"},
      {"LENGTH", "1"}};
  for (const auto& [key, value] : lies) {
    SCOPED_TRACE(key + " " + value);
    ScavengeJob job(in_containers());
    job.write({1});
    const Stopped stopped(job);
    Hash hash = stopped.read(2);
    Hash* segment = first_segment(hash);
    ASSERT_NE(segment, nullptr);
    segment->set_value(key, value);
    stopped.write(2, hash);
    auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
    ASSERT_TRUE(scan.ok());
    EXPECT_EQ(scan->missing.to_text(), "2");
    EXPECT_THAT(scan->problems, Contains(HasSubstr("2.scrfilemap")));
    outside.expect_untouched();
    job.expect_saved(job.save_one(), 1);
  }
}

TEST(ScavengeHostile, TwoFilesAtOnePlaceOfAContainerAreRefused) {
  ScavengeJob job(in_containers());
  job.write({1});
  const Stopped stopped(job);
  Hash hash = stopped.read(2);
  Hash* segment = first_segment(hash);
  ASSERT_NE(segment, nullptr);
  segment->set_value("FILE", "ctr.0.scr");
  segment->set_value("OFFSET", 0);
  stopped.write(2, hash);
  const Status status = commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1");
  EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.to_string();
  EXPECT_THAT(job.index().entries(), IsEmpty());
}

// Rank filemaps and redundancy files in the prefix, each byte flipped and each length cut: what is
// damaged is found, and never makes a wrong file.
TEST(ScavengeHostile, NoFlipOrCutOfOurOwnFilesMakesAWrongDataset) {
  ScavengeJob job;
  job.write({1});
  job.lose(3);
  const Stopped stopped(job);
  const auto before = ScavengeJob::snapshot(job.prefix());
  std::size_t tried = 0;
  for (const char* name : {"0.scrfilemap", "1_of_4_in_0.xor", "flush.scr"}) {
    const std::string path = stopped.directory + "/" + name;
    const std::string bytes = read_bytes(path);
    ASSERT_FALSE(bytes.empty()) << name;
    for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 40) {
      for (const bool flipped : {true, false}) {
        std::string damaged = flipped ? bytes : bytes.substr(0, at);
        if (flipped) damaged[at] = static_cast<char>(damaged[at] ^ 16);
        std::ofstream(path, std::ios::binary) << damaged;
        auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
        if (scan.ok() &&
            rebuild_missing(real_file_system(), job.prefix(), "scr.dataset.1", *scan).ok() &&
            commit_scavenge(real_file_system(), job.prefix(), "scr.dataset.1").ok()) {
          ADD_FAILURE() << name << " byte " << at << (flipped ? " flipped" : " cut");
        } else if (!scan.ok()) {
          EXPECT_THAT(std::string(scan.status().message()), HasSubstr(name));
        }
        ++tried;
        EXPECT_THAT(job.index().entries(), IsEmpty());
        for (const auto& [file, content] : before) {
          std::ofstream(job.prefix() + "/" + file, std::ios::binary) << content;
        }
        std::filesystem::remove(stopped.directory + "/6.scrfilemap");
        std::filesystem::remove(stopped.directory + "/7.scrfilemap");
      }
    }
  }
  EXPECT_GT(tried, 100U);
  job.expect_saved(job.save_one(), 1);
}

TEST(ScavengeHostile, ADamagedIndexStopsTheScavengeAndStaysAsItIs) {
  ScavengeJob job;
  job.write({1});
  const std::string path = job.prefix() + "/.scr/index.scr";
  std::ofstream(path) << "not an index";
  auto outcome = job.save();
  EXPECT_EQ(outcome.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("index.scr"));
  EXPECT_EQ(read_bytes(path), "not an index");
}

TEST(ScavengeHostile, ANumberOfRanksThatIsAbsurdTakesNoTimeOrMemory) {
  ScavengeJob job;
  job.write({1});
  const Stopped stopped(job);
  auto intent = read_intent(real_file_system(), stopped.directory);
  ASSERT_TRUE(intent.ok());
  intent->dataset.ranks = 2147483647;
  ASSERT_TRUE(
      write_intent(real_file_system(), stopped.directory, *intent, Durability::kVolatile).ok());
  auto scan = scan_dataset(real_file_system(), job.prefix(), "scr.dataset.1");
  ASSERT_TRUE(scan.ok());
  EXPECT_FALSE(scan->complete());
  EXPECT_FALSE(scan->recoverable());
}

TEST(ScavengeHostile, ANameOfADirectoryThatLeadsElsewhereIsRefused) {
  ScavengeJob job;
  job.write({1});
  for (const char* name : {"../..", "/etc", "a/b", "..", ""}) {
    EXPECT_FALSE(scan_dataset(real_file_system(), job.prefix(), name).ok()) << name;
    NodeCopyRequest request;
    request.dataset = 1;
    request.directory = name;
    auto report = copy_node(real_file_system(), job.job(0), "node0", request);
    EXPECT_FALSE(report.ok() && report->error.empty()) << name;
  }
}

}  // namespace
}  // namespace scr::flush::testing
