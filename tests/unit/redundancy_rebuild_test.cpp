// Every loss that a scheme bears is made good to the byte; every loss beyond is refused, and
// nothing changes.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <bit>

#include "tests/unit/redundancy_fixture.hpp"

namespace scr::redundancy::testing {
namespace {

struct Case {
  Scheme scheme;
  int size;
  int failures;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(scheme_name(info.param.scheme)) + std::to_string(info.param.failures) + "Of" +
         std::to_string(info.param.size);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int size = 2; size <= 8; ++size) {
    cases.push_back({Scheme::kXor, size, 1});
    cases.push_back({Scheme::kPartner, size, 1});
    for (int k = 1; k <= 3 && k < size; ++k) cases.push_back({Scheme::kReedSolomon, size, k});
  }
  return cases;
}

// Sizes around the edges of chunks of 13 bytes: the first member fills its N-k chunks exactly, or
// all but one byte of them, or one byte more (which makes the chunk 14).
Sizes sizes_around_chunks(const Case& c, int beyond) {
  const std::size_t chunk = 13;
  Sizes sizes(static_cast<std::size_t>(c.size));
  const auto largest =
      static_cast<std::size_t>(static_cast<int>(chunk) * (c.size - c.failures) + beyond);
  sizes[0] = {largest};
  const Sizes others = {{0},       {}, {1}, {chunk - 1}, {chunk}, {chunk + 1}, {3, 0, 1, 0, 5},
                        {chunk, 0}};
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    sizes[i] = others[(i + static_cast<std::size_t>(beyond + 1)) % others.size()];
  }
  return sizes;
}

std::vector<Sizes> all_sizes(const Case& c) {
  const auto n = static_cast<std::size_t>(c.size);
  Sizes similar(n);
  Sizes uneven(n);
  for (std::size_t i = 0; i < n; ++i) {
    similar[i] = {200 + 7 * i, 31};
    uneven[i] = {i == n - 1 ? std::size_t{1500} : i % 3};
  }
  // Larger sets have more subsets, but nothing new happens at the edges of chunks there.
  if (c.size > 5) return {similar, uneven, sizes_around_chunks(c, c.size % 3 - 1)};
  std::vector<Sizes> all = {similar, uneven, Sizes(n), Sizes(n, {0})};
  for (const int beyond : {-1, 0, 1}) all.push_back(sizes_around_chunks(c, beyond));
  return all;
}

bool has_neighbours(unsigned mask, int size) {
  for (int i = 0; i < size; ++i) {
    const auto bit = [&](int member) { return mask >> static_cast<unsigned>(member % size) & 1U; };
    if (bit(i) != 0 && bit(i + 1) != 0) return true;
  }
  return false;
}

enum class Loss { kBearable, kOneTooMany, kMore };

Loss classify(const Case& c, unsigned mask) {
  const int count = std::popcount(mask);
  if (c.scheme == Scheme::kPartner) {
    if (!has_neighbours(mask, c.size)) return Loss::kBearable;
    return count <= 3 ? Loss::kOneTooMany : Loss::kMore;
  }
  if (count <= c.failures) return Loss::kBearable;
  return count == c.failures + 1 ? Loss::kOneTooMany : Loss::kMore;
}

