// Damaged survivors are found, never used, and repaired if the scheme allows it. File operations
// that fail on one member fail the whole, without a hang and without half a file under a final
// name.
#include <gtest/gtest.h>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::redundancy::testing {
namespace {

struct Kind {
  Scheme scheme;
  int failures;
};
constexpr Kind kKinds[] = {
    {Scheme::kXor, 1}, {Scheme::kPartner, 1}, {Scheme::kReedSolomon, 1}, {Scheme::kReedSolomon, 2}};
const Sizes kSizes = {{300, 5}, {17}, {}, {299, 8, 1}};

void flip(const std::filesystem::path& path, std::size_t offset) {
  std::string bytes = read_bytes(path);
  bytes[offset] = static_cast<char>(bytes[offset] ^ 0x10);
  write_bytes(path, bytes);
}

TEST(Damage, AFlippedByteInAnyFileIsFoundAndRepaired) {
  for (const Kind& kind : kKinds) {
    TestSet test(make_set(kind.scheme, 4, kind.failures), kSizes, 64);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (int i = 0; i < 4; ++i) {
      for (const auto& [name, bytes] : before[static_cast<std::size_t>(i)]) {
        for (const std::size_t offset : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
          flip(test.directory(i) / name, offset);
          const auto outcome = test.rebuild({.verify_all = true});
          ASSERT_TRUE(outcome.ok()) << outcome.status[0].to_string();
          EXPECT_EQ(outcome.result[0].rebuilt, std::vector<int>{i}) << name;
          ASSERT_TRUE(test.snapshots() == before) << name << " of member " << i;
        }
      }
    }
  }
}

TEST(Damage, ATruncatedOrMissingOrLongerFileCountsAsLost) {
  TestSet test(make_set(Scheme::kXor, 4, 1), kSizes, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  for (const auto& [name, bytes] : before[0]) {
    for (const std::string& changed :
         {bytes.substr(0, bytes.size() - 1), bytes + "x", std::string()}) {
      write_bytes(test.directory(0) / name, changed);
      ASSERT_TRUE(test.rebuild({.verify_all = true}).ok());
      ASSERT_TRUE(test.snapshots() == before);
    }
    std::filesystem::remove(test.directory(0) / name);
    ASSERT_TRUE(test.rebuild({.verify_all = true}).ok());
    ASSERT_TRUE(test.snapshots() == before);
  }
}

TEST(Damage, AllPartsOfARedundancyFileAreCovered) {
  TestSet test(make_set(Scheme::kXor, 2, 1), {{6}, {5}}, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  const std::size_t size = std::filesystem::file_size(test.redundancy_file(0));
  for (std::size_t offset = size % 7; offset < size; offset += 7) {
    flip(test.redundancy_file(0), offset);
    ASSERT_TRUE(test.rebuild({.verify_all = true}).ok());
    ASSERT_TRUE(test.snapshots() == before) << "byte " << offset;
  }
}

TEST(Damage, ACorruptSurvivorAndALostMemberAreTooMuchForOneParity) {
  for (const Kind& kind : {kKinds[0], kKinds[2]}) {
    TestSet test(make_set(kind.scheme, 4, kind.failures), kSizes, 64);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (int damaged = 0; damaged < 4; ++damaged) {
      const int lost = (damaged + 1) % 4;
      for (const auto& [name, bytes] : before[static_cast<std::size_t>(damaged)]) {
        flip(test.directory(damaged) / name, bytes.size() - 1);
        test.lose(lost);
        const auto reduced = test.snapshots();
        for (const Status& status : test.rebuild({.lost = {lost}}).status) {
          ASSERT_EQ(status.code(), StatusCode::kUnrecoverable) << status.to_string();
          EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
          EXPECT_NE(status.message().find("dataset 6 'ckpt.6'"), std::string::npos);
        }
        ASSERT_TRUE(test.snapshots() == reduced) << "something was written";
        test.restore(before);
      }
    }
  }
}

// What cannot be read may be sound: it is rebuilt if possible, else the failure says so.
TEST(Damage, AnUnreadableSurvivorIsRebuiltOrReportedAsAnIoError) {
  TestSet test(make_set(Scheme::kXor, 4, 1), kSizes, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRead);
  plan.path = "*/rank_3.*";
  FaultyFileSystem fs(real_file_system(), plan);
  EXPECT_TRUE(test.rebuild({.verify_all = true, .faulty_rank = 3, .faulty = &fs}).ok());
  EXPECT_GT(fs.hits(), 0U);
  EXPECT_TRUE(test.snapshots() == before);

  test.lose(0);
  const auto outcome = test.rebuild({.lost = {0}, .faulty_rank = 3, .faulty = &fs});
  for (const Status& status : outcome.status) {
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.to_string();
    EXPECT_NE(status.message().find("rank_3."), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("Input/output error"), std::string::npos);
  }
}

TEST(Damage, TwoParitiesRepairACorruptSurvivorAndALostMember) {
  TestSet test(make_set(Scheme::kReedSolomon, 4, 2), kSizes, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  for (int damaged = 0; damaged < 4; ++damaged) {
    for (int lost = 0; lost < 4; ++lost) {
      if (lost == damaged) continue;
      for (const auto& [name, bytes] : before[static_cast<std::size_t>(damaged)]) {
        flip(test.directory(damaged) / name, bytes.size() - 1);
        test.lose(lost);
        const auto outcome = test.rebuild({.lost = {lost}});
        ASSERT_TRUE(outcome.ok()) << outcome.status[0].to_string();
        ASSERT_TRUE(test.snapshots() == before) << name;
      }
    }
  }
}

TEST(Damage, PartnerRepairsWhatIsNotNextToTheLoss) {
  TestSet test(make_set(Scheme::kPartner, 4, 1), kSizes, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  test.lose(0);
  flip(test.directory(2) / test.set.file_name(2), 3);
  EXPECT_TRUE(test.rebuild({.lost = {0}, .verify_all = true}).ok());
  EXPECT_TRUE(test.snapshots() == before);

  test.lose(0);
  flip(test.directory(3) / "rank_3.0.h5", 3);  // goes into the new redundancy file of member 0
  const auto outcome = test.rebuild({.lost = {0}});
  EXPECT_EQ(outcome.status[0].code(), StatusCode::kUnrecoverable);
  EXPECT_TRUE(test.snapshot(0).empty());
}

TEST(Damage, VerifyMemberNamesTheFileAndBothChecksums) {
  TestSet test(make_set(Scheme::kXor, 2, 1), {{60}, {50}}, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto directory = real_file_system().open_directory(test.directory(0).string()).value();
  EXPECT_TRUE(verify_member(real_file_system(), *directory, test.members[0]).ok());
  for (const std::string& name : {std::string("rank_0.0.h5"), test.set.file_name(0)}) {
    flip(test.directory(0) / name, 40);
    const Status status = verify_member(real_file_system(), *directory, test.members[0]);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_NE(status.message().find("'" + name + "' is damaged: its checksum is 0x"),
              std::string::npos)
        << status.message();
    flip(test.directory(0) / name, 40);
  }
}

// --- failing file operations

TEST(Faults, AnyFailedOperationOfAnEncodeFailsItOnAllMembers) {
  for (const Kind& kind : kKinds) {
    TestSet test(make_set(kind.scheme, 4, kind.failures), kSizes, 64);
    for (std::uint64_t n = 1;; ++n) {
      FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
      const auto result = test.encode(3, &faulty);
      if (faulty.hits() == 0) {
        EXPECT_GT(n, 15U);
        break;
      }
      int failed = 0;
      for (const Status& status : result) failed += status.ok() ? 0 : 1;
      // A close for reading, and the removal of what failed, may fail without harm.
      ASSERT_TRUE(failed == 4) << "operation " << n << ": " << failed << " members failed";
      for (int i = 0; i < 3; ++i) ASSERT_FALSE(std::filesystem::exists(test.redundancy_file(i)));
    }
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
  }
}

TEST(Faults, AFullDeviceFailsTheEncodeOnAllMembersWithItsReason) {
  TestSet test(make_set(Scheme::kXor, 4, 1), kSizes, 64);
  FaultPlan plan = FaultPlan::fail_at(2, ENOSPC, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  FaultyFileSystem faulty(real_file_system(), plan);
  for (const Status& status : test.encode(1, &faulty)) {
    EXPECT_EQ(status.code(), StatusCode::kNoSpace) << status.to_string();
  }
}

TEST(Faults, AnyFailedOperationOfARebuildLeavesTheSurvivorsAndNoHalfFile) {
  for (const Kind& kind : kKinds) {
    TestSet test(make_set(kind.scheme, 4, kind.failures), kSizes, 64);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (int faulty_rank : {0, 3}) {
      for (std::uint64_t n = 1;; ++n) {
        test.lose(0);
        FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
        const auto outcome =
            test.rebuild({.lost = {0}, .faulty_rank = faulty_rank, .faulty = &faulty});
        if (faulty.hits() == 0) break;
        int failed = 0;
        for (const Status& status : outcome.status) failed += status.ok() ? 0 : 1;
        ASSERT_TRUE(failed == 0 || failed == 4) << "operation " << n;
        if (failed == 0) {
          ASSERT_TRUE(test.snapshots() == before);
        }
        // What is there under a final name is right.
        for (const auto& [name, bytes] : test.snapshot(0)) {
          if (name.starts_with(".rebuild.")) continue;  // its removal failed
          ASSERT_EQ(bytes, before[0].at(name));
        }
        test.restore(before);
      }
    }
  }
}

}  // namespace
}  // namespace scr::redundancy::testing
