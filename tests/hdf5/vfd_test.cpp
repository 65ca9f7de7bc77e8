// The HDF5 driver "scr" as a program sees it: the files it makes, the errors it reports, its locks.
//
// The test is linked with the plug-in, and finds the same file in HDF5_PLUGIN_PATH, which the build
// sets, when it chooses the driver by name.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/temporary_directory.hpp"
#include "vfd/hdf5/h5fd_scr.h"

namespace scr::vfd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr hsize_t kCount = 100'000;

// Each of these makes a file access property list with a driver in it.
hid_t sec2_list() {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  EXPECT_GE(H5Pset_fapl_sec2(fapl), 0);
  return fapl;
}

hid_t list_by_property() {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  EXPECT_GE(H5Pset_fapl_scr(fapl, nullptr), 0);
  return fapl;
}

hid_t list_by_name() {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  EXPECT_GE(H5Pset_driver_by_name(fapl, H5FD_SCR_NAME, nullptr), 0);
  return fapl;
}

// As the last, but with the library started anew in an environment that names the driver.
hid_t list_from_environment() {
  H5close();
  ::setenv("HDF5_DRIVER", H5FD_SCR_NAME, 1);
  H5open();
  ::unsetenv("HDF5_DRIVER");
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return H5Pcreate(H5P_FILE_ACCESS);
}

// The innermost entry of the error stack, and the name of its class.
struct DeepestError {
  std::string text;
  std::string error_class;
  hid_t major = -1;
  hid_t minor = -1;
};

DeepestError deepest_error() {
  H5E_error2_t found{};
  std::string text;
  std::pair result(&found, &text);
  const auto take_first = [](unsigned, const H5E_error2_t* entry, void* to) -> herr_t {
    const auto& [error, description] = *static_cast<decltype(result)*>(to);
    *error = *entry;
    *description = entry->desc;
    return 1;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &result);
  char name[64] = "";
  H5Eget_class_name(found.cls_id, name, sizeof(name));  // clears the stack
  return {text, name, found.maj_num, found.min_num};
}

