// Dataset descriptors: there and back, and every number that cannot be refused.
#include "core/base/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scr {
namespace {

using ::testing::HasSubstr;

DatasetDescriptor sample() {
  DatasetDescriptor dataset;
  dataset.id = 6;
  dataset.name = "scr.dataset.6";
  dataset.created = 1312850690668536;
  dataset.user = "user1";
  dataset.job_name = "simulation123";
  dataset.job_id = "112573";
  dataset.cluster = "atlas";
  dataset.checkpoint = 6;
  dataset.output = true;
  dataset.ranks = 4;
  dataset.size = 2097182;
  dataset.files = 4;
  dataset.complete = true;
  return dataset;
}

std::string refusal(const Hash& hash) {
  const auto dataset = DatasetDescriptor::from_hash(hash);
  if (dataset.ok()) return "accepted";
  EXPECT_EQ(dataset.status().code(), StatusCode::kCorrupt);
  return std::string(dataset.status().message());
}

TEST(DatasetDescriptor, ComesBackFromItsHash) {
  const auto again = DatasetDescriptor::from_hash(sample().to_hash());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, sample());
}

TEST(DatasetDescriptor, HasTheKeysOfTheFormat) {
  const Hash hash = sample().to_hash();
  EXPECT_EQ(hash.value("ID"), "6");
  EXPECT_EQ(hash.value("NAME"), "scr.dataset.6");
  EXPECT_EQ(hash.value("CREATED"), "1312850690668536");
  EXPECT_EQ(hash.value("USER"), "user1");
  EXPECT_EQ(hash.value("JOBNAME"), "simulation123");
  EXPECT_EQ(hash.value("JOBID"), "112573");
  EXPECT_EQ(hash.value("CKPT"), "6");
  EXPECT_EQ(hash.value("SIZE"), "2097182");
  EXPECT_EQ(hash.value("FILES"), "4");
  EXPECT_EQ(hash.value("COMPLETE"), "1");
}

TEST(DatasetDescriptor, OneWithoutACheckpointIdIsNoCheckpoint) {
  DatasetDescriptor output = sample();
  output.checkpoint = 0;
  EXPECT_FALSE(output.to_hash().contains("CKPT"));
  const auto again = DatasetDescriptor::from_hash(output.to_hash());
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->is_checkpoint());
  EXPECT_TRUE(again->output);
}

TEST(DatasetDescriptor, RefusesNumbersThatCannotBe) {
  for (const char* key : {"ID", "CKPT", "RANKS"}) {
    for (const char* bad : {"-1", "2147483648", "99999999999999999999", "x", "", "1 "}) {
      Hash hash = sample().to_hash();
      hash.set_value(key, bad);
      EXPECT_THAT(refusal(hash), HasSubstr(key)) << key << "=" << bad;
    }
  }
  Hash zero = sample().to_hash();
  zero.set_value("ID", 0);
  EXPECT_THAT(refusal(zero), HasSubstr("'ID'"));
  Hash huge = sample().to_hash();
  huge.set_value("SIZE", "18446744073709551616");
  EXPECT_THAT(refusal(huge), HasSubstr("'SIZE'"));
}

TEST(DatasetDescriptor, RefusesAHashWithoutItsKeys) {
  EXPECT_THAT(refusal(Hash()), HasSubstr("'ID' is missing"));
  for (const char* key : {"ID", "NAME", "CREATED", "SIZE", "FILES"}) {
    Hash hash = sample().to_hash();
    hash.unset(key);
    EXPECT_THAT(refusal(hash), HasSubstr(key));
  }
}

TEST(DatasetDescriptor, RefusesTwoValuesForOneKey) {
  Hash hash = sample().to_hash();
  hash.at("NAME").at("another");
  EXPECT_THAT(refusal(hash), HasSubstr("'NAME' has not exactly one value"));
}

}  // namespace
}  // namespace scr
