#include "core/base/access.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using testing::TemporaryDirectory;

class ModeTest : public ::testing::Test {
 protected:
  ModeTest() : before_(::umask(027)) {}
  ~ModeTest() override { ::umask(before_); }

  static void make(const std::string& path, mode_t mode) {
    std::ofstream(path) << "data";
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  static mode_t mode_of(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
  }
  // The mode that a file has after it was written beside `name()` and is about to take its place.
  mode_t written(mode_t temporary) {
    make(directory_ / "a.tmp", temporary);
    const Status status = take_mode(real_file_system(), directory_ / "a.tmp", name());
    EXPECT_TRUE(status.ok()) << status.message();
    return mode_of(directory_ / "a.tmp");
  }
  std::string name() const { return directory_ / "a"; }

 private:
  const mode_t before_;
  TemporaryDirectory directory_;
};

TEST_F(ModeTest, OfNewFilesFollowsTheUmask) {
  EXPECT_EQ(mode_of_new_files(real_file_system()), mode_t{0640});
}

TEST_F(ModeTest, OfAReplacedFileIsKept) {
  make(name(), 0604);
  EXPECT_EQ(temporary_mode(real_file_system(), name()), mode_t{0600});
  EXPECT_EQ(written(0600), mode_t{0604});
}

TEST_F(ModeTest, IsThatOfANewFileIfTheReplacedOneHasGoneSince) {
  EXPECT_EQ(written(0600), mode_t{0640});
}

TEST_F(ModeTest, OfANewFileIsLeftAlone) { EXPECT_EQ(written(0644), mode_t{0644}); }

}  // namespace
}  // namespace scr