// Writes a small file of every kind of block: groups, a chunked and a contiguous dataset, an
// attribute.
void write_file(const std::string& path, hid_t fapl) {
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  const hsize_t size = kCount;
  const hsize_t chunk = 4096;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
  ASSERT_GE(file, 0) << deepest_error().text;
  const hid_t group = H5Gcreate2(file, "step", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, false);
  for (const char* name : {"contiguous", "chunked"}) {
    const hid_t set =
        H5Dcreate2(group, name, H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(set);
    H5Pset_chunk(creation, 1, &chunk);
  }
  H5Pclose(creation);
  H5Sclose(space);
  H5Gclose(group);
  EXPECT_GE(H5Fclose(file), 0);
}

long long sum_of(const std::string& path, hid_t fapl) {
  std::vector<int> values(kCount);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, fapl);
  const hid_t set = H5Dopen2(file, "step/chunked", H5P_DEFAULT);
  EXPECT_GE(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Dclose(set);
  H5Fclose(file);
  return std::accumulate(values.begin(), values.end(), 0LL);
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Vfd : public ::testing::Test {
 protected:
  void SetUp() override { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }
  void TearDown() override { H5close(); }
  testing::TemporaryDirectory directory_;
};

// One way to choose the driver.
struct Choice {
  const char* name;
  hid_t (*make_list)();
};

// Without this, test names would hold addresses.
void PrintTo(const Choice& choice, std::ostream* out) { *out << choice.name; }

class VfdChosen : public Vfd, public ::testing::WithParamInterface<Choice> {};

std::string choice_name(const ::testing::TestParamInfo<Choice>& choice) {
  return choice.param.name;
}

INSTANTIATE_TEST_SUITE_P(By, VfdChosen,
                         ::testing::Values(Choice{"Property", list_by_property},
                                           Choice{"Name", list_by_name},
                                           Choice{"Environment", list_from_environment}),
                         choice_name);

TEST_P(VfdChosen, WritesTheSameBytesAsSec2) {
  const hid_t fapl = GetParam().make_list();
  write_file(directory_ / "scr.h5", fapl);
  write_file(directory_ / "sec2.h5", sec2_list());
  EXPECT_EQ(bytes_of(directory_ / "scr.h5"), bytes_of(directory_ / "sec2.h5"));
  EXPECT_GT(bytes_of(directory_ / "scr.h5").size(), 2 * kCount * sizeof(int));
}

TEST_P(VfdChosen, ReadsWhatSec2Wrote) {
  const hid_t fapl = GetParam().make_list();
  write_file(directory_ / "sec2.h5", sec2_list());
  EXPECT_EQ(sum_of(directory_ / "sec2.h5", fapl), 4'999'950'000);
}

TEST_P(VfdChosen, OpenOfAMissingFileSaysWhichAndWhy) {
  const hid_t fapl = GetParam().make_list();
  const std::string path = directory_ / "missing.h5";
  EXPECT_LT(H5Fopen(path.c_str(), H5F_ACC_RDONLY, fapl), 0);
  const DeepestError error = deepest_error();
  EXPECT_EQ(error.text,
            "cannot open '" + path + "': No such file or directory (errno = 2, driver scr)");
  EXPECT_EQ(error.error_class, "h5scr");
  EXPECT_EQ(error.major, H5E_FILE);
  EXPECT_EQ(error.minor, H5E_CANTOPENFILE);
}

TEST_F(Vfd, ReportsErrorsAfterTheLibraryWasClosedAndOpenedAgain) {
  for (int round = 0; round < 3; ++round) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    EXPECT_LT(H5Fopen("missing.h5", H5F_ACC_RDONLY, list_by_name()), 0);
    EXPECT_EQ(deepest_error().error_class, "h5scr");
    H5close();
  }
}

TEST_F(Vfd, SaysThatAPathIsADirectory) {
  EXPECT_LT(H5Fopen(directory_.path().c_str(), H5F_ACC_RDWR, list_by_name()), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("Is a directory (errno = 21, driver scr)"));
}

TEST_F(Vfd, AFailedWriteSaysWhereAndWhy) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const std::string path = directory_ / "large.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, list_by_name());
  const hsize_t size = kCount;
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  const hid_t set =
      H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<int> values(kCount);
  const rlimit small{16'384, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const herr_t written =
      H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_LT(written, 0);
  const DeepestError error = deepest_error();
  EXPECT_THAT(error.text, HasSubstr("cannot write '" + path +
                                    "': File too large, 400000 bytes at "
                                    "offset 2048 (errno = 27,"));
  EXPECT_EQ(error.minor, H5E_WRITEERROR);
}

TEST_F(Vfd, AWriterKeepsOutAnotherOpenWithSec2) {
  const std::string path = directory_ / "x.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, list_by_name());
  ASSERT_GE(file, 0);
  EXPECT_LT(H5Fopen(path.c_str(), H5F_ACC_RDWR, sec2_list()), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("unable to lock file"));
}

TEST_F(Vfd, AWriterWithSec2KeepsOutAnotherOpen) {
  const std::string path = directory_ / "x.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, sec2_list());
  ASSERT_GE(file, 0);
  EXPECT_LT(H5Fopen(path.c_str(), H5F_ACC_RDWR, list_by_name()), 0);
  const DeepestError error = deepest_error();
  EXPECT_THAT(error.text,
              AllOf(HasSubstr("unable to lock file '" + path + "'"),
                    HasSubstr("Resource temporarily unavailable"), HasSubstr("errno = 11,")));
  EXPECT_EQ(error.minor, H5E_CANTLOCKFILE);
}

TEST_F(Vfd, TakesNoLockWhenLockingIsOff) {
  const std::string path = directory_ / "x.h5";
  write_file(path, sec2_list());
  const hid_t writer = H5Fopen(path.c_str(), H5F_ACC_RDWR, sec2_list());
  const hid_t fapl = list_by_name();
  H5Pset_file_locking(fapl, false, true);
  EXPECT_GE(H5Fopen(path.c_str(), H5F_ACC_RDONLY, fapl), 0) << deepest_error().text;
  H5Fclose(writer);
}

TEST_F(Vfd, KnowsAFileByAnotherName) {
  const std::string path = directory_ / "x.h5";
  write_file(path, sec2_list());
  std::filesystem::create_symlink(path, directory_ / "link.h5");
  const hid_t first = H5Fopen(path.c_str(), H5F_ACC_RDWR, list_by_property());
  const hid_t second = H5Fopen((directory_ / "link.h5").c_str(), H5F_ACC_RDWR, list_by_name());
  ASSERT_GE(second, 0) << deepest_error().text;
  unsigned long numbers[2] = {1, 2};
  EXPECT_GE(H5Fget_fileno(first, &numbers[0]), 0);
  EXPECT_GE(H5Fget_fileno(second, &numbers[1]), 0);
  EXPECT_EQ(numbers[0], numbers[1]);
}

TEST_F(Vfd, GivesADescriptorThatChildrenDoNotInherit) {
  const std::string path = directory_ / "x.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, list_by_name());
  void* handle = nullptr;
  ASSERT_GE(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle), 0);
  const int descriptor = *static_cast<int*>(handle);
  struct stat opened {};
  struct stat named {};
  ASSERT_EQ(fstat(descriptor, &opened), 0);
  ASSERT_EQ(stat(path.c_str(), &named), 0);
  EXPECT_EQ(opened.st_ino, named.st_ino);
  EXPECT_EQ(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(Vfd, DeletesAFile) {
  const std::string path = directory_ / "x.h5";
  write_file(path, sec2_list());
  EXPECT_GE(H5Fdelete(path.c_str(), list_by_name()), 0) << deepest_error().text;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Vfd, TellsAnHdf5FileFromAnother) {
  write_file(directory_ / "x.h5", list_by_name());
  std::ofstream(directory_ / "notes.txt") << "no HDF5 here";
  EXPECT_GT(H5Fis_accessible((directory_ / "x.h5").c_str(), list_by_name()), 0);
  EXPECT_EQ(H5Fis_accessible((directory_ / "notes.txt").c_str(), list_by_name()), 0);
}

TEST_F(Vfd, KeepsTheFileWhenCreationIsExclusive) {
  const std::string path = directory_ / "x.h5";
  write_file(path, list_by_name());
  const std::string before = bytes_of(path);
  EXPECT_LT(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, list_by_name()), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("File exists (errno = 17, driver scr)"));
  EXPECT_EQ(bytes_of(path), before);
}

TEST_F(Vfd, CreatesWithTheUmaskAsSec2Does) {
  const mode_t old = umask(027);
  write_file(directory_ / "x.h5", list_by_name());
  umask(old);
  EXPECT_EQ(std::filesystem::status(directory_ / "x.h5").permissions(),
            static_cast<std::filesystem::perms>(0640));
}

TEST_F(Vfd, RefusesAConfigurationStringThatItDoesNotUnderstand) {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  ASSERT_GE(H5Pset_driver_by_name(fapl, H5FD_SCR_NAME, "route=all"), 0);
  EXPECT_LT(H5Fcreate((directory_ / "x.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("the driver configuration 'route=all'"));
}

TEST_F(Vfd, PropertyRefusesAConfigurationItDoesNotUnderstand) {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5FD_scr_config_t config = H5FD_SCR_CONFIG_DEFAULT;
  EXPECT_GE(H5Pset_fapl_scr(fapl, &config), 0);
  config.version = 7;
  EXPECT_LT(H5Pset_fapl_scr(fapl, &config), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("magic or version is wrong"));
  config = H5FD_SCR_CONFIG_DEFAULT;
  config.reserved[3] = 1;
  EXPECT_LT(H5Pset_fapl_scr(fapl, &config), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("a reserved field is not zero"));
  EXPECT_LT(H5Pset_fapl_scr(H5P_DATASET_CREATE_DEFAULT, nullptr), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("not a file access property list"));
}

TEST_F(Vfd, PropertyCarriesSettings) {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5FD_scr_config_t config = H5FD_SCR_CONFIG_DEFAULT;
  std::strcpy(config.settings, "SCR_FLUSH=some; ROUTE='*;.h5' TYPE=CKPT");
  ASSERT_GE(H5Pset_fapl_scr(fapl, &config), 0) << deepest_error().text;
  EXPECT_LT(H5Fcreate((directory_ / "x.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("SCR_FLUSH"));
  std::strcpy(config.settings, "SCR_FLUSH=1; ROUTE='*;.h5' TYPE=CKPT");
  ASSERT_GE(H5Pset_fapl_scr(fapl, &config), 0) << deepest_error().text;
  H5FD_scr_config_t found{};
  ASSERT_GE(H5Pget_fapl_scr(fapl, &found), 0) << deepest_error().text;
  EXPECT_STREQ(found.settings, config.settings);
  const hid_t file = H5Fcreate((directory_ / "x.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
  EXPECT_GE(file, 0) << deepest_error().text;
  H5Fclose(file);
}

TEST_F(Vfd, PropertyTellsWhetherAListHasTheDriver) {
  H5FD_scr_config_t config{};
  EXPECT_LT(H5Pget_fapl_scr(sec2_list(), &config), 0);
  EXPECT_GE(H5Pget_fapl_scr(list_by_name(), &config), 0) << deepest_error().text;
  EXPECT_EQ(config.version, H5FD_SCR_CONFIG_VERSION);
  EXPECT_LT(H5Pget_fapl_scr(sec2_list(), &config), 0);
  EXPECT_THAT(deepest_error().text, HasSubstr("the list has another driver"));
}

}  // namespace
}  // namespace scr::vfd
