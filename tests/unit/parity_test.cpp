// Parity containers: every loss that the scheme bears is rebuilt byte by byte, every other is
// refused.
#include "flush/parity.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "core/base/faulty_filesystem.hpp"
#include "flush/clean_up.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::flush {
namespace {

using redundancy::testing::crc_of;
using redundancy::testing::random_bytes;
using redundancy::testing::read_bytes;
using redundancy::testing::write_bytes;
using scr::testing::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A dataset directory with containers and their parity; one file of rank 0 fills all of them.
class Dataset {
 public:
  Dataset(std::uint64_t container_size, std::uint64_t stream, std::uint64_t parity) {
    std::filesystem::create_directories(directory());
    summary.dataset.id = 1;
    summary.dataset.name = "ckpt";
    summary.complete = true;
    summary.containers = true;
    summary.container_size = container_size;
    summary.stream_size = stream;
    summary.container_count = (stream + container_size - 1) / container_size;
    summary.container_parity = parity;
    const std::string bytes = random_bytes(stream, 3);
    StoredFile file;
    file.file = "file";
    file.size = stream;
    file.crc = crc_of(bytes);
    file.in_container = true;
    file.segments = place_in_containers(0, stream, container_size);
    std::uint64_t position = 0;
    for (Segment& segment : file.segments) {
      const std::string part = bytes.substr(position, segment.length);
      segment.crc = crc_of(part);
      write_bytes(path(segment.file), part);
      position += segment.length;
    }
    EXPECT_TRUE(write_rank2file_block(real_file_system(), directory(), 0, {{0, {file}}}).ok());
    EXPECT_TRUE(write_rank2file_top(real_file_system(), directory(), 1).ok());
    encode();
    EXPECT_TRUE(write_summary(real_file_system(), directory(), summary).ok());
    before = snapshot();
  }

  std::string prefix() const { return root_.path().string(); }
  std::string directory() const { return root_ / ".scr/scr.dataset.1"; }
  std::filesystem::path path(const std::string& name) const {
    return std::filesystem::path(directory()) / name;
  }
  // Data containers, then parity containers.
  std::vector<std::string> containers() const {
    std::vector<std::string> names;
    for (std::uint64_t i = 0; i < summary.container_count; ++i) names.push_back(container_name(i));
    for (std::uint64_t i = 0; i < parity_container_count(summary); ++i) {
      names.push_back(parity_container_name(i));
    }
    return names;
  }
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      files[entry.path().filename().string()] = read_bytes(entry.path());
    }
    return files;
  }
  void restore() {
    for (const auto& [name, bytes] : before) write_bytes(path(name), bytes);
  }
  void flip(const std::string& name, std::size_t offset) {
    std::string bytes = read_bytes(path(name));
    bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 8);
    write_bytes(path(name), bytes);
  }
  Result<std::vector<std::string>> repair(FileSystem& fs = real_file_system()) {
    return repair_containers(fs, directory());
  }
  // Containers that a repair was about to make.
  std::vector<std::string> left_over() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / ".scr")) {
      const std::string name = entry.path().filename().string();
      if (name.find(".tmp") != std::string::npos) names.push_back(name);
    }
    return names;
  }
  void expect_data_as_before(const std::string& what) {
    const auto now = snapshot();
    for (std::uint64_t i = 0; i < summary.container_count; ++i) {
      ASSERT_TRUE(now.contains(container_name(i))) << what;
      ASSERT_EQ(now.at(container_name(i)), before.at(container_name(i))) << what;
    }
    for (const auto& [name, bytes] : now) ASSERT_TRUE(before.contains(name)) << name << " remains";
  }

  Summary summary;
  std::map<std::string, std::string> before;

 private:
  void encode() {
    std::vector<std::string> data;
    std::vector<std::string> parity;
    for (std::uint64_t i = 0; i < summary.container_count; ++i) {
      data.push_back(path(container_name(i)));
    }
    for (std::uint64_t i = 0; i < parity_container_count(summary); ++i) {
      parity.push_back(path(parity_container_name(i)));
    }
    std::vector<std::uint32_t> crcs;
    InProcessWorld::run(3, [&](Communicator& comm) {
      ParityWriter writer(real_file_system(), summary, data, parity);
      const Status written = writer.write_share(comm.rank(), comm.size(), nullptr);
      auto result = writer.collect(comm, written);
      ASSERT_TRUE(result.ok()) << result.status().message();
      if (comm.rank() == 0) crcs = *result;
    });
    summary.parity_crcs = crcs;
  }
  TemporaryDirectory root_;
};

