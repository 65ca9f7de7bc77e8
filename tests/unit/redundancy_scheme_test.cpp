// The parts that schemes are made of: sets, layout, plans, combinations, headers.
#include "redundancy/scheme.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/hash_file.hpp"
#include "redundancy/combination.hpp"
#include "redundancy/layout.hpp"
#include "redundancy/logical_file.hpp"
#include "redundancy/pass.hpp"
#include "redundancy/plan.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::redundancy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- sets

TEST(RedundancySet, FileNamesFollowTheSeeds) {
  RedundancySet set = make_set(Scheme::kXor, 4, 1);
  EXPECT_EQ(set.file_name(0), "1_of_4_in_0.xor");
  set.scheme = Scheme::kPartner;
  EXPECT_EQ(set.file_name(3), "4_of_4_in_0.partner");
  set.scheme = Scheme::kReedSolomon;
  EXPECT_EQ(set.file_name(3), "4_of_4_in_0.rs");
  set.scheme = Scheme::kSingle;
  EXPECT_EQ(set.file_name(0), "");
}

TEST(RedundancySet, RoundTripsThroughAHash) {
  RedundancySet set = make_set(Scheme::kReedSolomon, 4, 3);
  set.members[0].rank = 9;
  set.members[2].guest = true;
  set.id = 1;
  auto again = RedundancySet::from_hash(set.to_hash());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(*again, set);
}

TEST(RedundancySet, RefusesWhatCannotBe) {
  const auto refuses = [](auto change) {
    RedundancySet set = make_set(Scheme::kXor, 3, 1);
    change(set);
    return RedundancySet::from_hash(set.to_hash()).status().code() == StatusCode::kCorrupt;
  };
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.id = 1; }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.failures = 2; }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.members[1].rank = 0; }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.members[1].rank = -1; }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.members.resize(1); }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.members.clear(); }));
  EXPECT_TRUE(refuses([](RedundancySet& s) {
    for (Member& member : s.members) member.guest = true;
  }));
  EXPECT_TRUE(refuses([](RedundancySet& s) { s.scheme = Scheme::kSingle; }));
  Hash hash = make_set(Scheme::kXor, 3, 1).to_hash();
  hash.set_value("TYPE", "RAID6");
  EXPECT_EQ(RedundancySet::from_hash(hash).status().code(), StatusCode::kCorrupt);
  hash = make_set(Scheme::kXor, 3, 1).to_hash();
  hash.get("GROUP")->set_value("RANKS", "4000000000");
  EXPECT_EQ(RedundancySet::from_hash(hash).status().code(), StatusCode::kCorrupt);
}

TEST(Scheme, NamesRoundTrip) {
  for (const Scheme scheme :
       {Scheme::kSingle, Scheme::kPartner, Scheme::kXor, Scheme::kReedSolomon}) {
    EXPECT_EQ(*parse_scheme(scheme_name(scheme)), scheme);
  }
  EXPECT_THAT(std::string(parse_scheme("raid").status().message()),
              HasSubstr("SINGLE, PARTNER, XOR or RS"));
}

// --- layout

// "P<n>" or "d<n>" of a member in each stripe.
std::string row(const Layout& layout, int member) {
  std::string text;
  for (int stripe = 0; stripe < layout.members; ++stripe) {
    text += layout.holds_parity(member, stripe) ? " P" : " d";
    text += std::to_string(layout.offset(member, stripe) / layout.chunk);
  }
  return text;
}

TEST(Layout, IsThePictureInItsHeader) {
  const Layout single{4, 1, 10};
  EXPECT_EQ(row(single, 0), " P0 d0 d1 d2");
  EXPECT_EQ(row(single, 2), " d0 d1 P0 d2");
  const Layout twice{4, 2, 10};
  EXPECT_EQ(row(twice, 0), " P0 d0 d1 P1");
  EXPECT_EQ(row(twice, 1), " P1 P0 d0 d1");
  EXPECT_EQ(row(twice, 2), " d0 P1 P0 d1");
  EXPECT_EQ(row(twice, 3), " d0 d1 P1 P0");
}

