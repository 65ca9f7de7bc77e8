#include "core/routing/marker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/base/checksum.hpp"
#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::routing {
namespace {

using ::testing::HasSubstr;

Marker example() {
  Marker marker;
  marker.file = "run/ckpt_0007.3.h5";
  marker.id = 0x0123456789abcdef;
  marker.dataset = 7;
  marker.rank = 3;
  marker.job = "4711";
  marker.host = "node3";
  marker.service = "node3:40321";
  marker.container = true;
  marker.generation = 12;
  marker.created = 1700000000000007;
  marker.written = 1700000000000008000;
  return marker;
}

Result<Marker> decode_text(const std::string& text) {
  return decode(std::as_bytes(std::span(text)));
}

std::string text_of(const Marker& marker) {
  auto text = encode(marker);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

// With a checksum that is right again: what an attacker would write.
std::string forged(const std::string& what, const std::string& by) {
  std::string text = text_of(example());
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), by);
  text.resize(kMarkerSize - 17, '\n');
  return text + "CRC32=" + crc32_to_text(crc32(std::as_bytes(std::span(text)))) + "\n";
}

TEST(MarkerFormat, ComesBackAsItWas) {
  const std::string text = text_of(example());
  const auto back = decode_text(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, example());
}

TEST(MarkerFormat, HoldsEmptyTextsAndTheLargestNumbers) {
  Marker marker;
  marker.file = "x";
  marker.id = ~std::uint64_t{0};
  marker.generation = ~std::uint64_t{0};
  marker.created = std::numeric_limits<std::int64_t>::max();
  marker.written = std::numeric_limits<std::int64_t>::max();
  marker.dataset = marker.rank = std::numeric_limits<int>::max();
  const auto back = decode_text(text_of(marker));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, marker);
}

TEST(MarkerFormat, HasTheBytesOfItsDescription) {
  const std::string text = text_of(example());
  ASSERT_EQ(text.size(), kMarkerSize);
  EXPECT_EQ(text.substr(0, 9), std::string("\211HDF\r\n\032\n\377", 9));
  EXPECT_THAT(text, HasSubstr("\nThis is not data."));
  EXPECT_THAT(text, HasSubstr("\n\nH5SCR_MARKER=1\nFILE=run/ckpt_0007.3.h5\n"
                              "ID=0x0123456789abcdef\nDATASET=7\nRANK=3\nJOB=4711\nHOST=node3\n"
                              "SERVICE=node3:40321\nCONTAINER=1\nGENERATION=12\n"
                              "CREATED=1700000000000007\n"
                              "WRITTEN=1700000000000008000\n\n\n"));
  const std::string before = text.substr(0, kMarkerSize - 17);
  EXPECT_EQ(text.substr(kMarkerSize - 17),
            "CRC32=" + crc32_to_text(crc32(std::as_bytes(std::span(before)))) + "\n");
}

TEST(MarkerFormat, LongestTextsFitAndLongerOnesAreRefused) {
  Marker marker = example();
  marker.file = std::string(255, 'a');
  while (marker.file.size() + 256 <= 2048) marker.file += "/" + std::string(255, 'b');
  marker.job = marker.host = marker.service = std::string(255, 'x');
  marker.id = marker.generation = ~std::uint64_t{0};
  EXPECT_TRUE(encode(marker).ok());
  marker.host += 'x';
  EXPECT_EQ(encode(marker).status().code(), StatusCode::kInvalidArgument);
  marker.host = "n";
  marker.file += "/" + std::string(255, 'c');
  EXPECT_THAT(std::string(encode(marker).status().message()),
              HasSubstr("FILE is longer than 2048"));
}

TEST(MarkerFormat, RefusesNamesThatLeaveThePrefixOrBreakALine) {
  for (const char* name : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "x\nID=0x1"}) {
    Marker marker = example();
    marker.file = name;
    EXPECT_EQ(encode(marker).status().code(), StatusCode::kInvalidArgument) << name;
  }
  Marker marker = example();
  marker.host = "x\nRANK=9";
  EXPECT_EQ(encode(marker).status().code(), StatusCode::kInvalidArgument);
}

TEST(MarkerFormat, EveryChangedByteIsNoticed) {
  const std::string text = text_of(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    EXPECT_EQ(decode_text(changed).status().code(), StatusCode::kCorrupt) << i;
  }
}