class EveryLoss : public ::testing::TestWithParam<Case> {
 protected:
  void expect_rebuilt(TestSet& test, unsigned mask, const std::vector<Snapshot>& before) {
    const auto outcome = test.rebuild({.lost = members_of(mask)});
    for (const Status& status : outcome.status) ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(test.snapshots(), before);
    for (std::size_t i = 0; i < outcome.member.size(); ++i) {
      EXPECT_EQ(outcome.result[i].rebuilt, members_of(mask));
      EXPECT_EQ(outcome.result[i].dataset, test.dataset);
      EXPECT_EQ(outcome.member[i].rebuilt, (mask >> i & 1U) != 0);
      EXPECT_TRUE(outcome.member[i].present);
      EXPECT_EQ(outcome.member[i].content.files, test.members[i].files);
      EXPECT_EQ(outcome.member[i].content.redundancy, test.members[i].redundancy);
    }
  }
  void expect_refused(TestSet& test, unsigned mask) {
    const auto reduced = test.snapshots();
    const auto outcome = test.rebuild({.lost = members_of(mask)});
    for (const Status& status : outcome.status) {
      ASSERT_EQ(status.code(), StatusCode::kUnrecoverable) << status.to_string();
      for (const int lost : members_of(mask)) {
        EXPECT_NE(status.message().find("rank " + std::to_string(lost) + " (on node" +
                                        std::to_string(lost) + "): its files are missing"),
                  std::string::npos)
            << status.message();
      }
    }
    ASSERT_EQ(test.snapshots(), reduced);
  }
};