TEST(Layout, ChunkIsTheSmallestThatHoldsTheLargestMember) {
  const std::vector<std::uint64_t> totals = {524294, 524297, 0};
  EXPECT_EQ(chunk_size(std::vector<std::uint64_t>{524294, 524295, 524296, 524297}, 1), 174766U);
  EXPECT_EQ(chunk_size(totals, 1), 262149U);
  EXPECT_EQ(chunk_size(totals, 2), 524297U);
  EXPECT_EQ(chunk_size(std::vector<std::uint64_t>{0, 0}, 1), 0U);
}

TEST(Plan, PartnerBearsAnyLossWithoutNeighbours) {
  const RedundancySet set = make_set(Scheme::kPartner, 5, 1);
  EXPECT_TRUE(is_bearable(set, {true, false, true, false, false}));
  EXPECT_FALSE(is_bearable(set, {true, false, true, false, true}));  // 4 and 0 are neighbours
  EXPECT_FALSE(is_bearable(make_set(Scheme::kPartner, 2, 1), {true, true}));
}

TEST(Plan, EncodeMovesEachByteOnceAndOneResultPerFurtherParity) {
  const std::vector<std::uint64_t> totals(6, 4000);
  for (const Stripe& stripe : plan_encode(make_set(Scheme::kReedSolomon, 6, 2), totals)) {
    EXPECT_EQ(stripe.inputs.size(), 4U);
    EXPECT_EQ(stripe.outputs.size(), 2U);
    EXPECT_THAT(stripe.heads, ElementsAre(stripe.outputs[0].member));
    EXPECT_EQ(stripe.length, 1000U);
  }
}

// --- combinations

// Multiplication in GF(2^8) as the definition has it: polynomials modulo x^8 + x^4 + x^3 + x^2 + 1.
unsigned char multiply(unsigned char a, unsigned char b) {
  unsigned product = 0;
  for (unsigned shifted = a, rest = b; rest != 0; rest >>= 1U) {
    if ((rest & 1U) != 0) product ^= shifted;
    shifted = (shifted << 1U) ^ ((shifted & 0x80U) != 0 ? 0x11dU : 0U);
  }
  return static_cast<unsigned char>(product);
}

struct Buffers {
  Buffers(std::size_t count, std::size_t length)
      : storage(count * (length + 128)), step(length + 128) {
    auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    skip = (kBufferAlignment - address % kBufferAlignment) % kBufferAlignment;
    step = (step + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    storage.resize(count * step + skip + kBufferAlignment);
    address = reinterpret_cast<std::uintptr_t>(storage.data());
    skip = (kBufferAlignment - address % kBufferAlignment) % kBufferAlignment;
  }
  std::byte* operator[](std::size_t i) { return storage.data() + skip + i * step; }
  std::vector<std::byte> storage;
  std::size_t step;
  std::size_t skip = 0;
};

TEST(PieceSize, ShrinksAsASetGrowsAndStaysWithinBounds) {
  EXPECT_EQ(default_piece_size(1), 256U * 1024);
  EXPECT_EQ(default_piece_size(4), 256U * 1024);
  EXPECT_EQ(default_piece_size(8), 128U * 1024);
  EXPECT_EQ(default_piece_size(16), 64U * 1024);
  EXPECT_EQ(default_piece_size(256), 64U * 1024);
}

TEST(Combination, AgreesWithTheDefinitionForAllLengths) {
  std::mt19937 random(7);
  for (const std::size_t length : {1UL, 15UL, 31UL, 32UL, 63UL, 64UL, 100UL, 4095UL, 5000UL}) {
    for (const bool ones : {true, false}) {
      const std::size_t inputs = 5;
      const std::size_t outputs = ones ? 1 : 3;
      std::vector<unsigned char> coefficients(inputs * outputs, 1);
      if (!ones) {
        for (auto& value : coefficients) value = static_cast<unsigned char>(random());
      }
      const Combination combination(inputs, coefficients);
      EXPECT_EQ(combination.is_xor(), ones);
      Buffers buffers(inputs + outputs, length);
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (std::size_t i = 0; i < inputs; ++i) {
        for (std::size_t b = 0; b < length; ++b) buffers[i][b] = static_cast<std::byte>(random());
        from.push_back(i == 2 ? nullptr : buffers[i]);
      }
      for (std::size_t i = 0; i < outputs; ++i) to.push_back(buffers[inputs + i]);
      combination.apply(from, to, length);
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t b = 0; b < length; ++b) {
          unsigned char expected = 0;
          for (std::size_t i = 0; i < inputs; ++i) {
            if (from[i] == nullptr) continue;
            expected = static_cast<unsigned char>(
                expected ^
                multiply(coefficients[o * inputs + i], static_cast<unsigned char>(from[i][b])));
          }
          ASSERT_EQ(static_cast<unsigned char>(to[o][b]), expected) << length << " " << b;
        }
      }
    }
  }
}

