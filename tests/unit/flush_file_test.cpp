// The flush file, which tells what a job would lose with its cache, and the nodes file.
#include "core/base/flush_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/nodes_file.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;

FlushState checkpoint(bool in_prefix) {
  return {.name = "c", .in_cache = true, .in_prefix = in_prefix, .is_checkpoint = true};
}

FlushFile sample() {
  FlushFile flush;
  flush.at(17) = checkpoint(false);
  flush.at(18) = checkpoint(true);
  flush.at(18).name = "ckpt 18";
  flush.at(19) = {.in_cache = true, .flushing = true, .is_output = true};
  return flush;
}

std::string refusal(const Hash& hash) {
  const auto flush = FlushFile::from_hash(hash);
  if (flush.ok()) return "accepted";
  EXPECT_EQ(flush.status().code(), StatusCode::kCorrupt);
  return std::string(flush.status().message());
}

TEST(FlushFile, ComesBackFromItsHash) {
  const auto again = FlushFile::from_hash(sample().to_hash());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, sample());
}

TEST(FlushFile, HasTheKeysOfTheFormat) {
  const Hash hash = sample().to_hash();
  EXPECT_NE(hash.getf("DSET 17 LOCATION CACHE"), nullptr);
  EXPECT_EQ(hash.getf("DSET 17 LOCATION PFS"), nullptr);
  EXPECT_NE(hash.getf("DSET 18 LOCATION PFS"), nullptr);
  EXPECT_NE(hash.getf("DSET 18 CKPT 1"), nullptr);
  EXPECT_NE(hash.getf("DSET 19 LOCATION FLUSHING"), nullptr);
  EXPECT_NE(hash.getf("DSET 19 OUTPUT 1"), nullptr);
  EXPECT_EQ(hash.get("DSET")->get("18")->value("NAME"), "ckpt 18");
}

TEST(FlushFile, ADatasetNeedsAFlushUntilItIsInThePrefix) {
  const FlushFile flush = sample();
  EXPECT_TRUE(flush.need_flush(17));
  EXPECT_FALSE(flush.need_flush(18));
  EXPECT_TRUE(flush.need_flush(19)) << "a copy that is on its way may never arrive";
  EXPECT_FALSE(flush.need_flush(20));
}

TEST(FlushFile, TheLatestCheckpointIsTheGreatestInTheCache) {
  FlushFile flush = sample();
  EXPECT_EQ(flush.latest_checkpoint(), 18);
  flush.get(18)->in_cache = false;
  EXPECT_EQ(flush.latest_checkpoint(), 17);
  flush.remove(17);
  EXPECT_EQ(flush.latest_checkpoint(), std::nullopt);
}

TEST(FlushFile, TheLatestCheckpointAndEveryOutputMustBeSaved) {
  FlushFile flush = sample();
  EXPECT_THAT(flush.datasets_to_save(), ElementsAre(19)) << "17 is older than 18, which is safe";
  flush.get(18)->in_prefix = false;
  EXPECT_THAT(flush.datasets_to_save(), ElementsAre(18, 19));
  flush.get(18)->in_prefix = true;
  flush.get(19)->in_prefix = true;
  EXPECT_THAT(flush.datasets_to_save(), IsEmpty());
  EXPECT_THAT(flush.datasets(), ElementsAre(17, 18, 19));
}

TEST(FlushFile, RefusesWhatDoesNotFollowTheFormat) {
  EXPECT_EQ(refusal(Hash()), "key 'DSET' is missing");
  for (const char* bad : {"0", "-1", "x", "", "007", "2147483648"}) {
    Hash hash;
    hash.at("DSET").at(bad).at("LOCATION");
    EXPECT_THAT(refusal(hash), HasSubstr("is not a dataset id")) << bad;
  }
  Hash hash = sample().to_hash();
  hash.at("DSET").at("17").at("LOCATION").at("MOON");
  EXPECT_EQ(refusal(hash), "dataset 17: unknown location 'MOON'");
  hash = sample().to_hash();
  hash.at("DSET").at("17").unset("LOCATION");
  EXPECT_EQ(refusal(hash), "dataset 17: key 'LOCATION' is missing");
  hash = sample().to_hash();
  hash.at("DSET").at("17").set_value("CKPT", "yes");
  EXPECT_EQ(refusal(hash), "dataset 17: key 'CKPT' has the value 'yes', which is not 0 or 1");
}

TEST(FlushFile, IsWrittenAndRead) {
  TemporaryDirectory directory;
  const At at = directory / std::string(kFlushFileName);
  EXPECT_EQ(read_flush_file(real_file_system(), at).status().code(), StatusCode::kNotFound);
  for (const FlushFile& flush : {sample(), FlushFile()}) {
    ASSERT_TRUE(write_flush_file(real_file_system(), at, flush).ok());
    EXPECT_EQ(*read_flush_file(real_file_system(), at), flush);
  }
}

TEST(NodesFile, IsWrittenAndRead) {
  TemporaryDirectory directory;
  const At at = directory / std::string(kNodesFileName);
  FileSystem& fs = real_file_system();
  EXPECT_EQ(read_nodes_file(fs, at).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(write_nodes_file(fs, at, 4).ok());
  EXPECT_EQ(*read_nodes_file(fs, at), 4);
  EXPECT_EQ(read_hash_file(fs, at)->print(), "NODES\n  4\n");
  EXPECT_EQ(write_nodes_file(fs, at, 0).code(), StatusCode::kInvalidArgument);
}

TEST(NodesFile, RefusesNumbersThatCannotBe) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  for (const char* bad : {"0", "-1", "x", "2147483648"}) {
    Hash hash;
    hash.set_value("NODES", bad);
    ASSERT_TRUE(write_hash_file(fs, directory / "n", hash, Durability::kVolatile).ok());
    const auto nodes = read_nodes_file(fs, directory / "n");
    ASSERT_FALSE(nodes.ok()) << bad;
    EXPECT_THAT(std::string(nodes.status().message()), HasSubstr("is not a valid nodes file"));
  }
}

}  // namespace
}  // namespace scr