TEST(MarkerFormat, EveryOtherLengthIsRefused) {
  const std::string text = text_of(example());
  EXPECT_FALSE(decode_text(text + "\n").ok());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode_text(text.substr(0, length)).ok()) << length;
  }
}

TEST(MarkerFormat, ForgedTextIsRefused) {
  ASSERT_TRUE(decode_text(forged("RANK=3", "RANK=4")).ok());
  const std::pair<const char*, const char*> forgeries[] = {
      {"FILE=run/", "FILE=../"},
      {"FILE=run/", "FILE=/etc/"},
      {"RANK=3\n", ""},
      {"RANK=3", "RANK=-3"},
      {"RANK=3", "RANK=3 "},
      {"RANK=3", "RANK=99999999999"},
      {"RANK=3", "RANK=3\nRANK=4"},
      {"RANK=3", "RANK"},
      {"ID=0x01", "ID=01"},
      {"ID=0x01", "ID=0xg1"},
      {"ID=0x01", "ID=0x1101"},
      {"CONTAINER=1", "CONTAINER=2"},
      {"_MARKER=1", "_MARKER=2"},
      {"H5SCR_MARKER", "H5SCR_MURKER"},
      {"HOST=node3", "HOST=\033[2J"},
      {"CREATED=17", "CREATED=-17"},
      {"WRITTEN=17", "WRITTEN=-17"},
      {"DATASET=7", "DATASET="},
  };
  for (const auto& [what, by] : forgeries) {
    EXPECT_EQ(decode_text(forged(what, by)).status().code(), StatusCode::kCorrupt) << by;
  }
}

// --- files

class MarkerFile : public ::testing::Test {
 protected:
  std::string name() const { return directory_ / "ckpt.h5"; }
  static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string get(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
  }
  std::optional<Marker> read() {
    auto found = read_marker(fs_, name());
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : std::nullopt;
  }

  scr::testing::TemporaryDirectory directory_;
  FileSystem& fs_ = real_file_system();
};

TEST_F(MarkerFile, IsWrittenReadAndRemoved) {
  EXPECT_EQ(read(), std::nullopt);
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  EXPECT_EQ(read(), example());
  EXPECT_EQ(files(), 1U);
  ASSERT_TRUE(remove_marker(fs_, name(), example()).ok());
  EXPECT_EQ(files(), 0U);
  EXPECT_TRUE(remove_marker(fs_, name(), example()).ok());
}

TEST_F(MarkerFile, WorksBelowADirectory) {
  std::filesystem::create_directory(directory_ / "sub");
  const auto below = *fs_.open_directory(directory_.path());
  ASSERT_TRUE(write_marker(fs_, At(*below, "sub/x.h5"), example()).ok());
  EXPECT_EQ(**read_marker(fs_, At(*below, "sub/x.h5")), example());
  EXPECT_TRUE(remove_marker(fs_, At(*below, "sub/x.h5"), example()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "sub/x.h5"));
}

TEST_F(MarkerFile, TakesThePlaceOfAnOlderMarkerAlsoADamagedOne) {
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  Marker next = example();
  next.generation = 13;
  ASSERT_TRUE(write_marker(fs_, name(), next).ok());
  EXPECT_EQ(read(), next);
  std::string bytes = get(name());
  bytes[3000] = 'x';
  put(name(), bytes);
  EXPECT_EQ(read_marker(fs_, name()).status().code(), StatusCode::kCorrupt);
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  EXPECT_EQ(read(), example());
  EXPECT_EQ(files(), 1U);
}

TEST_F(MarkerFile, NeverReplacesARealFile) {
  const std::string contents[] = {
      "", "data", std::string(kMarkerSize, 'x'),
      std::string("\211HDF\r\n\032\n\000", 9) + std::string(kMarkerSize - 9, '\0')};
  for (const std::string& bytes : contents) {
    put(name(), bytes);
    const Status status = write_marker(fs_, name(), example());
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.errno_value(), EEXIST);
    EXPECT_EQ(read(), std::nullopt);
    EXPECT_TRUE(remove_marker(fs_, name(), example()).ok());
    EXPECT_EQ(get(name()), bytes);
    EXPECT_EQ(files(), 1U);
  }
}