// --- checksums of interleaved streams

TEST(ScatteredCrc32, IsTheChecksumOfTheWholeInAnyOrderOfStreams) {
  const std::string bytes = random_bytes(1000, 3);
  const auto all = std::as_bytes(std::span(bytes));
  for (const std::size_t cut : {1UL, 300UL, 500UL, 999UL}) {
    ScatteredCrc32 crc;
    std::size_t first = 0;
    std::size_t second = cut;
    while (first < cut || second < all.size()) {
      const std::size_t a = std::min<std::size_t>(7, cut - first);
      crc.update(first, all.subspan(first, a));
      first += a;
      EXPECT_EQ(crc.value(1000).has_value(), first == cut && second == all.size());
      const std::size_t b = std::min<std::size_t>(11, all.size() - second);
      crc.update(second, all.subspan(second, b));
      second += b;
    }
    EXPECT_EQ(crc.value(1000), crc_of(bytes));
    EXPECT_FALSE(crc.value(1001).has_value());
  }
  EXPECT_EQ(ScatteredCrc32().value(0), 0U);
}

// --- headers

class Header : public ::testing::Test {
 protected:
  Header() : test_(make_set(Scheme::kXor, 3, 1), {{11}, {5, 2}, {}}, 64) { test_.encode_all(); }

  Result<RedundancyHeader> read(int member) {
    return read_redundancy_header(real_file_system(), test_.redundancy_file(member).string());
  }
  TestSet test_;
};

TEST_F(Header, HasTheKeysOfTheFormat) {
  const std::string bytes = read_bytes(test_.redundancy_file(0));
  std::size_t length = 0;
  auto hash = decode_hash_file_prefix(std::as_bytes(std::span(bytes)), "x", length);
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(bytes.size(), length + 6);
  const std::string payload = bytes.substr(length);
  const std::string file0 = read_bytes(test_.directory(0) / "rank_0.0.h5");
  Hash dataset = test_.dataset.to_hash();
  std::string expected = "DSET\n";
  std::string tree = dataset.print();
  for (std::size_t at = 0; at < tree.size();) {
    const std::size_t end = tree.find('\n', at);
    expected += "  " + tree.substr(at, end - at) + "\n";
    at = end + 1;
  }
  expected +=
      "RANKS\n  3\nTYPE\n  XOR\nFAILURES\n  1\nGROUP\n  ID\n    0\n  RANKS\n    3\n  RANK\n"
      "    0\n      0\n        HOST\n          node0\n"
      "    1\n      1\n        HOST\n          node1\n"
      "    2\n      2\n        HOST\n          node2\n"
      "CHUNK\n  6\nCRC\n  " +
      crc32_to_text(crc_of(payload)) +
      "\nINDEX\n  0\n"
      "CURRENT\n  RANK\n    0\n  FILES\n    1\n  FILE\n    0\n"
      "      FILE\n        rank_0.0.h5\n      TYPE\n        FULL\n      COMPLETE\n        1\n"
      "      SIZE\n        11\n      CRC\n        " +
      crc32_to_text(crc_of(file0)) +
      "\n"
      "      RANKS\n        3\n      ORIG\n        /p/rank_0.0.h5\n"
      "PARTNER\n  RANK\n    2\n  FILES\n    0\n  FILE\n";
  EXPECT_EQ(hash->print(), expected);
}

