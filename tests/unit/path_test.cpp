#include "core/base/path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

TEST(SafeRelativePath, AcceptsPathsThatStayBelow) {
  for (const char* good : {"a", "ckpt.1/rank_0.h5", "a/b/c", "...", "..a", "a..", ".hidden",
                           "with space", "\xC3\xBC.h5", "a:b\\c"}) {
    const auto path = safe_relative_path(good);
    ASSERT_TRUE(path.ok()) << path.status().message();
    EXPECT_EQ(*path, good);
  }
}

std::string refusal(std::string_view path) {
  const auto result = safe_relative_path(path);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.status().code(), StatusCode::kCorrupt);
  return std::string(result.status().message());
}

TEST(SafeRelativePath, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(refusal(""), "unsafe path '': it is empty");
  EXPECT_EQ(refusal("/etc/passwd"), "unsafe path '/etc/passwd': it is absolute");
  EXPECT_EQ(refusal(".."), "unsafe path '..': it has a '..' component");
  EXPECT_EQ(refusal("a/../../b"), "unsafe path 'a/../../b': it has a '..' component");
  EXPECT_EQ(refusal("a/.."), "unsafe path 'a/..': it has a '..' component");
  EXPECT_EQ(refusal("./a"), "unsafe path './a': it has a '.' component");
  EXPECT_EQ(refusal("a//b"), "unsafe path 'a//b': it has an empty component");
  EXPECT_EQ(refusal("a/"), "unsafe path 'a/': it has an empty component");
  EXPECT_EQ(refusal("a\nb"), "unsafe path 'a\\x0ab': it has a control character");
  EXPECT_EQ(refusal("a\x7f"), "unsafe path 'a\\x7f': it has a control character");
  EXPECT_EQ(refusal(std::string_view("a\0b", 3)),
            "unsafe path 'a\\x00b': it has a control character");
}

TEST(SafeRelativePath, LimitsLengths) {
  const std::string component(255, 'x');
  EXPECT_EQ(refusal(component), "accepted");
  EXPECT_THAT(refusal(component + "x"), EndsWith("it has a component of more than 255 bytes"));
  std::string longest;
  while (longest.size() + 2 <= 4095) longest += "a/";
  longest += 'b';
  ASSERT_EQ(longest.size(), 4095U);
  EXPECT_EQ(refusal(longest), "accepted");
  EXPECT_THAT(refusal(longest + "b"), EndsWith("it is longer than 4095 bytes"));
  EXPECT_LT(refusal(longest + "b").size(), 500U);
}

TEST(Normalize, WorksOnTextAlone) {
  EXPECT_EQ(normalize("/a/./b//c/../d/", "/w"), "/a/b/d");
  EXPECT_EQ(normalize("/../..", "/w"), "/");
  EXPECT_EQ(normalize("/", "/w"), "/");
  EXPECT_EQ(normalize("//a", "/w"), "/a");
}

TEST(Normalize, StartsRelativePathsAtTheWorkingDirectory) {
  EXPECT_EQ(normalize("a/b", "/w/x"), "/w/x/a/b");
  EXPECT_EQ(normalize("../a", "/w/x/"), "/w/a");
  EXPECT_EQ(normalize("", "/w/x"), "/w/x");
  const auto here = normalize("a");
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(*here, (std::filesystem::current_path() / "a").string());
}

TEST(RelativeTo, GivesTheWayFromBaseToPath) {
  EXPECT_EQ(relative_to("/p/ckpt/a", "/p"), "ckpt/a");
  EXPECT_EQ(relative_to("/p/a", "/"), "p/a");
  EXPECT_EQ(relative_to("/p", "/p"), ".");
}

TEST(RelativeTo, GivesNothingForPathsOutside) {
  EXPECT_EQ(relative_to("/prefix2/a", "/prefix"), std::nullopt);
  EXPECT_EQ(relative_to("/a", "/a/b"), std::nullopt);
  EXPECT_EQ(relative_to("/x", "/y"), std::nullopt);
}

class PrivateDirectory : public ::testing::Test {
 protected:
  Status prepare(std::string_view below = "alice/scr.1") {
    auto result = prepare_private_directory(fs_, base_.path().string(), below);
    return result.ok() ? Status() : result.status();
  }
  std::string refused() {
    const Status status = prepare();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status.to_string();
    return std::string(status.message());
  }

  FileSystem& fs_ = real_file_system();
  TemporaryDirectory base_;
};

TEST_F(PrivateDirectory, IsMadeForUsAlone) {
  auto directory = prepare_private_directory(fs_, base_.path().string(), "alice/scr.1");
  ASSERT_TRUE(directory.ok()) << directory.status().message();
  EXPECT_EQ((*directory)->path(), base_ / "alice/scr.1");
  for (const char* name : {"alice", "alice/scr.1"}) {
    const auto found = fs_.info(base_ / name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->type, FileInfo::Type::kDirectory);
    EXPECT_EQ(found->mode, 0700U);
  }
}

TEST_F(PrivateDirectory, IsUsedAgainWhenItIsThere) {
  EXPECT_TRUE(prepare().ok());
  ASSERT_EQ(::chmod((base_ / "alice").c_str(), 0755), 0);
  EXPECT_TRUE(prepare().ok());
}