TEST(ParityShare, IsThePartOfTheWindowsThatARankComputes) {
  Summary summary;
  summary.containers = true;
  summary.container_size = std::uint64_t{5} << 20U;  // five windows
  summary.container_count = 40;                      // two groups
  summary.stream_size = 40 * summary.container_size;
  summary.container_parity = 2;
  const ParityWriter writer(real_file_system(), summary, {}, {});
  EXPECT_DOUBLE_EQ(writer.share_of(0, 1), 1.0);
  EXPECT_DOUBLE_EQ(writer.share_of(0, 3), 0.4);  // windows 0 and 3 of each group
  EXPECT_DOUBLE_EQ(writer.share_of(2, 3), 0.2);
  EXPECT_DOUBLE_EQ(writer.share_of(7, 8), 0.0);
}

struct Shape {
  std::uint64_t containers;
  std::uint64_t parity;
};

class AnyLoss : public ::testing::TestWithParam<Shape> {};

TEST_P(AnyLoss, WithinTheParityIsRebuiltAndAnyOtherIsRefused) {
  const Shape shape = GetParam();
  Dataset dataset(1000, 1000 * shape.containers - 357, shape.parity);
  const std::vector<std::string> names = dataset.containers();
  for (unsigned mask = 1; mask < 1U << names.size(); ++mask) {
    const auto losses = redundancy::testing::members_of(mask);
    std::vector<std::string> lost;
    std::vector<std::string> lost_data;
    for (int i : losses) {
      const std::string& name = names[static_cast<std::size_t>(i)];
      std::filesystem::remove(dataset.path(name));
      lost.push_back(name);
      if (static_cast<std::uint64_t>(i) < shape.containers) lost_data.push_back(name);
    }
    const auto repaired = dataset.repair();
    const std::string what = fmt::format("losses {}", fmt::join(losses, " "));
    if (lost_data.empty() || losses.size() <= shape.parity) {
      ASSERT_TRUE(repaired.ok()) << what << ": " << repaired.status().message();
      EXPECT_EQ(*repaired, lost) << what;
      ASSERT_EQ(dataset.snapshot(), dataset.before) << what;
    } else {
      ASSERT_EQ(repaired.status().code(),
                shape.parity == 0 ? StatusCode::kCorrupt : StatusCode::kUnrecoverable)
          << what;
      EXPECT_THAT(std::string(repaired.status().message()), HasSubstr(lost_data.front()));
      for (const std::string& name : lost_data) {
        EXPECT_FALSE(std::filesystem::exists(dataset.path(name)));
      }
    }
    dataset.restore();
  }
}

INSTANTIATE_TEST_SUITE_P(Parity, AnyLoss,
                         ::testing::Values(Shape{1, 1}, Shape{1, 2}, Shape{2, 1}, Shape{4, 1},
                                           Shape{4, 2}, Shape{3, 3}, Shape{3, 0}));

TEST(Parity, AFlippedByteAnywhereInAContainerIsRepaired) {
  Dataset dataset(100, 250, 1);
  for (const char* name : {"ctr.0.scr", "ctr.1.scr", "ctr.2.scr"}) {
    for (std::size_t offset = 0; offset < dataset.before.at(name).size(); ++offset) {
      dataset.flip(name, offset);
      const auto repaired = dataset.repair();
      ASSERT_TRUE(repaired.ok()) << repaired.status().message();
      EXPECT_THAT(*repaired, ElementsAre(name));
      ASSERT_NO_FATAL_FAILURE(dataset.expect_data_as_before(name));
    }
  }
}

