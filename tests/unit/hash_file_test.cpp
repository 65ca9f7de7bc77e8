// Hash files: bytes as in the SCR manual §3.4, every damage noticed, atomic replace, locked
// updates.
#include "core/base/hash_file.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using testing::TemporaryDirectory;

Hash small_hash() {
  Hash hash;
  hash.set_value("RANK", 3);
  hash.at("EMPTY");
  return hash;
}

// The file of small_hash(), written by hand from the format's description. The CRC32 is the one
// that zlib's crc32() gives for the 49 bytes before it.
const unsigned char kGolden[] = {
    0x95, 0x1f, 0xc3, 0xf5,                 // magic number
    0x00, 0x01,                             // file type: hash
    0x00, 0x01,                             // file version
    0,    0,    0,    0,    0,   0, 0, 53,  // file size
    0x00, 0x00, 0x00, 0x01,                 // flags: CRC32 follows
    0,    0,    0,    2,                    // two elements
    'R',  'A',  'N',  'K',  0,              // key
    0,    0,    0,    1,                    //   one element
    '3',  0,                                //   key
    0,    0,    0,    0,                    //     empty hash
    'E',  'M',  'P',  'T',  'Y', 0,         // key
    0,    0,    0,    0,                    //   empty hash
    0xea, 0x2e, 0x33, 0xc1,                 // CRC32
};

std::vector<std::byte> golden() {
  std::vector<std::byte> bytes(sizeof kGolden);
  std::memcpy(bytes.data(), kGolden, sizeof kGolden);
  return bytes;
}

TEST(HashFile, HasTheBytesOfTheFormat) {
  auto bytes = encode_hash_file(small_hash());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, golden());
}

TEST(HashFile, ReadsTheBytesOfTheFormat) {
  auto hash = decode_hash_file(golden(), "golden");
  ASSERT_TRUE(hash.ok()) << hash.status().to_string();
  EXPECT_EQ(*hash, small_hash());
}

TEST(HashFile, RefusesEveryOneByteChange) {
  for (std::size_t i = 0; i < sizeof kGolden; ++i) {
    for (int change = 1; change < 256; ++change) {
      auto bytes = golden();
      bytes[i] ^= static_cast<std::byte>(change);
      auto hash = decode_hash_file(bytes, "the-file");
      ASSERT_FALSE(hash.ok()) << "byte " << i << " changed by " << change;
      EXPECT_EQ(hash.status().code(), StatusCode::kCorrupt);
      EXPECT_NE(hash.status().message().find("'the-file' is not a valid hash file: "),
                std::string::npos);
    }
  }
}

TEST(HashFile, RefusesEveryTruncationAndExtension) {
  for (std::size_t length = 0; length < sizeof kGolden; ++length) {
    auto bytes = golden();
    bytes.resize(length);
    auto hash = decode_hash_file(bytes, "the-file");
    ASSERT_FALSE(hash.ok()) << "cut to " << length;
    EXPECT_NE(hash.status().message().find("the-file"), std::string::npos);
  }
  auto bytes = golden();
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_hash_file(bytes, "the-file").ok());
}

TEST(HashFile, PrefixFormStopsWhereTheHashEnds) {
  auto bytes = golden();
  bytes.resize(bytes.size() + 100, std::byte{0xee});
  std::size_t length = 0;
  auto hash = decode_hash_file_prefix(bytes, "header", length);
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(length, sizeof kGolden);
}

TEST(HashFile, WritesAndReadsOnDisk) {
  TemporaryDirectory dir;
  for (Durability durability : {Durability::kVolatile, Durability::kDurable}) {
    ASSERT_TRUE(write_hash_file(real_file_system(), dir / "x.scr", small_hash(), durability).ok());
    auto hash = read_hash_file(real_file_system(), dir / "x.scr");
    ASSERT_TRUE(hash.ok()) << hash.status().to_string();
    EXPECT_EQ(*hash, small_hash());
  }
}

TEST(HashFile, MissingFileIsNotFoundAndNamed) {
  auto hash = read_hash_file(real_file_system(), "/nowhere/x.scr");
  EXPECT_EQ(hash.status().code(), StatusCode::kNotFound);
  EXPECT_NE(hash.status().message().find("/nowhere/x.scr"), std::string::npos);
}

TEST(HashFile, AFailedWriteAtAnyOperationKeepsTheOldContent) {
  TemporaryDirectory dir;
  const std::string file = dir / "x.scr";
  ASSERT_TRUE(write_hash_file(real_file_system(), file, small_hash(), Durability::kDurable).ok());
  Hash other;
  other.set_value("NEW", 1);
  for (std::uint64_t n = 1;; ++n) {
    FaultyFileSystem faulty(real_file_system(), FaultPlan::fail_at(n, EIO));
    Status status = write_hash_file(faulty, file, other, Durability::kDurable);
    auto hash = read_hash_file(real_file_system(), file);
    ASSERT_TRUE(hash.ok()) << "operation " << n << ": " << hash.status().to_string();
    if (status.ok()) {
      EXPECT_EQ(*hash, other);
      EXPECT_GT(n, 4u) << "open, write, sync and rename at least can fail";
      break;
    }
    EXPECT_TRUE(*hash == small_hash() || *hash == other);
    ASSERT_TRUE(write_hash_file(real_file_system(), file, small_hash(), Durability::kDurable).ok());
  }
}

TEST(LockedHashFile, ConcurrentUpdatesLoseNothing) {
  TemporaryDirectory dir;
  const std::string file = dir / "counter.scr";
  constexpr int kProcesses = 4;
  constexpr int kUpdates = 50;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0; i < kUpdates; ++i) {
        auto locked = LockedHashFile::open(real_file_system(), file, LockMode::kExclusive);
        if (!locked.ok()) _exit(1);
        auto count = locked->hash().require_int("COUNT");
        locked->hash().set_value("COUNT", count.ok() ? *count + 1 : 1);
        if (!locked->write(Durability::kVolatile).ok()) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(*read_hash_file(real_file_system(), file)->require_int("COUNT"), kProcesses * kUpdates);
}

TEST(LockedHashFile, SharedLockCannotWrite) {
  TemporaryDirectory dir;
  auto locked = LockedHashFile::open(real_file_system(), dir / "x.scr", LockMode::kShared);
  ASSERT_TRUE(locked.ok());
  EXPECT_TRUE(locked->hash().empty());
  EXPECT_EQ(locked->write(Durability::kVolatile).code(), StatusCode::kFailedPrecondition);
}

TEST(LockedHashFile, ACorruptFileIsAnErrorNotAnEmptyHash) {
  TemporaryDirectory dir;
  auto bytes = golden();
  bytes[30] ^= std::byte{1};
  ASSERT_TRUE(real_file_system().write_file_atomically(dir / "x.scr", bytes, false).ok());
  EXPECT_EQ(
      LockedHashFile::open(real_file_system(), dir / "x.scr", LockMode::kExclusive).status().code(),
      StatusCode::kCorrupt);
}

}  // namespace
}  // namespace scr
