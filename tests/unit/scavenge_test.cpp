// At the end of an allocation, with the newest dataset only in the caches: it is brought to the
// prefix directory byte by byte, whatever may be lost, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/flush_file.hpp"
#include "flush/clean_up.hpp"
#include "flush/delete_dataset.hpp"
#include "flush/flush.hpp"
#include "tests/unit/scavenge_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  std::string scheme;
  std::vector<std::vector<int>> bearable;  // sets of nodes to lose
  std::vector<int> unbearable;
  bool containers;
  bool shared;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.scheme + (info.param.containers ? "InContainers" : "AsFiles") +
         (info.param.shared ? "WithShared" : "");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool containers : {false, true}) {
    for (const bool shared : {false, true}) {
      cases.push_back({"SINGLE", {{}}, {1}, containers, shared});
      cases.push_back({"PARTNER", {{}, {0}, {3}, {0, 2}}, {1, 2}, containers, shared});
      cases.push_back({"XOR", {{}, {0}, {1}, {2}, {3}}, {0, 2}, containers, shared});
      cases.push_back({"RS", {{}, {0}, {0, 1}, {1, 3}, {0, 3}}, {0, 1, 2}, containers, shared});
    }
  }
  return cases;
}

std::vector<std::string> settings_of(const Case& c) {
  std::vector<std::string> settings = {"SCR_COPY_TYPE=" + c.scheme, "SCR_SET_FAILURES=2"};
  if (c.containers) {
    settings.insert(settings.end(),
                    {"SCR_USE_CONTAINERS=1", "SCR_CONTAINER_SIZE=700", "SCR_CONTAINER_PARITY=1"});
  }
  return settings;
}

class Scavenge : public ::testing::TestWithParam<Case> {};

TEST_P(Scavenge, SavesEveryByteWhenLossesCanBeBorne) {
  for (const std::vector<int>& lost : GetParam().bearable) {
    for (const bool down_is_known : {true, false}) {
      SCOPED_TRACE(fmt::format("lost nodes [{}], {}", fmt::join(lost, " "), down_is_known));
      ScavengeJob job(settings_of(GetParam()));
      job.shared = GetParam().shared;
      job.write({1});
      job.down_is_known = down_is_known;
      for (const int node : lost) job.lose(node);
      const SavedDataset saved = job.save_one();
      ASSERT_NO_FATAL_FAILURE(job.expect_saved(saved, 1));
      EXPECT_EQ(saved.rebuilt.size(), 2 * lost.size());
      if (lost.empty() && !down_is_known) continue;
      // Once more: it is there, and nothing happens.
      const auto before = ScavengeJob::snapshot(job.prefix());
      auto again = job.save();
      ASSERT_TRUE(again.ok());
      EXPECT_THAT(again->datasets, IsEmpty());
      EXPECT_EQ(ScavengeJob::snapshot(job.prefix()), before);
    }
  }
}

TEST_P(Scavenge, LeavesTheOlderCheckpointCurrentWhenTooMuchIsLost) {
  ScavengeJob job(settings_of(GetParam()));
  job.shared = GetParam().shared;
  job.write({1}, {"SCR_FLUSH=1"});
  job.write({2});
  ASSERT_EQ(job.index().current(), "scr.dataset.1");
  for (const int node : GetParam().unbearable) job.lose(node);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  ASSERT_EQ(outcome->datasets.size(), 1U);
  EXPECT_FALSE(outcome->all_saved());
  EXPECT_EQ(outcome->datasets[0].state, SaveState::kUnrecoverable);
  EXPECT_THAT(outcome->datasets[0].message, HasSubstr("unrecoverable"));
  EXPECT_THAT(outcome->datasets[0].message,
              HasSubstr(std::to_string(2 * GetParam().unbearable[0])));  // a rank that is lost
  EXPECT_EQ(job.index().current(), "scr.dataset.1");
  EXPECT_EQ(job.index().entries().size(), 1U);
  job.expect_bytes("scr.dataset.1", 1);
  // The next start of the program takes away what came of it.
  ASSERT_TRUE(clean_up(real_file_system(), job.prefix(), {}).ok());
  EXPECT_THAT(job.leftovers(), IsEmpty());
  job.expect_bytes("scr.dataset.1", 1);
}