TEST(Parity, DamagedParityIsNeverUsed) {
  Dataset dataset(100, 250, 1);
  for (std::size_t offset : {std::size_t{0}, std::size_t{50}, std::size_t{99}}) {
    dataset.flip("ctr.parity.0.scr", offset);
    std::filesystem::remove(dataset.path("ctr.1.scr"));
    const auto repaired = dataset.repair();
    EXPECT_EQ(repaired.status().code(), StatusCode::kUnrecoverable);
    EXPECT_FALSE(std::filesystem::exists(dataset.path("ctr.1.scr")));
    dataset.restore();
  }
  std::filesystem::resize_file(dataset.path("ctr.parity.0.scr"), 99);
  std::filesystem::remove(dataset.path("ctr.1.scr"));
  EXPECT_EQ(dataset.repair().status().code(), StatusCode::kUnrecoverable);
}

TEST(Parity, ThatIsDamagedIsRebuiltFromTheData) {
  Dataset dataset(100, 250, 2);
  for (const char* name : {"ctr.parity.0.scr", "ctr.parity.1.scr"}) {
    for (std::size_t offset : {std::size_t{0}, std::size_t{99}}) {
      dataset.flip(name, offset);
      const auto repaired = dataset.repair();
      ASSERT_TRUE(repaired.ok()) << repaired.status().message();
      EXPECT_THAT(*repaired, ElementsAre(name));
      EXPECT_EQ(dataset.snapshot(), dataset.before);
    }
  }
}

TEST(Parity, ThatCannotBeRebuiltIsNoReasonToDoWithoutTheData) {
  Dataset dataset(100, 250, 2);
  dataset.flip("ctr.parity.0.scr", 1);
  dataset.flip("ctr.2.scr", 1);
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = "*ctr.parity.*";
  FaultyFileSystem faulty(real_file_system(), plan);
  const auto repaired = dataset.repair(faulty);
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_THAT(*repaired, ElementsAre("ctr.2.scr"));
  dataset.expect_data_as_before("parity not written");
}

TEST(Parity, OfTwoParitiesTheGoodOneRepairs) {
  Dataset dataset(100, 450, 2);
  for (const char* bad : {"ctr.parity.0.scr", "ctr.parity.1.scr"}) {
    dataset.flip(bad, 7);
    std::filesystem::remove(dataset.path("ctr.4.scr"));
    const auto repaired = dataset.repair();
    ASSERT_TRUE(repaired.ok()) << repaired.status().message();
    ASSERT_NO_FATAL_FAILURE(dataset.expect_data_as_before(bad));
    dataset.restore();
  }
}

TEST(Parity, OfLargeContainersIsSharedByWindows) {
  Dataset dataset(std::uint64_t{5} << 19, (std::uint64_t{13} << 19) + 12345, 2);
  std::filesystem::remove(dataset.path("ctr.0.scr"));
  std::filesystem::resize_file(dataset.path("ctr.2.scr"), 100);
  const auto repaired = dataset.repair();
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_THAT(*repaired, ElementsAre("ctr.0.scr", "ctr.2.scr"));
  dataset.expect_data_as_before("large");
}

TEST(Parity, IsKeptForEachGroupOfContainers) {
  Dataset dataset(50, 50 * 70 - 20, 1);  // groups of 32, 32 and 6
  EXPECT_EQ(parity_container_count(dataset.summary), 3U);
  for (const char* lost : {"ctr.0.scr", "ctr.63.scr", "ctr.69.scr"}) {
    std::filesystem::remove(dataset.path(lost));
  }
  const auto repaired = dataset.repair();
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_THAT(*repaired, ElementsAre("ctr.0.scr", "ctr.63.scr", "ctr.69.scr"));
  dataset.expect_data_as_before("groups");
  for (const char* lost : {"ctr.32.scr", "ctr.33.scr"}) std::filesystem::remove(dataset.path(lost));
  EXPECT_EQ(dataset.repair().status().code(), StatusCode::kUnrecoverable);
}

