#include "core/base/checksum.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace scr {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(12345);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// The definition, bit by bit.
std::uint32_t slow_crc32(std::span<const std::byte> data) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte b : data) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

TEST(Crc32, GivesTheKnownVectorsOfZlib) {
  EXPECT_EQ(crc32(bytes_of("")), 0U);
  EXPECT_EQ(crc32(bytes_of("a")), 0xe8b7be43U);
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32(bytes_of("The quick brown fox jumps over the lazy dog")), 0x414fa339U);
  EXPECT_EQ(crc32(std::vector<std::byte>(32)), 0x190a55adU);
}

TEST(Crc32, AgreesWithTheDefinitionForEveryShortLengthAndAlignment) {
  const auto data = random_bytes(2100);
  for (std::size_t start = 0; start < 17; ++start) {
    for (std::size_t length = 0; length <= 2080; length += 1 + length / 16) {
      const auto piece = std::span(data).subspan(start, length);
      ASSERT_EQ(crc32(piece), slow_crc32(piece)) << start << " " << length;
    }
  }
}

TEST(Crc32, IsTheSameInPiecesAsInOne) {
  const auto data = random_bytes(100'000);
  Crc32 crc;
  std::size_t done = 0;
  for (std::size_t size = 0; done < data.size(); size = size * 3 + 1) {
    const std::size_t count = std::min(size, data.size() - done);
    crc.update(std::span(data).subspan(done, count));
    done += count;
  }
  EXPECT_EQ(crc.value(), crc32(data));
}

TEST(Crc32, GoesOnFromAnEarlierValue) {
  Crc32 crc(crc32(bytes_of("1234")));
  crc.update(bytes_of("56789"));
  EXPECT_EQ(crc.value(), 0xcbf43926U);
}

TEST(Crc32Combine, EqualsTheChecksumOfTheWhole) {
  const auto data = random_bytes(70'000);
  for (const std::size_t whole : {0U, 1U, 2U, 255U, 256U, 4097U, 70'000U}) {
    for (std::size_t cut = 0; cut <= whole; cut += 1 + cut / 3 + whole / 100) {
      const auto both = std::span(data).first(whole);
      const auto combined =
          crc32_combine(crc32(both.first(cut)), crc32(both.subspan(cut)), whole - cut);
      ASSERT_EQ(combined, crc32(both)) << cut << " of " << whole;
    }
  }
}

TEST(Crc32Combine, IsAssociativeForLengthsNoMemoryHolds) {
  const std::uint32_t a = 0x12345678;
  const std::uint32_t b = 0x9abcdef0;
  const std::uint32_t c = 0x0fedcba9;
  const std::uint64_t length_b = (std::uint64_t{1} << 50U) + 12345;
  const std::uint64_t length_c = (std::uint64_t{3} << 51U) + 7;
  EXPECT_EQ(crc32_combine(crc32_combine(a, b, length_b), c, length_c),
            crc32_combine(a, crc32_combine(b, c, length_c), length_b + length_c));
}

TEST(Crc32Text, IsTheFormOfTheMetadata) {
  EXPECT_EQ(crc32_to_text(0x1b39e4e4U), "0x1b39e4e4");
  EXPECT_EQ(crc32_to_text(0xabU), "0x000000ab");
}

TEST(Crc32Text, IsReadBack) {
  for (const std::uint32_t crc : {0U, 1U, 0x1b39e4e4U, 0xFFFFFFFFU}) {
    const auto read = crc32_from_text(crc32_to_text(crc));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, crc);
  }
  EXPECT_EQ(crc32_from_text("0x1B39E4E4").value(), 0x1b39e4e4U);
  EXPECT_EQ(crc32_from_text("0xab").value(), 0xabU);
}

TEST(Crc32Text, RefusesAllElse) {
  for (const char* bad : {"", "0x", "1b39e4e4", "0X1b39e4e4", "0x1b39e4e4 ", "0x-1", "0x+1",
                          "0x1b39e4e45", "0xg", "0x1b\n"}) {
    const auto read = crc32_from_text(bad);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.status().code(), StatusCode::kCorrupt);
  }
  EXPECT_EQ(crc32_from_text("0x1b\n").status().message(),
            "checksum '0x1b\\x0a' is not of the form 0x1b39e4e4");
}

}  // namespace
}  // namespace scr