TEST_F(PrivateDirectory, MayHaveASymbolicLinkAsItsBase) {
  ASSERT_TRUE(fs_.make_directory(base_ / "real").ok());
  ASSERT_TRUE(fs_.make_symlink("real", base_ / "link").ok());
  EXPECT_TRUE(prepare_private_directory(fs_, base_ / "link", "a").ok());
}

TEST_F(PrivateDirectory, NeedsItsBase) {
  const auto result = prepare_private_directory(fs_, base_ / "missing", "a");
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
}

TEST_F(PrivateDirectory, IsRefusedWhenOthersMayWriteToIt) {
  ASSERT_TRUE(prepare().ok());
  ASSERT_EQ(::chmod((base_ / "alice").c_str(), 0720), 0);
  EXPECT_EQ(refused(), "cannot keep private files in directory '" + base_ / "alice" +
                           "': its mode 0720 lets others write to it; remove it or choose another "
                           "base directory");
  ASSERT_EQ(::chmod((base_ / "alice").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((base_ / "alice/scr.1").c_str(), 0702), 0);
  EXPECT_THAT(refused(), HasSubstr("alice/scr.1': its mode 0702 lets others write to it"));
}

// Root gives a directory away; anybody else tries one of root's.
TEST_F(PrivateDirectory, IsRefusedWhenSomebodyElseOwnsIt) {
  if (::geteuid() == 0) {
    ASSERT_TRUE(prepare().ok());
    ASSERT_EQ(::chown((base_ / "alice").c_str(), 4242, 4242), 0);
    EXPECT_THAT(refused(), HasSubstr("alice': it is owned by user 4242, and we are user 0"));
  } else {
    const auto result = prepare_private_directory(fs_, "/", "usr");
    EXPECT_EQ(result.status().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("it is owned by user 0"));
  }
}

TEST_F(PrivateDirectory, IsRefusedWhenItIsASymbolicLink) {
  ASSERT_TRUE(fs_.make_directory(base_ / "elsewhere", 0700).ok());
  ASSERT_TRUE(fs_.make_symlink("elsewhere", base_ / "alice").ok());
  EXPECT_THAT(refused(), HasSubstr("alice': it is a symbolic link"));
  EXPECT_TRUE(fs_.list(base_ / "elsewhere").value().empty());
}

TEST_F(PrivateDirectory, IsRefusedWhenItIsADanglingSymbolicLink) {
  ASSERT_TRUE(fs_.make_symlink("nowhere", base_ / "alice").ok());
  EXPECT_THAT(refused(), HasSubstr("alice': it is a symbolic link"));
}

TEST_F(PrivateDirectory, IsRefusedWhenItIsAFile) {
  ASSERT_TRUE(fs_.write_file_atomically(base_ / "alice", {}, false).ok());
  EXPECT_THAT(refused(), HasSubstr("alice': it is not a directory"));
}

TEST_F(PrivateDirectory, CannotLeaveItsBase) {
  EXPECT_FALSE(prepare("../x").ok());
  EXPECT_FALSE(prepare("/x").ok());
  EXPECT_FALSE(prepare("").ok());
}

TEST_F(PrivateDirectory, ReportsTheFailureOfEachStep) {
  for (std::uint64_t n = 1;; ++n) {
    FaultyFileSystem faulty(fs_, FaultPlan::fail_at(n, EIO));
    const auto result = prepare_private_directory(faulty, base_.path().string(), "alice/scr.1");
    if (faulty.hits() == 0) {
      EXPECT_TRUE(result.ok());
      EXPECT_EQ(n, 8U);  // open base; then make, open and look up each of two
      break;
    }
    EXPECT_EQ(result.status().errno_value(), EIO);
  }
}

TEST(ParentOf, IsWhatIsBeforeTheLastSlash) {
  EXPECT_EQ(parent_of("a/b/c.h5"), "a/b");
  EXPECT_EQ(parent_of("/p/c.h5"), "/p");
  EXPECT_EQ(parent_of("c.h5"), "");
  EXPECT_EQ(parent_of("/c.h5"), "");
}

TEST(PathBeside, HasTheNameBetweenBeginningAndEnding) {
  EXPECT_EQ(path_beside("/a/b/c.h5", ".x.", ".tmp"), "/a/b/.x.c.h5.tmp");
  EXPECT_EQ(path_beside("c.h5", "", ".tmp"), "c.h5.tmp");
}

TEST(PathBeside, FitsIntoAFileSystemAndTellsLongNamesApart) {
  const std::string directory = "/a/";
  const std::string one = directory + std::string(254, 'x') + "1";
  const std::string other = directory + std::string(254, 'x') + "2";
  const std::string beside = path_beside(one, ".x.", ".tmp");
  EXPECT_EQ(beside.size(), directory.size() + 255);
  EXPECT_TRUE(beside.starts_with("/a/.x.xxx"));
  EXPECT_TRUE(beside.ends_with(".tmp"));
  EXPECT_NE(beside, path_beside(other, ".x.", ".tmp"));
  EXPECT_EQ(path_beside(directory + std::string(251, 'x'), "", ".tmp").size(),
            directory.size() + 255);
}

}  // namespace
}  // namespace scr