// What rank2file says of application files, but for their times, which are those of a run.
std::map<int, RankFiles> listed_files(const ScavengeJob& job) {
  auto ranks = read_rank2file_block(real_file_system(), job.prefix() + "/.scr/scr.dataset.1", 0);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  if (!ranks.ok()) return {};
  for (auto& [rank, files] : *ranks) {
    std::erase_if(files, [](const StoredFile& file) { return !file.fetch; });
    for (StoredFile& file : files) {
      EXPECT_EQ(file.mtime_ns.has_value(), !file.contained() && !file.shared) << file.file;
      file.mtime_ns.reset();
    }
  }
  return *ranks;
}

TEST_P(Scavenge, LeavesWhatAFlushLeaves) {
  ScavengeJob flushed(settings_of(GetParam()));
  ScavengeJob job(settings_of(GetParam()));
  flushed.shared = job.shared = GetParam().shared;
  flushed.write({1}, {"SCR_FLUSH=1"});
  job.write({1});
  if (!GetParam().bearable.back().empty()) job.lose(GetParam().bearable.back().front());
  job.save_one();
  auto expected = ScavengeJob::snapshot(flushed.prefix());
  auto found = ScavengeJob::snapshot(job.prefix());
  // These tell the time, and whose job it was.
  EXPECT_TRUE(listed_files(job) == listed_files(flushed));
  for (const char* name : {".scr/index.scr", ".scr/scr.dataset.1/summary.scr", ".scr/owner.scr",
                           ".scr/made.scr", ".scr/scr.dataset.1/rank2file.0.scr"}) {
    EXPECT_EQ(expected.erase(name), found.erase(name)) << name;
  }
  // Redundancy data that was needed, and is listed, stays besides (KeptParity).
  std::erase_if(found, [&](const auto& file) {
    return ScavengeJob::is_listed(job.prefix() + "/" + file.first);
  });
  EXPECT_EQ(found, expected);
  if (!GetParam().shared || GetParam().containers) return;
  const auto time = [](const ScavengeJob& from) {
    return std::filesystem::last_write_time(from.prefix() + "/ckpt.1/all.h5");
  };
  EXPECT_EQ(time(job), time(flushed));
}

INSTANTIATE_TEST_SUITE_P(AllSchemes, Scavenge, ::testing::ValuesIn(all_cases()), name_of);

TEST(ScavengeModes, AreThoseOfTheFilesThatAreReplaced) {
  ScavengeJob job;
  job.shared = true;
  job.write({1});
  std::filesystem::create_directory(job.prefix() + "/ckpt.1");
  const auto private_mode = std::filesystem::perms(0600);
  const std::vector<std::string> files = {"ckpt.1/rank_0.h5", "ckpt.1/all.h5"};
  for (const std::string& file : files) {
    std::ofstream(job.prefix() + "/" + file) << "old";
    std::filesystem::permissions(job.prefix() + "/" + file, private_mode);
  }
  job.expect_saved(job.save_one(), 1);
  for (const std::string& file : files) {
    EXPECT_EQ(std::filesystem::status(job.prefix() + "/" + file).permissions(), private_mode)
        << file;
  }
}

// --- which datasets

