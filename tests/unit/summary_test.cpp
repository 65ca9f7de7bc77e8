// The summary of a dataset: keys, bytes, and what is refused.
#include "flush/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "flush/parity.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using scr::testing::TemporaryDirectory;
using ::testing::HasSubstr;

DatasetDescriptor dataset() {
  DatasetDescriptor descriptor;
  descriptor.id = 6;
  descriptor.name = "ckpt 6";
  descriptor.created = 1700000000000000;
  descriptor.checkpoint = 6;
  descriptor.ranks = 4;
  descriptor.size = 650;
  descriptor.files = 8;
  descriptor.complete = true;
  return descriptor;
}

Summary plain(bool complete = true) {
  Summary summary;
  summary.dataset = dataset();
  summary.complete = complete;
  return summary;
}

Summary contained() {
  return {.dataset = dataset(),
          .complete = true,
          .containers = true,
          .container_size = 100,
          .container_count = 7,
          .container_parity = 2,
          .stream_size = 650,
          .parity_crcs = {1, 0xffffffff}};
}

std::string refusal(const Hash& hash) {
  const auto summary = Summary::from_hash(hash);
  if (summary.ok()) return "accepted";
  EXPECT_EQ(summary.status().code(), StatusCode::kCorrupt);
  return std::string(summary.status().message());
}

std::string refusal_of_container(const char* key, const char* value) {
  Hash hash = contained().to_hash();
  hash.get("CONTAINER")->set_value(key, value);
  return refusal(hash);
}

TEST(Summary, ComesBackFromItsHash) {
  for (const Summary& summary : {plain(), contained(), plain(false)}) {
    const auto again = Summary::from_hash(summary.to_hash());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, summary);
  }
}

TEST(Summary, HasTheKeysOfTheFormat) {
  const Hash hash = contained().to_hash();
  EXPECT_NE(hash.getf("VERSION 6"), nullptr);
  EXPECT_NE(hash.getf("COMPLETE 1"), nullptr);
  EXPECT_NE(hash.getf("DSET ID 6"), nullptr);
  EXPECT_NE(hash.getf("CONTAINER SIZE 100"), nullptr);
  EXPECT_NE(hash.getf("CONTAINER COUNT 7"), nullptr);
  EXPECT_NE(hash.getf("CONTAINER PARITY 2"), nullptr);
  EXPECT_NE(hash.getf("CONTAINER STREAM 650"), nullptr);
  EXPECT_NE(hash.getf("CONTAINER CRC 1 0xffffffff"), nullptr);
  EXPECT_EQ(plain().to_hash().get("CONTAINER"), nullptr);
}

TEST(Summary, OfAnotherVersionIsRefused) {
  Hash hash = plain().to_hash();
  hash.set_value("VERSION", 5);
  EXPECT_THAT(refusal(hash), HasSubstr("version 5, this program knows 6"));
  hash.unset("VERSION");
  EXPECT_THAT(refusal(hash), HasSubstr("VERSION"));
}

TEST(Summary, WithoutADatasetIsRefused) {
  Hash hash = plain().to_hash();
  hash.unset("DSET");
  EXPECT_THAT(refusal(hash), HasSubstr("without a dataset"));
}

TEST(Summary, WhoseContainersDoNotFitItsSizeIsRefused) {
  EXPECT_THAT(refusal_of_container("COUNT", "6"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal_of_container("COUNT", "8"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal_of_container("SIZE", "0"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal_of_container("STREAM", "601000"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal_of_container("STREAM", "-650"), HasSubstr("STREAM"));
}

TEST(Summary, OfMoreContainersThanAnyDatasetHasIsRefused) {
  Hash hash = contained().to_hash();
  Hash& containers = *hash.get("CONTAINER");
  containers.set_value("SIZE", 1);
  containers.set_value("COUNT", "18446744073709551615");
  containers.set_value("STREAM", "18446744073709551615");
  EXPECT_THAT(refusal(hash), HasSubstr("impossible number of containers"));
  EXPECT_THAT(refusal_of_container("PARITY", "18446744073709551615"),
              HasSubstr("impossible number of containers"));
}

TEST(Summary, NeedsAChecksumForEachParityContainer) {
  EXPECT_THAT(refusal_of_container("PARITY", "1"), HasSubstr("checksum for each parity"));
  EXPECT_THAT(refusal_of_container("PARITY", "3"), HasSubstr("checksum for each parity"));
  Hash hash = contained().to_hash();
  hash.get("CONTAINER")->unset("CRC");
  EXPECT_THAT(refusal(hash), HasSubstr("checksum for each parity"));
  hash = contained().to_hash();
  hash.get("CONTAINER")->get("CRC")->set_value("1", "rot");
  EXPECT_NE(refusal(hash), "accepted");
}

TEST(Summary, TellsTheLengthsOfContainers) {
  const Summary summary = contained();
  EXPECT_EQ(container_length(summary, 0), 100U);
  EXPECT_EQ(container_length(summary, 6), 50U);
  EXPECT_EQ(parity_container_count(summary), 2U);
  EXPECT_EQ(parity_container_length(summary, 1), 100U);
}

TEST(Summary, IsWrittenAndReadWithItsNameInMessages) {
  TemporaryDirectory directory;
  FileSystem& fs = real_file_system();
  EXPECT_EQ(read_summary(fs, directory.path()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(write_summary(fs, directory.path(), contained()).ok());
  EXPECT_EQ(*read_summary(fs, directory.path()), contained());

  std::filesystem::resize_file(directory / "summary.scr", 30);
  const auto cut = read_summary(fs, directory.path());
  EXPECT_EQ(cut.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr(directory / "summary.scr"));
}

}  // namespace
}  // namespace scr::flush