TEST_F(MarkerFile, DirectoriesPipesAndLinksAreNoMarkers) {
  std::filesystem::create_directory(name());
  EXPECT_FALSE(write_marker(fs_, name(), example()).ok());
  EXPECT_EQ(read(), std::nullopt);
  std::filesystem::remove(name());
  ASSERT_EQ(::mkfifo(name().c_str(), 0600), 0);
  EXPECT_FALSE(write_marker(fs_, name(), example()).ok());
  EXPECT_EQ(read(), std::nullopt);
  std::filesystem::remove(name());
  // A user's link is read through, but stays.
  ASSERT_TRUE(write_marker(fs_, directory_ / "target", example()).ok());
  std::filesystem::create_symlink("target", name());
  EXPECT_EQ(read(), example());
  EXPECT_FALSE(write_marker(fs_, name(), example()).ok());
  EXPECT_TRUE(remove_marker(fs_, name(), example()).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(name()));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "target"));
}

TEST_F(MarkerFile, OfAnotherFileIsNotRemoved) {
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  Marker other = example();
  other.id = 1;
  EXPECT_TRUE(remove_marker(fs_, name(), other).ok());
  EXPECT_EQ(read(), example());
}

TEST_F(MarkerFile, OtherFilesCostOneStat) {
  put(name(), "data");
  FaultyFileSystem counting(fs_, FaultPlan{});
  ASSERT_TRUE(read_marker(counting, name()).ok());
  EXPECT_EQ(counting.operations(), 1U);
}

TEST_F(MarkerFile, AFailureAtAnyStepLeavesTheOldMarkerOrTheNew) {
  Marker next = example();
  next.generation = 13;
  int failures = 0;
  for (std::uint64_t n = 1; n < 100; ++n) {
    ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
    FaultyFileSystem faulty(fs_, FaultPlan::fail_at(n, EIO));
    const Status status = write_marker(faulty, name(), next);
    const std::optional<Marker> now = read();
    EXPECT_TRUE(now == example() || now == next) << n;
    EXPECT_TRUE(!status.ok() || now == next) << n;
    if (faulty.hits() == 0) break;
    ++failures;
  }
  EXPECT_GE(failures, 6);
}

// Lets a real file come under the name just before a step.
class RacyFileSystem : public scr::testing::ForwardingFileSystem {
 public:
  std::function<void()> before_exchange;
  std::function<void()> before_rename;
  bool can_exchange = true;

  Status exchange(const At& one, const At& other) override {
    if (!can_exchange)
      return FileSystem::exchange(one, other);  // NOLINT(bugprone-parent-virtual-call)
    if (before_exchange) std::exchange(before_exchange, nullptr)();
    return ForwardingFileSystem::exchange(one, other);
  }
  Status rename(const At& from, const At& to, bool exclusive) override {
    if (!exclusive && before_rename) std::exchange(before_rename, nullptr)();
    return ForwardingFileSystem::rename(from, to, exclusive);
  }
};

TEST_F(MarkerFile, ARealFileThatComesAtTheSameMomentWinsOverANewMarker) {
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  RacyFileSystem racy;
  racy.before_exchange = [&] {
    put(directory_ / "new", "real");
    std::filesystem::rename(directory_ / "new", name());
  };
  EXPECT_EQ(write_marker(racy, name(), example()).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(get(name()), "real");
  EXPECT_EQ(files(), 1U);
}

TEST_F(MarkerFile, ARealFileThatComesAtTheSameMomentIsNotRemoved) {
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  RacyFileSystem racy;
  racy.before_rename = [&] {
    put(directory_ / "new", "real");
    std::filesystem::rename(directory_ / "new", name());
  };
  EXPECT_TRUE(remove_marker(racy, name(), example()).ok());
  EXPECT_EQ(get(name()), "real");
  EXPECT_EQ(files(), 1U);
}

TEST_F(MarkerFile, AMarkerThatGoesAtTheSameMomentIsWrittenAnew) {
  ASSERT_TRUE(write_marker(fs_, name(), example()).ok());
  RacyFileSystem racy;
  racy.before_exchange = [&] { std::filesystem::remove(name()); };
  EXPECT_TRUE(write_marker(racy, name(), example()).ok());
  EXPECT_EQ(read(), example());
  EXPECT_EQ(files(), 1U);
}

TEST_F(MarkerFile, WithoutExchangeOfNamesMarkersAreStillReplaced) {
  RacyFileSystem racy;
  racy.can_exchange = false;
  ASSERT_TRUE(write_marker(racy, name(), example()).ok());
  Marker next = example();
  next.generation = 13;
  ASSERT_TRUE(write_marker(racy, name(), next).ok());
  EXPECT_EQ(read(), next);
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace scr::routing
