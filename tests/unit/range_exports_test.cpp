#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/hash_file.hpp"
#include "core/service/address.hpp"
#include "core/service/exports.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::service {
namespace {

using ::testing::HasSubstr;

class ExportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"control", "cache", "other"}) {
      ASSERT_TRUE(fs_.make_directory(folder_ / name, 0700).ok());
    }
    control_ = fs_.open_directory(folder_ / "control").value();
    cache_ = fs_.open_directory(folder_ / "cache").value();
    other_ = fs_.open_directory(folder_ / "other").value();
    exports_ =
        std::make_unique<Exports>(fs_, *control_, std::vector<const Directory*>{cache_.get()});
    write("cache/a.log", "text of a");
    write("other/b.log", "text of b");
  }

  void write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(
        fs_.write_file_atomically(folder_ / name, std::as_bytes(std::span(text)), false).ok());
  }
  std::string read(std::uint64_t id) {
    const auto file = exports_->resolve(id);
    if (!file.ok()) return file.status().to_string();
    std::string text(100, ' ');
    const auto count = (*file)->read(std::as_writable_bytes(std::span(text)), 0);
    text.resize(count.value());
    return text;
  }

  FileSystem& fs_ = real_file_system();
  testing::TemporaryDirectory folder_;
  std::unique_ptr<Directory> control_, cache_, other_;
  std::unique_ptr<Exports> exports_;
};

TEST_F(ExportsTest, OpensWhatIsPublishedUntilItIsWithdrawn) {
  EXPECT_THAT(read(5), HasSubstr("NOT_FOUND: no file is published under the id 0x5"));
  ASSERT_TRUE(exports_->publish(5, *cache_, "a.log").ok());
  EXPECT_EQ(read(5), "text of a");
  write("cache/c.log", "text of c");
  ASSERT_TRUE(exports_->publish(5, *cache_, "c.log").ok());
  EXPECT_EQ(read(5), "text of c");
  EXPECT_EQ(fs_.info(folder_ / "control/export_0000000000000005.scrinfo")->mode, 0600U);
  ASSERT_TRUE(exports_->withdraw(5).ok());
  ASSERT_TRUE(exports_->withdraw(5).ok());
  EXPECT_THAT(read(5), HasSubstr("NOT_FOUND"));
}

TEST_F(ExportsTest, WithdrawsAllButLeavesOtherFilesOfTheDirectory) {
  write("control/filemap.scrinfo", "");
  ASSERT_TRUE(exports_->publish(5, *cache_, "a.log").ok());
  ASSERT_TRUE(exports_->publish(~std::uint64_t{0}, *cache_, "a.log").ok());
  ASSERT_TRUE(exports_->withdraw_all().ok());
  EXPECT_EQ(fs_.list(folder_ / "control")->size(), 1U);
}

TEST_F(ExportsTest, SaysThatAPublishedFileIsNotThere) {
  ASSERT_TRUE(exports_->publish(5, *cache_, "gone.log").ok());
  EXPECT_THAT(read(5), HasSubstr("NOT_FOUND"));
}

TEST_F(ExportsTest, RefusesPathsThatLeadOutOfTheCache) {
  for (const char* path : {"../other/b.log", "/etc/passwd", "", ".", "a/../../other/b.log"}) {
    EXPECT_FALSE(exports_->publish(5, *cache_, path).ok()) << path;
  }
  // Nor do forged exports get through.
  Hash hash;
  hash.set_value("CACHE", cache_->path());
  hash.set_value("FILE", "../other/b.log");
  const At at(*control_, "export_0000000000000005.scrinfo");
  ASSERT_TRUE(write_hash_file(fs_, at, hash, Durability::kVolatile).ok());
  EXPECT_THAT(read(5), HasSubstr("CORRUPT"));
  ASSERT_TRUE(fs_.make_symlink(folder_ / "other/b.log", folder_ / "cache/link").ok());
  ASSERT_TRUE(fs_.make_symlink(folder_ / "other", folder_ / "cache/folder").ok());
  for (const char* path : {"link", "folder/b.log"}) {
    ASSERT_TRUE(exports_->publish(5, *cache_, path).ok());
    EXPECT_THAT(read(5), HasSubstr("PERMISSION_DENIED")) << path;
  }
}

TEST_F(ExportsTest, RefusesADirectoryThatIsNoCacheOfTheJob) {
  ASSERT_TRUE(exports_->publish(5, *other_, "b.log").ok());
  EXPECT_THAT(read(5), HasSubstr("is no cache directory of this job"));
}