TEST(Parity, VerifyNamesWhatIsDamaged) {
  Dataset dataset(100, 250, 1);
  for (const std::string& name : dataset.containers()) {
    std::vector<std::string> problems;
    ASSERT_TRUE(
        verify_dataset(real_file_system(), dataset.prefix(), "scr.dataset.1", {}, problems).ok());
    EXPECT_THAT(problems, IsEmpty());
    dataset.flip(name, 20);
    ASSERT_TRUE(
        verify_dataset(real_file_system(), dataset.prefix(), "scr.dataset.1", {}, problems).ok());
    EXPECT_THAT(problems, ElementsAre(HasSubstr(name)));
    dataset.restore();
  }
}

TEST(Parity, AnyFailedOperationOfARepairLeavesNoHalfContainer) {
  Dataset dataset(100, 250, 1);
  for (std::uint64_t n = 1;; ++n) {
    std::filesystem::remove(dataset.path("ctr.1.scr"));
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    const auto repaired = dataset.repair(faulty);
    if (faulty.hits() == 0) break;
    const auto now = dataset.snapshot();
    if (repaired.ok() || now.contains("ctr.1.scr")) {
      EXPECT_EQ(now.at("ctr.1.scr"), dataset.before.at("ctr.1.scr")) << "operation " << n;
    }
    for (const auto& [name, bytes] : now) EXPECT_TRUE(dataset.before.contains(name)) << name;
    EXPECT_THAT(dataset.left_over(), IsEmpty()) << "operation " << n;
    dataset.restore();
  }
}

TEST(Parity, WhatAKilledRepairLeavesIsRemovedUnlessOneIsAtWork) {
  Dataset dataset(100, 250, 1);
  int left = 0;
  for (std::uint64_t n = 1;; ++n) {
    std::filesystem::remove(dataset.path("ctr.1.scr"));
    const pid_t child = fork();
    if (child == 0) {
      FaultyFileSystem faulty(real_file_system(), FaultPlan::kill_at(n));
      (void)dataset.repair(faulty);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) break;
    for (const auto& [name, bytes] : dataset.snapshot()) {
      ASSERT_TRUE(dataset.before.contains(name)) << name;
      EXPECT_EQ(bytes, dataset.before.at(name)) << name;
    }
    if (!dataset.left_over().empty()) {
      ++left;
      auto lock = real_file_system().open(dataset.prefix() + "/.scr/repair.lock",
                                          OpenOptions::read_write());
      ASSERT_TRUE(lock.ok() && (*lock)->lock(LockMode::kExclusive, /*wait=*/false).ok());
      ASSERT_TRUE(clean_up(real_file_system(), dataset.prefix(), {}).ok());
      EXPECT_FALSE(dataset.left_over().empty()) << "taken from a repair at work";
    }
    ASSERT_TRUE(clean_up(real_file_system(), dataset.prefix(), {}).ok());
    EXPECT_THAT(dataset.left_over(), IsEmpty()) << "killed at operation " << n;
    dataset.restore();
  }
  EXPECT_GT(left, 3);
}

TEST(Parity, ARank2FileThatNamesNoContainerIsRefusedWithoutACrash) {
  Dataset dataset(100, 250, 1);
  ASSERT_TRUE(write_rank2file_block(real_file_system(), dataset.directory(), 0, {{0, {}}}).ok());
  std::filesystem::remove(dataset.path("ctr.1.scr"));
  const auto repaired = dataset.repair();
  EXPECT_EQ(repaired.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(repaired.status().message()), HasSubstr("ctr.0.scr"));
}

}  // namespace
}  // namespace scr::flush