TEST_P(EveryLoss, IsRebuiltToTheByteOrRefused) {
  const Case c = GetParam();
  std::size_t variant = 0;
  for (const Sizes& sizes : all_sizes(c)) {
    // Pieces of a few bytes make many steps of a few bytes; the large one makes a single step.
    const std::size_t piece = std::array<std::size_t, 3>{5, 64, 4096}[variant++ % 3];
    TestSet test(make_set(c.scheme, c.size, c.failures), sizes, piece);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (unsigned mask = 1; mask < 1U << static_cast<unsigned>(c.size); ++mask) {
      const Loss loss = classify(c, mask);
      // Beyond the first sizes only what is rebuilt differs.
      if (loss == Loss::kMore || (loss == Loss::kOneTooMany && variant > 1)) continue;
      SCOPED_TRACE("sizes " + std::to_string(variant) + ", lost mask " + std::to_string(mask));
      for (const int lost : members_of(mask)) test.lose(lost);
      if (loss == Loss::kBearable) {
        ASSERT_NO_FATAL_FAILURE(expect_rebuilt(test, mask, before));
      } else {
        ASSERT_NO_FATAL_FAILURE(expect_refused(test, mask));
        test.restore(before);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Redundancy, EveryLoss, ::testing::ValuesIn(all_cases()), name_of);

TEST(Rebuild, WithSeveralPiecesOfTheDefaultSizeToAChunk) {
  for (const auto& [scheme, lost] :
       {std::pair(Scheme::kXor, std::vector{2}), {Scheme::kReedSolomon, {1, 2}}}) {
    const int failures = static_cast<int>(lost.size());
    TestSet test(make_set(scheme, 4, failures), {{2000000, 1}, {700000}, {1900000}, {}}, 0);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (const int member : lost) test.lose(member);
    const auto outcome = test.rebuild({.lost = lost});
    for (const Status& status : outcome.status) ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(test.snapshots() == before);  // too long to print
  }
}

// One byte, odd, and more than any chunk has.
TEST(Rebuild, WithPiecesOfAnySize) {
  for (const std::size_t piece : {1UL, 4097UL, 1UL << 20}) {
    for (const auto& [scheme, lost] : {std::pair(Scheme::kXor, std::vector{2}),
                                       {Scheme::kPartner, {0}},
                                       {Scheme::kReedSolomon, {1, 2}}}) {
      const int failures = static_cast<int>(lost.size());
      const std::size_t most = piece == 1 ? 300 : 30001;  // bytes of a member
      TestSet test(make_set(scheme, 4, failures), {{most, 1}, {most / 3}, {most - 2}, {}}, piece);
      ASSERT_NO_FATAL_FAILURE(test.encode_all());
      const auto before = test.snapshots();
      for (const int member : lost) test.lose(member);
      const auto outcome = test.rebuild({.lost = lost});
      for (const Status& status : outcome.status) ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_TRUE(test.snapshots() == before) << scheme_name(scheme) << ", pieces of " << piece;
    }
  }
}

// --- encode

TEST(Encode, RecordsTheChecksumOfEveryFileAndOfTheRedundancyFile) {
  for (const auto& [scheme, failures] :
       {std::pair(Scheme::kXor, 1), {Scheme::kPartner, 1}, {Scheme::kReedSolomon, 2}}) {
    TestSet test(make_set(scheme, 4, failures), {{1000, 3}, {}, {0, 700}, {1, 2, 3, 4, 5}}, 64);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    for (int i = 0; i < 4; ++i) {
      MemberFiles all = test.members[static_cast<std::size_t>(i)];
      EXPECT_TRUE(all.redundancy.complete);
      all.files.push_back(all.redundancy);
      for (const FileMeta& file : all.files) {
        const std::string bytes = read_bytes(test.directory(i) / file.file);
        EXPECT_EQ(file.size, bytes.size());
        EXPECT_EQ(file.crc, crc_of(bytes)) << file.file;
      }
    }
  }
}

TEST(Encode, XorChunkIsTheXorOfTheChunksOfTheOthers) {
  TestSet test(make_set(Scheme::kXor, 3, 1), {{4}, {3}, {1, 2}}, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  // Chunks of two bytes; the stripe of member 1 holds the first chunk of member 0 and the second
  // of 2.
  const std::string file0 = read_bytes(test.directory(0) / "rank_0.0.h5");
  const std::string file2 = read_bytes(test.directory(2) / "folder/deep/rank_2.1.h5");
  const std::string parity = read_bytes(test.redundancy_file(1));
  const std::string payload = parity.substr(parity.size() - 2);
  EXPECT_EQ(payload[0], static_cast<char>(file0[0] ^ file2[1]));
  EXPECT_EQ(payload[1], file0[1]);
}

TEST(Encode, PartnerFileEndsWithTheFilesOfTheLeftNeighbour) {
  TestSet test(make_set(Scheme::kPartner, 3, 1), {{40, 7}, {3}, {0}}, 16);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const std::string expected = read_bytes(test.directory(0) / "rank_0.0.h5") +
                               read_bytes(test.directory(0) / "folder/deep/rank_0.1.h5");
  EXPECT_TRUE(read_bytes(test.redundancy_file(1)).ends_with(expected));
}

TEST(Encode, SingleOnlyRecordsChecksums) {
  TestSet test(make_set(Scheme::kSingle, 1, 0), {{100, 0, 5}}, 16);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  for (const FileMeta& file : test.members[0].files) {
    EXPECT_EQ(file.crc, crc_of(read_bytes(test.directory(0) / file.file)));
  }
  EXPECT_EQ(test.snapshot(0).size(), 3U);
}

TEST(Encode, MovesNothingForAMemberThatHasNothing) {
  // Only member 0 has data: the parity of its own stripe is known to be zeros and takes no room.
  TestSet test(make_set(Scheme::kXor, 2, 1), {{1 << 20}, {}}, 0);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  EXPECT_GT(std::filesystem::file_size(test.redundancy_file(0)), 1U << 20);
  struct stat found {};
  ASSERT_EQ(::stat(test.redundancy_file(0).c_str(), &found), 0);
  EXPECT_LT(found.st_blocks * 512, 16 * 1024);
}

// While it lives, this process may have no more files open than this.
class OpenFileLimit {
 public:
  explicit OpenFileLimit(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{.rlim_cur = files, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
  }
  ~OpenFileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(Encode, TakesMoreFilesThanAProcessMayOpen) {
  const OpenFileLimit limit(250);
  const std::vector<std::size_t> many(300, 10);
  TestSet test(make_set(Scheme::kReedSolomon, 3, 2), {many, {5}, many}, 100);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto before = test.snapshots();
  test.lose(0);
  test.lose(2);
  EXPECT_TRUE(test.rebuild({.lost = {0, 2}}).ok());
  EXPECT_TRUE(test.snapshots() == before);
}

TEST(Encode, AFileThatIsGoneFailsOnAllMembersAndLeavesNoRedundancyFile) {
  TestSet test(make_set(Scheme::kXor, 3, 1), {{40}, {40}, {40}}, 16);
  std::filesystem::remove(test.directory(1) / "rank_1.0.h5");
  for (const Status& status : test.encode()) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.to_string();
    EXPECT_NE(status.message().find("rank_1.0.h5"), std::string::npos);
  }
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(std::filesystem::exists(test.redundancy_file(i)));
}

TEST(Encode, AFileOfAnotherSizeThanRecordedFailsOnAllMembers) {
  TestSet test(make_set(Scheme::kPartner, 3, 1), {{40}, {40}, {40}}, 16);
  write_bytes(test.directory(1) / "rank_1.0.h5", std::string(39, 'x'));
  for (const Status& status : test.encode()) {
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_NE(status.message().find("has 39 bytes, but 40 are recorded"), std::string::npos)
        << status.message();
  }
}

TEST(Encode, AnUnsafePathFailsOnAllMembers) {
  TestSet test(make_set(Scheme::kXor, 3, 1), {{40}, {40}, {40}}, 16);
  test.members[2].files[0].file = "../0/rank_0.0.h5";
  for (const Status& status : test.encode()) EXPECT_EQ(status.code(), StatusCode::kCorrupt);
}

// --- who hosts whom

TEST(Rebuild, OneProcessHostsSeveralMembers) {
  struct Hosting {
    std::vector<int> hosts;
    unsigned lost;
  };
  for (const Hosting& hosting :
       {Hosting{{0, 0, 0, 0, 0}, 0b00110}, Hosting{{1, 0, 1, 0, 1}, 0b10001},
        Hosting{{2, 2, 0, 1, 1}, 0b01010}, Hosting{{3, 2, 1, 0, 0}, 0b11000}}) {
    for (const auto& [scheme, failures] :
         {std::pair(Scheme::kReedSolomon, 2), {Scheme::kXor, 1}, {Scheme::kPartner, 1}}) {
      const unsigned mask = failures == 2 ? hosting.lost : hosting.lost & (0U - hosting.lost);
      TestSet test(make_set(scheme, 5, failures), {{300}, {17, 5}, {}, {299, 8}, {70000}}, 128);
      ASSERT_NO_FATAL_FAILURE(test.encode_all());
      const auto before = test.snapshots();
      for (const int lost : members_of(mask)) test.lose(lost);
      const auto outcome = test.rebuild({.lost = members_of(mask), .hosts = hosting.hosts});
      for (const Status& status : outcome.status) EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_TRUE(test.snapshots() == before);
    }
  }
}

// Of two files with one name the newer is known by its time, so a rebuilt one must not look new.
TEST(Rebuild, GivesBackTheTimesOfFilesAndTheirPlacesInContainers) {
  for (const Scheme scheme : {Scheme::kPartner, Scheme::kXor, Scheme::kReedSolomon}) {
    TestSet test(make_set(scheme, 4, 1), {{5, 10}, {7}, {300, 2}, {1}}, 64);
    constexpr std::int64_t kTime = 1'600'000'000'123'456'789;
    for (MemberFiles& member : test.members) {
      for (FileMeta& file : member.files) file.mtime_ns = kTime + member.index;
      member.flush.set_value("SIZE", 1000 + member.index);
    }
    test.encode_all();
    test.lose(2);
    const auto outcome = test.rebuild({.lost = {2}});
    ASSERT_TRUE(outcome.ok());
    const MemberFiles& rebuilt = outcome.member[2].content;
    ASSERT_EQ(rebuilt.files.size(), 2U);
    for (const FileMeta& file : rebuilt.files) {
      const auto info = real_file_system().info((test.directory(2) / file.file).string());
      ASSERT_TRUE(info.ok());
      EXPECT_EQ(info->mtime_ns, kTime + 2) << file.file;
    }
    EXPECT_EQ(rebuilt.flush.value("SIZE"), "1002");
  }
}

TEST(Rebuild, AGuestProtectsARankThatHasNobodyElse) {
  for (const auto& [scheme, failures] :
       {std::pair(Scheme::kXor, 1), {Scheme::kPartner, 1}, {Scheme::kReedSolomon, 2}}) {
    RedundancySet set = make_set(scheme, failures + 1, failures);
    for (std::size_t i = 1; i < set.members.size(); ++i) set.members[i].guest = true;
    Sizes sizes(set.members.size());
    sizes[0] = {1000, 77};
    TestSet test(set, sizes, 100);
    ASSERT_NO_FATAL_FAILURE(test.encode_all());
    const auto before = test.snapshots();
    for (int lost = 0; lost <= failures; ++lost) {
      test.lose(lost);
      EXPECT_TRUE(test.rebuild({.lost = {lost}}).ok());
      EXPECT_TRUE(test.snapshots() == before);
    }
  }
}

TEST(Rebuild, SetsOfOneProcessFollowEachOther) {
  // Two sets over the same processes, in the order of their ids, with messages between the same
  // pairs.
  TestSet first(make_set(Scheme::kXor, 3, 1), {{5000}, {4000}, {3000}}, 256);
  TestSet second(make_set(Scheme::kReedSolomon, 3, 2), {{900}, {70000}, {1}}, 256);
  std::vector<Status> status(6);
  InProcessWorld::run(3, [&](Communicator& comm) {
    const auto i = static_cast<std::size_t>(comm.rank());
    for (TestSet* test : {&first, &second}) {
      const auto directory =
          real_file_system().open_directory(test->directory(comm.rank()).string()).value();
      status[i + (test == &first ? 0U : 3U)] =
          encode(comm, real_file_system(), *directory, test->dataset, test->set, test->members[i],
                 test->options);
    }
  });
  for (const Status& each : status) EXPECT_TRUE(each.ok()) << each.to_string();
  for (TestSet* test : {&first, &second}) {
    const auto before = test->snapshots();
    test->lose(1);
    EXPECT_TRUE(test->rebuild({.lost = {1}}).ok());
    EXPECT_TRUE(test->snapshots() == before);
  }
}

TEST(Rebuild, NothingMissingMeansNothingDone) {
  TestSet test(make_set(Scheme::kXor, 3, 1), {{50}, {60}, {70}}, 16);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto outcome = test.rebuild({});
  EXPECT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome.result[0].rebuilt.empty());
  EXPECT_EQ(outcome.result[0].dataset, test.dataset);
}

TEST(Rebuild, SingleIsVerifiedButNotRebuilt) {
  TestSet test(make_set(Scheme::kSingle, 1, 0), {{50, 3}}, 16);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  EXPECT_TRUE(test.rebuild({.verify_all = true}).ok());
  EXPECT_EQ(test.rebuild({.lost = {0}}).status[0].code(), StatusCode::kUnrecoverable);
}

TEST(Rebuild, MembersOfDifferentDatasetsAreNotMixed) {
  TestSet test(make_set(Scheme::kXor, 3, 1), {{50}, {60}, {70}}, 16);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto old = test.snapshots();
  test.dataset.id = 7;
  test.dataset.name = "ckpt.7";
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  const auto mixed = old[1].at(test.set.file_name(1));
  write_bytes(test.redundancy_file(1), mixed);
  test.members[1].redundancy.crc.reset();
  test.lose(2);
  const auto reduced = test.snapshots();
  for (const Status& status : test.rebuild({.lost = {2}}).status) {
    EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.to_string();
  }
  EXPECT_EQ(test.snapshots(), reduced);
}

}  // namespace
}  // namespace scr::redundancy::testing