TEST(ScavengeChoice, AnOlderCheckpointOfTheCacheIsSavedIfTheNewestCannotBe) {
  ScavengeJob job({"SCR_CACHE_SIZE=2"});
  job.write({1, 2});
  std::filesystem::remove(job.cached(0, "rank_0.h5").parent_path().parent_path().parent_path() /
                          "dataset.2/ckpt.2/rank_0.h5");
  std::filesystem::remove(job.cached(1, "rank_2.h5").parent_path().parent_path().parent_path() /
                          "dataset.2/ckpt.2/rank_2.h5");
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  ASSERT_EQ(outcome->datasets.size(), 2U);
  EXPECT_EQ(outcome->datasets[0].dataset.id, 2);
  EXPECT_EQ(outcome->datasets[0].state, SaveState::kUnrecoverable);
  EXPECT_EQ(outcome->datasets[1].dataset.id, 1);
  EXPECT_EQ(outcome->datasets[1].state, SaveState::kSaved) << outcome->datasets[1].message;
  EXPECT_EQ(job.index().current(), "scr.dataset.1");
  job.expect_bytes("scr.dataset.1", 1);
}

TEST(ScavengeChoice, OnlyTheNewestOfSeveralCachedCheckpointsIsSaved) {
  ScavengeJob job({"SCR_CACHE_SIZE=9"});
  job.write({1, 2});
  job.lose(2);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  EXPECT_EQ(outcome->datasets[0].dataset.id, 2);
  EXPECT_EQ(job.index().current(), "scr.dataset.2");
}

TEST(ScavengeChoice, ADatasetThatWasNeverCompleteIsNotTouched) {
  ScavengeJob job;
  job.write({});
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(outcome->datasets, IsEmpty());
}

TEST(ScavengeChoice, ADatasetCanBeNamed) {
  ScavengeJob job({"SCR_CACHE_SIZE=2"});
  job.write({1, 2});
  SaveRequest request = job.request();
  request.dataset = 1;
  auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  job.expect_saved(outcome->datasets[0], 1);
  request.dataset = 5;
  EXPECT_EQ(save_datasets(real_file_system(), request).status().code(), StatusCode::kNotFound);
}

// The nodes' flush files still say that the second one has been flushed.
TEST(ScavengeChoice, WhatIsInAPrefixDirectoryNoMoreIsSavedAgain) {
  ScavengeJob job({"SCR_CACHE_SIZE=3"});
  job.write({1, 2}, {"SCR_FLUSH=2"});
  ASSERT_EQ(job.index().current(), "scr.dataset.2");
  std::filesystem::remove_all(job.prefix());
  std::filesystem::create_directory(job.prefix());
  EXPECT_EQ(job.save_one().dataset.id, 2);
  EXPECT_EQ(job.index().current(), "scr.dataset.2");
  job.expect_bytes("scr.dataset.2", 2);
}

TEST(ScavengeChoice, WhatAUserHasDeletedDoesNotComeBackAndTheOneBeforeIsSaved) {
  ScavengeJob job({"SCR_CACHE_SIZE=3"});
  job.write({1, 2}, {"SCR_FLUSH=2"});
  ASSERT_TRUE(delete_dataset(real_file_system(), job.prefix(), "scr.dataset.2").ok());
  EXPECT_EQ(job.save_one().dataset.id, 1);
  EXPECT_EQ(job.index().entries().size(), 1U);
}

TEST(ScavengeChoice, AUsersChoiceOfTheCurrentOneStays) {
  ScavengeJob job({"SCR_CACHE_SIZE=3"});
  job.write({1, 2, 3}, {"SCR_FLUSH=2"});
  ASSERT_TRUE(update_index(real_file_system(), job.prefix(), [](Index& index) -> Status {
                index.choose_current("scr.dataset.2", choice_time(index));
                return {};
              }).ok());
  EXPECT_EQ(job.save_one().dataset.id, 3);
  EXPECT_EQ(job.index().current(), "scr.dataset.2");
}

