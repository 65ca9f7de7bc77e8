// Reports of nodes, lists of ranks, layouts: what scr_copy and scr_scavenge tell each other.
#include "flush/node_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "flush/node_command.hpp"
#include "flush/rank_filemap.hpp"
#include "flush/save.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using ::testing::ElementsAre;

TEST(RankRanges, JoinsWhatTouchesAndKeepsTheRestApart) {
  RankRanges ranks;
  for (const int rank : {7, 0, 2, 1, 9, 8, 20}) ranks.add(rank);
  ranks.add(3, 5);
  EXPECT_EQ(ranks.to_text(), "0-5,7-9,20");
  EXPECT_EQ(ranks.count(), 10U);
  EXPECT_TRUE(ranks.contains(4));
  EXPECT_FALSE(ranks.contains(6));
  EXPECT_FALSE(ranks.contains(21));
  ranks.add(6);
  EXPECT_EQ(ranks.to_text(), "0-9,20");
  EXPECT_EQ(*RankRanges::from_text(ranks.to_text()), ranks);
  EXPECT_TRUE(RankRanges::from_text("")->empty());
}

TEST(RankRanges, RefusesTextThatIsNoListOfRanks) {
  for (const char* text : {",", "1,", "3-1", "-1", "1-", "a", "1 2", "0x1", "1-2-3", "2147483647",
                           "99999999999999999999"}) {
    EXPECT_FALSE(RankRanges::from_text(text).ok()) << text;
  }
}

NodeReport example() {
  NodeReport report;
  report.host = "node1";
  report.problems = {"one", "two\nlines"};
  report.copied.add(2, 3);
  report.bytes = 123;
  NodeDataset dataset;
  dataset.dataset.id = 6;
  dataset.dataset.name = "ckpt 6";
  dataset.dataset.created = 17;
  dataset.dataset.ranks = 8;
  dataset.layout = {700, 2};
  dataset.in_prefix = true;
  dataset.ranks.add(2, 3);
  report.datasets = {dataset};
  return report;
}

TEST(NodeReport, SaysThatTheJobWasNeverThere) {
  NodeReport report;
  report.host = "10.0.0.1";
  report.absent = true;
  EXPECT_EQ(*NodeReport::from_hash(report.to_hash()), report);
  report.other_prefix = "/elsewhere";
  EXPECT_EQ(*NodeReport::from_hash(report.to_hash()), report);
}

TEST(NodeReport, ComesBackFromItsFile) {
  const ::scr::testing::TemporaryDirectory root;
  NodeReport other;
  other.host = "node2.site";
  other.error = "no control directory";
  for (const NodeReport& report : {example(), other})
    ASSERT_TRUE(write_node_report(real_file_system(), root.path().string(), report).ok());
  // Neither a damaged report nor one under another name counts, nor a link.
  std::ofstream(root / "node3.scrnode") << "x";
  std::filesystem::copy(root / "node1.scrnode", root / "node4.scrnode");
  std::filesystem::create_symlink(root / "node1.scrnode", root / "node5.scrnode");
  const auto reports = read_node_reports(real_file_system(), root.path().string());
  ASSERT_TRUE(reports.ok()) << reports.status().to_string();
  EXPECT_THAT(*reports, ElementsAre(::testing::Pair("node1", example()),
                                    ::testing::Pair("node2.site", other)));
}

TEST(NodeReport, RefusesAHostThatWouldLeadElsewhere) {
  for (const char* host : {"", "..", "a/b", "/etc/x", "a\nb"}) {
    NodeReport report = example();
    report.host = host;
    EXPECT_FALSE(NodeReport::from_hash(report.to_hash()).ok()) << host;
    EXPECT_FALSE(write_node_report(real_file_system(), "/dev/null", report).ok());
  }
}

TEST(Layout, IsTheTextOfTheIntent) {
  EXPECT_EQ(Layout().to_text(), "FILES");
  EXPECT_EQ((Layout{700, 1}).to_text(), "CONTAINERS 700 1");
  EXPECT_EQ(*Layout::from_text("CONTAINERS 700 1"), (Layout{700, 1}));
  for (const char* text : {"", "FILES ", "CONTAINERS", "CONTAINERS 0 0", "CONTAINERS 1 129",
                           "CONTAINERS -1 0", "CONTAINERS 1 0 0"}) {
    EXPECT_EQ(Layout::from_text(text).status().code(), StatusCode::kCorrupt) << text;
  }
}

TEST(RankFilemapNames, AreThoseOfRanksAndRedundancyFilesOnly) {
  EXPECT_EQ(rank_of_filemap_name("12.scrfilemap"), 12);
  for (const char* name : {"012.scrfilemap", ".scrfilemap", "-1.scrfilemap", "1.scrfilemap.tmp",
                           "4294967296.scrfilemap"}) {
    EXPECT_EQ(rank_of_filemap_name(name), std::nullopt) << name;
  }
  for (const char* name : {"3_of_4_in_0.xor", "1_of_2_in_7.partner", "1_of_3_in_0.rs"})
    EXPECT_TRUE(is_redundancy_file_name(name)) << name;
  for (const char* name : {"3_of_4_in_0", "a_of_4_in_0.xor", "3_of_4_in_0.h5", "x/3_of_4_in_0.xor"})
    EXPECT_FALSE(is_redundancy_file_name(name)) << name;
}

TEST(Surveys, TheNewestCompleteDatasetOfAnIdCountsAndItsHoldersAreKnown) {
  NodeReport old_one = example();
  NodeReport fresh = example();
  fresh.host = "node2";
  fresh.datasets[0].dataset.created = 18;
  fresh.datasets[0].dataset.complete = true;
  NodeReport other = fresh;
  other.host = "node3";
  other.datasets[0].dataset.complete = false;
  const auto merged = merge_surveys({{"node1", old_one}, {"node2", fresh}, {"node3", other}});
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].dataset.created, 18);
  EXPECT_TRUE(merged[0].dataset.complete);
  EXPECT_EQ(merged[0].holders.size(), 2U);
}

TEST(NodeCommand, IsTheOptionsOfScrCopy) {
  NodeCommand command;
  command.job = {"/dev/shm/me/scr.7", "/p"};
  EXPECT_THAT(to_words(command, "node1-ib"), ElementsAre("--cntldir", "/dev/shm/me/scr.7",
                                                         "--prefix", "/p", "--host", "node1-ib"));
  command.kind = NodeCommand::Kind::kCopy;
  command.copy.dataset = 6;
  command.copy.directory = "scr.dataset.6";
  command.copy.failed_hosts = {"node3"};
  command.copy.missing.add(6, 7);
  command.copy.assigned[1] = "node0";
  command.copy.copy.buffer = 1000;
  command.report = "/p/.scr/scavenge.0";
  EXPECT_THAT(to_words(command, "10.0.0.1"),
              ElementsAre("--cntldir", "/dev/shm/me/scr.7", "--prefix", "/p", "--host", "10.0.0.1",
                          "--report", "/p/.scr/scavenge.0", "--id", "6", "--dir", "scr.dataset.6",
                          "--buf", "1000", "--umask", "22", "--down", "node3", "--partner", "6-7",
                          "--only", "1=node0"));
}

}  // namespace
}  // namespace scr::flush