TEST_F(ExportsTest, RefusesWhatIsNotARegularFile) {
  ASSERT_TRUE(fs_.make_directory(folder_ / "cache/d").ok());
  ASSERT_TRUE(exports_->publish(5, *cache_, "d").ok());
  EXPECT_THAT(read(5), HasSubstr("PERMISSION_DENIED"));
}

TEST_F(ExportsTest, ServesThroughTheRangeService) {
  const Key key = Key::make().value();
  const auto server = RangeServer::start("127.0.0.1", key, exports_->resolver());
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const std::uint64_t id = make_id(3, 1, 0).value();
  ASSERT_TRUE(exports_->publish(id, *cache_, "a.log").ok());
  const auto file = open_remote((*server)->endpoint(), key, id);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::string text(9, ' ');
  ASSERT_TRUE((*file)->read_exactly(std::as_writable_bytes(std::span(text)), 0).ok());
  EXPECT_EQ(text, "text of a");
}

TEST(MakeId, KeepsDatasetRankAndIndexApart) {
  EXPECT_EQ(make_id(0, 0, 0).value(), 0U);
  EXPECT_EQ(make_id(1, 2, 3).value(), (std::uint64_t{1} << 36U) | (2U << 12U) | 3U);
  EXPECT_EQ(make_id((1 << 28) - 1, (1 << 24) - 1, (1 << 12) - 1).value(), ~std::uint64_t{0});
  EXPECT_FALSE(make_id(1 << 28, 0, 0).ok());
  EXPECT_FALSE(make_id(0, 1 << 24, 0).ok());
  EXPECT_FALSE(make_id(0, 0, 1 << 12).ok());
  EXPECT_FALSE(make_id(-1, 0, 0).ok());
  EXPECT_THAT(make_id(0, -1, 0).status().message(), HasSubstr("rank -1"));
}

const std::vector<LocalAddress> kHost = {{"lo", "127.0.0.1", true},
                                         {"eth0", "192.168.1.7", false},
                                         {"ib0", "10.1.2.3", false},
                                         {"ib0", "fd00::3", false}};

TEST(ChooseAddress, TakesTheAddressOfTheHostsName) {
  EXPECT_EQ(choose_address("", kHost, {"10.1.2.3"}).value(), "10.1.2.3");
  EXPECT_EQ(choose_address("", kHost, {"fd00::3", "10.1.2.3"}).value(), "fd00::3");
}

TEST(ChooseAddress, TakesTheFirstThatIsNoLoopbackIfTheNameDoesNotHelp) {
  EXPECT_EQ(choose_address("", kHost, {}).value(), "192.168.1.7");
  EXPECT_EQ(choose_address("", kHost, {"127.0.0.1"}).value(), "192.168.1.7");
  EXPECT_EQ(choose_address("", kHost, {"172.16.0.1"}).value(), "192.168.1.7");
  EXPECT_EQ(choose_address("", {{"lo", "127.0.0.2", true}}, {}).value(), "127.0.0.2");
  EXPECT_EQ(choose_address("", {}, {}).value(), "127.0.0.1");
}

TEST(ChooseAddress, FollowsTheSetting) {
  EXPECT_EQ(choose_address("ib0", kHost, {"192.168.1.7"}).value(), "10.1.2.3");
  EXPECT_EQ(choose_address("lo", kHost, {}).value(), "127.0.0.1");
  EXPECT_EQ(choose_address("10.0.0.0/8", kHost, {}).value(), "10.1.2.3");
  EXPECT_EQ(choose_address("10.1.2.3", kHost, {}).value(), "10.1.2.3");
  EXPECT_EQ(choose_address("fd00::/16", kHost, {}).value(), "fd00::3");
  EXPECT_EQ(choose_address("0.0.0.0/0", kHost, {}).value(), "127.0.0.1");
  EXPECT_EQ(choose_address("192.168.1.6/31", kHost, {}).value(), "192.168.1.7");
}

TEST(ChooseAddress, SaysWhatThereIsIfTheSettingFitsNothing) {
  for (const char* setting : {"ib1", "10.2.0.0/16", "10.1.2.3/33", "10.1.2.3/", "10.1.2.2/32"}) {
    const auto address = choose_address(setting, kHost, {});
    ASSERT_FALSE(address.ok()) << setting;
    EXPECT_THAT(address.status().message(), HasSubstr(setting));
    EXPECT_THAT(address.status().message(), HasSubstr("10.1.2.3 (ib0)"));
  }
}

TEST(ChooseAddress, FindsOneOnThisHost) { EXPECT_TRUE(choose_address("").ok()); }

}  // namespace
}  // namespace scr::service