TEST(ScavengePrefix, ThatIsNotTheJobsIsRefusedAndTheRightOneNamed) {
  ScavengeJob job;
  job.write({1});
  const std::string wrong = job.prefix() + ".wrong";
  std::filesystem::create_directory(wrong);
  SaveRequest request = job.request();
  request.job.prefix = wrong;
  request.run = [&](const std::vector<std::string>& nodes, NodeCommand command) -> Status {
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      command.job = {job.job(static_cast<int>(node)).control, wrong};
      SCR_RETURN_IF_ERROR(run_node_command(real_file_system(), nodes[node], command).status());
    }
    return {};
  };
  const auto refused = save_datasets(real_file_system(), request);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("scr_postrun --prefix " + job.prefix() + "'"));
  EXPECT_FALSE(std::filesystem::exists(wrong + "/.scr/index.scr"));
  const NodeJob elsewhere = {job.job(0).control, wrong};
  EXPECT_FALSE(mark_flushed(real_file_system(), elsewhere, 1).ok());
  // By another name for the right one.
  std::filesystem::remove_all(wrong);
  std::filesystem::create_directory_symlink(job.prefix(), wrong);
  const auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  ASSERT_EQ(outcome->datasets.size(), 1U);
  job.expect_saved(outcome->datasets[0], 1);
}

TEST(ScavengePrefix, ThatIsNotThereIsNotMade) {
  ScavengeJob job;
  job.write({1});
  std::filesystem::remove_all(job.prefix());
  EXPECT_EQ(job.save().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(job.prefix()));
}

TEST(ScavengeChoice, TheFlushFilesOfTheNodesTellThatItIsSaved) {
  ScavengeJob job;
  job.write({1});
  job.save_one();
  for (int node = 0; node < ScavengeJob::kNodes; ++node) {
    const auto flush = read_flush_file(real_file_system(),
                                       job.job(node).control + "/" + std::string(kFlushFileName));
    ASSERT_TRUE(flush.ok());
    EXPECT_FALSE(flush->need_flush(1));
  }
}

// --- rounds

TEST(ScavengeRounds, RedundancyDataIsCopiedOnlyOfSetsThatNeedIt) {
  ScavengeJob job;
  job.write({1});
  job.save_one();
  EXPECT_EQ(job.commands.size(), 3U);  // survey, copy, mark
  ScavengeJob other;
  other.write({1});
  other.lose(1);
  other.save_one();
  EXPECT_EQ(other.commands.size(), 3U);  // the node is known to be down: one round is enough
  ScavengeJob unknown;
  unknown.write({1});
  unknown.down_is_known = false;
  unknown.lose(1);
  unknown.save_one();
  EXPECT_EQ(unknown.commands.size(), 4U);
  EXPECT_EQ(unknown.commands[2].copy.missing.to_text(), "2-3");
}

TEST(ScavengeRounds, ANodeThatDoesNotAnswerIsNamedAndRebuilt) {
  ScavengeJob job;
  job.write({1});
  SaveRequest request = job.request();
  const auto run = request.run;
  request.run = [&](std::vector<std::string> nodes, const NodeCommand& command) {
    std::erase(nodes, "node3");
    return run(nodes, command);
  };
  auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->silent, ElementsAre("node3"));
  ASSERT_EQ(outcome->datasets.size(), 1U);
  job.expect_saved(outcome->datasets[0], 1);
}

// The node is up, its copy failed: that is not the same as a loss.
TEST(ScavengeRounds, NodesWhoseCopyFailsAreNoLossYet) {
  ScavengeJob job;
  job.write({1});
  SaveRequest request = job.request();
  const auto run = request.run;
  request.run = [&](std::vector<std::string> nodes, const NodeCommand& command) {
    if (command.kind == NodeCommand::Kind::kCopy) nodes.resize(2);
    return run(nodes, command);
  };
  auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  EXPECT_EQ(outcome->datasets[0].state, SaveState::kFailed);
  EXPECT_THAT(outcome->datasets[0].message, HasSubstr("scr_copy failed on node2, node3"));
  job.expect_saved(job.save_one(), 1);
}

// --- nodes that the program did not use, and nodes under other names

TEST(ScavengeNodes, ASpareNodeHasNothingAndIsNoTrouble) {
  ScavengeJob job;
  job.spares = 2;
  job.write({1});
  job.lose(1);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->problems, IsEmpty());
  EXPECT_THAT(outcome->silent, IsEmpty());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  job.expect_saved(outcome->datasets[0], 1);
}