TEST_F(Header, ReadsWhatEncodeWrote) {
  auto header = read(1);
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->set, test_.set);
  EXPECT_EQ(header->index, 1);
  EXPECT_EQ(header->dataset, test_.dataset);
  EXPECT_EQ(header->chunk, 6U);
  ASSERT_EQ(header->members.size(), 2U);
  EXPECT_EQ(header->members[0].files, test_.members[1].files);
  EXPECT_EQ(header->members[1].index, 0);
  EXPECT_EQ(header->members[1].files, test_.members[0].files);
  EXPECT_EQ(header->payload_offset + 6, test_.members[1].redundancy.size);
}

TEST_F(Header, EveryOneByteChangeIsRefused) {
  const std::string good = read_bytes(test_.redundancy_file(2));
  const std::size_t length = good.size() - 6;
  for (std::size_t i = 0; i < length; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_bytes(test_.redundancy_file(2), bad);
    ASSERT_EQ(read(2).status().code(), StatusCode::kCorrupt) << "byte " << i;
  }
}

TEST_F(Header, EveryTruncationAndExtensionIsRefused) {
  const std::string good = read_bytes(test_.redundancy_file(2));
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_bytes(test_.redundancy_file(2), good.substr(0, length));
    ASSERT_EQ(read(2).status().code(), StatusCode::kCorrupt) << "cut to " << length;
  }
  write_bytes(test_.redundancy_file(2), good + "x");
  EXPECT_EQ(read(2).status().code(), StatusCode::kCorrupt);
}

// A header with a right checksum may still be hostile.
TEST_F(Header, RefusesWhatIsNotConsistent) {
  const Hash good = read(1)->to_hash();
  const auto refuses = [&](auto change) {
    Hash hash = good;
    change(hash);
    return RedundancyHeader::from_hash(hash).status().code() == StatusCode::kCorrupt;
  };
  ASSERT_TRUE(RedundancyHeader::from_hash(good).ok());
  for (const char* key : {"DSET", "RANKS", "TYPE", "FAILURES", "GROUP", "CHUNK", "CRC", "INDEX",
                          "CURRENT", "PARTNER"}) {
    EXPECT_TRUE(refuses([&](Hash& h) { h.unset(key); })) << key;
  }
  EXPECT_TRUE(refuses([](Hash& h) { h.set_value("RANKS", 4); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.set_value("INDEX", 3); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.set_value("INDEX", -1); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.set_value("CHUNK", 5); }));  // 11 bytes in two chunks
  EXPECT_TRUE(refuses([](Hash& h) { h.set_value("CHUNK", "9223372036854775807"); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.get("CURRENT")->set_value("RANK", 0); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.get("CURRENT")->set_value("RANK", 77); }));
  EXPECT_TRUE(refuses([](Hash& h) { h.get("CURRENT")->set_value("FILES", 1); }));
  EXPECT_TRUE(
      refuses([](Hash& h) { h.get("CURRENT")->set_value("FILES", "18446744073709551615"); }));
  const auto file = [](Hash& h) -> Hash& { return *h.get("CURRENT")->get("FILE")->get("1"); };
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).set_value("FILE", "../../etc/passwd"); }));
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).set_value("FILE", "/etc/passwd"); }));
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).set_value("FILE", "rank_1.0.h5"); }));  // twice
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).set_value("SIZE", "18446744073709551615"); }));
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).set_value("TYPE", "XOR"); }));
  EXPECT_TRUE(refuses([&](Hash& h) { file(h).unset("CRC"); }));
}

TEST(ReedSolomonHeader, HoldsTheMetadataOfAllMembers) {
  TestSet test(make_set(Scheme::kReedSolomon, 4, 2), {{11}, {5, 2}, {}, {1}}, 64);
  ASSERT_NO_FATAL_FAILURE(test.encode_all());
  auto header = read_redundancy_header(real_file_system(), test.redundancy_file(2).string());
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  std::vector<int> indexes;
  for (const MemberFiles& member : header->members) {
    indexes.push_back(member.index);
    EXPECT_EQ(member.files, test.members[static_cast<std::size_t>(member.index)].files);
  }
  EXPECT_THAT(indexes, ElementsAre(2, 0, 1, 3));
  EXPECT_EQ(header->payload_size(), 12U);
}

}  // namespace
}  // namespace scr::redundancy::testing
