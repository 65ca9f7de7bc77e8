// What HDF5 itself makes of a marker: it is found, and never read as data.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/routing/marker.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::routing {
namespace {

class MarkerInHdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    Marker marker;
    marker.file = "ckpt.h5";
    marker.id = 7;
    ASSERT_TRUE(write_marker(real_file_system(), name_, marker).ok());
    before_ = bytes();
  }
  std::string bytes() const {
    std::ifstream in(name_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Exit code of a command line of ours; no part of it comes from elsewhere.
  int run(const std::string& tool, const std::string& arguments) const {
    const std::string command = std::string(HDF5_BIN_DIR) + "/" + tool + " " + arguments + " >" +
                                directory_.path().string() + "/log 2>&1";
    return std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  }

  scr::testing::TemporaryDirectory directory_;
  std::string name_ = directory_ / "ckpt.h5";
  std::string before_;
};

TEST_F(MarkerInHdf5, IsFoundAsAnHdf5File) {
  EXPECT_GT(H5Fis_accessible(name_.c_str(), H5P_DEFAULT), 0);
  EXPECT_EQ(bytes(), before_);
}

TEST_F(MarkerInHdf5, IsRefusedByEveryOpen) {
  for (const unsigned flags : {H5F_ACC_RDONLY, H5F_ACC_RDWR, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ,
                               H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE}) {
    for (const H5F_libver_t low : {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST}) {
      const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
      H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST);
      EXPECT_LT(H5Fopen(name_.c_str(), flags, access), 0) << flags;
      H5Pclose(access);
    }
  }
  EXPECT_LT(H5Fcreate(name_.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), 0);
  EXPECT_EQ(bytes(), before_);
}

TEST_F(MarkerInHdf5, IsRefusedByTheTools) {
  const std::string copy = directory_ / "copy.h5";
  EXPECT_NE(run("h5dump", name_), 0);
  EXPECT_NE(run("h5ls", name_), 0);
  EXPECT_NE(run("h5stat", name_), 0);
  EXPECT_NE(run("h5diff", name_ + " " + name_), 0);
  EXPECT_NE(run("h5repack", name_ + " " + copy), 0);
  EXPECT_NE(run("h5copy", "-i " + name_ + " -o " + copy + " -s / -d /x"), 0);
  EXPECT_EQ(bytes(), before_);
}

TEST_F(MarkerInHdf5, AProgramWithoutUsCanWriteItsFileAnew) {
  const hid_t file = H5Fcreate(name_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  H5Fclose(file);
  const auto marker = read_marker(real_file_system(), name_);
  ASSERT_TRUE(marker.ok()) << marker.status().message();
  EXPECT_EQ(*marker, std::nullopt);
  EXPECT_EQ(run("h5dump", name_), 0);
}

}  // namespace
}  // namespace scr::routing