// It would be asked for ever for what it never had.
TEST(ScavengeNodes, WhatIsLostIsUnrecoverableAlsoWithASpareNode) {
  ScavengeJob job;
  job.spares = 2;
  job.write({1});
  job.lose(0);
  job.lose(2);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->problems, IsEmpty());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  EXPECT_EQ(outcome->datasets[0].state, SaveState::kUnrecoverable) << outcome->datasets[0].message;
}

// Only that the directory is not there says that there is nothing.
TEST(ScavengeNodes, AControlDirectoryThatCannotBeOpenedIsAFailure) {
  ScavengeJob job;
  job.spares = 1;
  job.write({1});
  std::filesystem::create_directories(job.local(ScavengeJob::kNodes) + "/someone");
  std::filesystem::create_directory_symlink(job.job(0).control,
                                            job.job(ScavengeJob::kNodes).control);
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->problems, ElementsAre(HasSubstr("node4: ")));
}

TEST(ScavengeNodes, NodesAreKnownByTheirNamesInTheList) {
  ScavengeJob job;
  job.listed = [](int node) { return fmt::format("10.0.0.{}", node); };
  job.write({1});
  SaveRequest request = job.request();
  const auto run = request.run;
  request.run = [&](std::vector<std::string> nodes, const NodeCommand& command) {
    std::erase(nodes, "10.0.0.3");
    return run(nodes, command);
  };
  auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->silent, ElementsAre("10.0.0.3"));
  EXPECT_THAT(outcome->problems, IsEmpty());
  ASSERT_EQ(outcome->datasets.size(), 1U);
  job.expect_saved(outcome->datasets[0], 1);
  EXPECT_EQ(outcome->datasets[0].rebuilt.size(), 2U);
}

// --- nothing is found

TEST(ScavengeNothing, IsNotKnownIfANodeDoesNotAnswer) {
  ScavengeJob job;
  job.spares = 1;
  job.write({1});
  SaveRequest request = job.request();
  const auto run = request.run;
  request.run = [&](const std::vector<std::string>&, const NodeCommand& command) {
    return run({"node4"}, command);
  };
  auto outcome = save_datasets(real_file_system(), request);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_THAT(outcome->datasets, IsEmpty());
  EXPECT_THAT(outcome->unknown, HasSubstr("4 of 5 node(s) did not answer"));
  EXPECT_FALSE(outcome->all_saved());
  request.dataset = 1;
  EXPECT_THAT(std::string(save_datasets(real_file_system(), request).status().message()),
              HasSubstr("no answer from node0, node1, node2, node3"));
}

TEST(ScavengeNothing, IsNotKnownIfNodesCannotReadWhatTheyHave) {
  for (const bool directory : {true, false}) {
    ScavengeJob job;
    job.write({1});
    for (int node = 0; node < ScavengeJob::kNodes; ++node) {
      const std::string control = job.job(node).control;
      if (directory) {
        std::filesystem::permissions(control, std::filesystem::perms::all);
        continue;
      }
      for (const auto& entry : std::filesystem::directory_iterator(control)) {
        if (entry.path().filename().string().starts_with("filemap"))
          std::ofstream(entry.path()) << "damage";
      }
    }
    auto outcome = job.save();
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    EXPECT_THAT(outcome->datasets, IsEmpty());
    EXPECT_THAT(outcome->unknown, HasSubstr("4 of 4 node(s)")) << directory;
    EXPECT_FALSE(outcome->problems.empty());
  }
}

TEST(ScavengeNothing, IsSaidWithItsReasonIfTheJobWasNeverThere) {
  ScavengeJob job;
  auto outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(outcome->unknown, "");
  EXPECT_THAT(outcome->why_nothing, HasSubstr("no node has the job's control directory"));
  EXPECT_TRUE(outcome->all_saved());
  job.write({});
  outcome = job.save();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(outcome->unknown, "");
  EXPECT_EQ(outcome->why_nothing, "");
}

// The redundancy files that came along are listed, marked NOFETCH.
class KeptParity : public ::testing::TestWithParam<std::string> {
 protected:
  // Lists of the saved dataset: names of redundancy files, by rank.
  static std::map<int, std::vector<std::string>> redundancy_of(const ScavengeJob& job) {
    std::map<int, std::vector<std::string>> names;
    const auto hash =
        read_hash_file(real_file_system(), job.dataset_path("scr.dataset.1") + "/rank2file.0.scr");
    EXPECT_TRUE(hash.ok()) << hash.status().to_string();
    for (int rank = 0; hash.ok() && rank < ScavengeJob::kRanks; ++rank) {
      const Hash* files = hash->getf("RANK %d FILE", rank);
      if (files == nullptr) continue;
      for (const auto& file : files->elements()) {
        if (file.hash.contains("NOFETCH")) names[rank].push_back(file.key);
      }
    }
    return names;
  }
};

INSTANTIATE_TEST_SUITE_P(Schemes, KeptParity, ::testing::Values("XOR", "RS"),
                         [](const auto& param) { return param.param; });

TEST_P(KeptParity, IsListedVerifiedNotFetchedAndDeletedWithItsDataset) {
  ScavengeJob job({"SCR_COPY_TYPE=" + GetParam()});
  job.write({1});
  job.lose(2);
  const SavedDataset saved = job.save_one();
  ASSERT_NO_FATAL_FAILURE(job.expect_saved(saved, 1));
  const auto kept = redundancy_of(job);
  EXPECT_EQ(kept.size(), static_cast<std::size_t>(ScavengeJob::kRanks)) << "also of lost ranks";
  for (const auto& [rank, names] : kept) {
    for (const std::string& name : names)
      EXPECT_TRUE(std::filesystem::exists(job.dataset_path("scr.dataset.1") + "/" + name)) << name;
  }
  std::vector<std::string> problems;
  ASSERT_TRUE(verify_dataset(*job.fs, job.prefix(), "scr.dataset.1", nullptr, problems).ok());
  EXPECT_THAT(problems, IsEmpty());

  for (int node = 0; node < ScavengeJob::kNodes; ++node) {  // all caches are lost
    std::filesystem::remove_all(job.local(node));
    std::filesystem::create_directories(job.local(node));
  }
  const std::string damaged = job.dataset_path("scr.dataset.1") + "/" + kept.at(0).front();
  std::ofstream(damaged, std::ios::app) << "x";
  ASSERT_TRUE(verify_dataset(*job.fs, job.prefix(), "scr.dataset.1", nullptr, problems).ok());
  EXPECT_THAT(problems, ElementsAre(HasSubstr(damaged)));
  job.write({}, {"SCR_FETCH=1"});  // does not read it
  EXPECT_EQ(job.index().find_directory("scr.dataset.1")->fetched.size(), 1U);
  EXPECT_THAT(job.index().find_directory("scr.dataset.1")->failed, IsEmpty());

  ASSERT_TRUE(delete_dataset(*job.fs, job.prefix(), "scr.dataset.1").ok());
  EXPECT_FALSE(std::filesystem::exists(job.dataset_path("scr.dataset.1")));
}

// Without a loss nothing of it is needed; copies of other ranks' files are no redundancy any more.
TEST(KeptRedundancy, IsNoneWithoutALossAndNoneOfPartners) {
  for (const bool loss : {false, true}) {
    ScavengeJob job({std::string("SCR_COPY_TYPE=") + (loss ? "PARTNER" : "XOR")});
    job.write({1});
    if (loss) job.lose(2);
    ASSERT_NO_FATAL_FAILURE(job.expect_saved(job.save_one(), 1));
    for (const auto& [name, bytes] : ScavengeJob::snapshot(job.prefix())) {
      EXPECT_FALSE(name.ends_with(".xor") || name.ends_with(".partner")) << name;
    }
  }
}

}  // namespace
}  // namespace scr::flush::testing
