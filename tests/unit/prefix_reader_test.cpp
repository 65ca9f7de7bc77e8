#include "flush/prefix_reader.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "core/routing/marker.hpp"
#include "flush/parity.hpp"
#include "tests/unit/flush_fixture.hpp"

namespace scr::flush {
namespace {

using testing::containers;
using testing::crc_of;
using ::testing::HasSubstr;
using testing::plain_files;
using testing::random_bytes;
using testing::read_bytes;
using testing::TestRun;
using testing::write_bytes;

std::string read_all(File& file) {
  auto info = file.info();
  EXPECT_TRUE(info.ok()) << info.status().message();
  std::string bytes(info.ok() ? info->size + 10 : 0, '\0');
  auto count = file.read(std::as_writable_bytes(std::span(bytes)), 0);
  EXPECT_TRUE(count.ok()) << count.status().message();
  bytes.resize(count.ok() ? *count : 0);
  return bytes;
}

void flip_byte(const std::string& path, std::size_t at) {
  std::string bytes = read_bytes(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  write_bytes(path, bytes);
}

class PrefixReader : public ::testing::Test {
 protected:
  void flush(int id, const FlushOptions& options) {
    run_.write_dataset(id);
    run_.flush_all(id, options);
  }
  Result<StoredLocation> find(const std::string& relative, std::optional<int> id = {}) {
    return locate(fs_, run_.prefix(), relative, id);
  }
  Result<std::unique_ptr<File>> open(const std::string& relative, Verify verify = Verify::kWhole) {
    SCR_ASSIGN_OR_RETURN(const StoredLocation location, find(relative));
    return open_stored(fs_, run_.prefix(), location, verify);
  }
  std::string container(int index, int id = 1) const {
    return fmt::format("{}/.scr/scr.dataset.{}/ctr.{}.scr", run_.prefix(), id, index);
  }
  // All files of the fixture's dataset 1 and who wrote them.
  static std::map<std::string, int> files() {
    return {{"ckpt.1/rank_0.h5", 0}, {"top.1", 0},        {"ckpt.1/deep/er/rank_1.h5", 1},
            {"ckpt.1/rank_3.h5", 3}, {"ckpt.1/empty", 3}, {"ckpt.1/last", 3}};
  }

  TestRun run_;
  FileSystem& fs_ = real_file_system();
};

TEST_F(PrefixReader, FilesInContainersAreReadAsTheyWereWritten) {
  flush(1, containers());
  for (const auto& [name, rank] : files()) {
    for (const Verify verify : {Verify::kNone, Verify::kWhole}) {
      auto file = open(name, verify);
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_EQ(read_all(**file), read_bytes(run_.cache(rank, 1) + "/" + name)) << name;
      EXPECT_EQ((*file)->path(), run_.prefix() + "/" + name);
    }
    EXPECT_EQ(find(name)->rank, rank);
    EXPECT_FALSE(std::filesystem::exists(run_.prefix() + "/" + name));
  }
  EXPECT_EQ(find("top.1")->dataset, run_.dataset(1));
  EXPECT_EQ(find("top.1")->directory, "scr.dataset.1");
}

TEST_F(PrefixReader, PlainFilesAreTheFilesThemselves) {
  flush(1, plain_files());
  for (const auto& [name, rank] : files()) {
    auto file = open(name);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(read_all(**file), read_bytes(run_.cache(rank, 1) + "/" + name)) << name;
    EXPECT_EQ((*file)->info()->inode, fs_.info(run_.prefix() + "/" + name)->inode);
  }
}

TEST_F(PrefixReader, AnyPieceOfAFileOverSeveralContainersCanBeRead) {
  FlushOptions tiny = containers();
  tiny.container_size = 7;
  flush(1, tiny);
  const std::string name = "ckpt.1/deep/er/rank_1.h5";
  const std::string bytes = read_bytes(run_.cache(1, 1) + "/" + name);
  ASSERT_GT(find(name)->file.segments.size(), 70U);
  auto file = open(name);
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (std::size_t offset = 0; offset < bytes.size(); offset += 5) {
    for (const std::size_t length : {1U, 7U, 40U, 600U}) {
      std::string piece(length, '\0');
      auto count = (*file)->read(std::as_writable_bytes(std::span(piece)), offset);
      ASSERT_TRUE(count.ok()) << count.status().message();
      EXPECT_EQ(piece.substr(0, *count), bytes.substr(offset, length));
      if (offset + length > bytes.size()) continue;
      auto mapping = (*file)->map(offset, length);
      ASSERT_TRUE(mapping.ok()) << mapping.status().message();
      EXPECT_EQ(std::memcmp(mapping->bytes().data(), bytes.data() + offset, length), 0);
    }
  }
}

TEST_F(PrefixReader, BehindTheEndThereIsNothing) {
  flush(1, containers());
  auto file = open("ckpt.1/rank_0.h5");
  std::byte byte{};
  for (const std::uint64_t offset :
       {std::uint64_t{300}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    EXPECT_EQ(*(*file)->read(std::span(&byte, 1), offset), 0U);
  }
  EXPECT_EQ((*file)->read_exactly(std::span(&byte, 1), 300).code(), StatusCode::kCorrupt);
  EXPECT_EQ((*file)->map(299, 2).status().code(), StatusCode::kCorrupt);
  EXPECT_EQ((*file)->map(~std::uint64_t{0}, 2).status().code(), StatusCode::kCorrupt);
  EXPECT_TRUE((*file)->map(300, 0).ok());
}

TEST_F(PrefixReader, AViewCannotBeChanged) {
  flush(1, containers());
  auto file = open("ckpt.1/rank_0.h5");
  const std::byte byte{};
  const Status written = (*file)->write_all(std::span(&byte, 1), 0);
  EXPECT_EQ(written.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(written.message()), HasSubstr("is inside a container: read-only"));
  EXPECT_EQ((*file)->truncate(0).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ((*file)->allocate(0, 1).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ((*file)->set_mode(0777).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ((*file)->lock(LockMode::kExclusive, false).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE((*file)->lock(LockMode::kShared, false).ok());
  EXPECT_TRUE((*file)->unlock().ok());
  EXPECT_TRUE((*file)->sync().ok());
  EXPECT_EQ((*file)->descriptor(), -1);
  EXPECT_TRUE((*file)->close().ok());
  EXPECT_TRUE((*file)->close().ok());
  std::byte target{};
  EXPECT_EQ((*file)->read_some(std::span(&target, 1), 0).status().errno_value(), EBADF);
}

TEST_F(PrefixReader, InfoTellsFilesOfOneContainerApart) {
  flush(1, containers());
  const FileInfo first = *(*open("ckpt.1/rank_3.h5"))->info();
  const FileInfo again = *(*open("ckpt.1/rank_3.h5"))->info();
  const FileInfo other = *(*open("ckpt.1/last"))->info();
  EXPECT_EQ(first.inode, again.inode);
  EXPECT_EQ(first.device, again.device);
  EXPECT_NE(first.inode, other.inode);
  EXPECT_EQ(first.size, 64U);
  EXPECT_EQ(first.type, FileInfo::Type::kRegular);
  EXPECT_EQ(first.mode & 0222U, 0U);
}

TEST_F(PrefixReader, TheNewestCompleteDatasetWithThatFileCounts) {
  flush(1, containers());
  flush(2, containers());
  run_.flush_all(1, containers());  // a second copy of dataset 1
  EXPECT_EQ(find("top.1")->directory, "scr.dataset.1.1");
  EXPECT_EQ(find("top.2")->directory, "scr.dataset.2");
  EXPECT_EQ(find("top.1", 1)->directory, "scr.dataset.1.1");
  EXPECT_EQ(find("top.1", 2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(find("top.3").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(find("../x").status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(update_index(fs_, run_.prefix(), [](Index& index) {
                index.find_directory("scr.dataset.1.1")->failed.push_back("2026-01-01T00:00:00");
                index.find_directory("scr.dataset.2")->complete = false;
                return Status();
              }).ok());
  EXPECT_EQ(find("top.1")->directory, "scr.dataset.1");
  EXPECT_EQ(find("top.2").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(find("top.2", 2)->directory, "scr.dataset.2");  // asked for by id
  EXPECT_EQ(find("top.1", 1)->directory, "scr.dataset.1");  // the good copy first
}

TEST_F(PrefixReader, ADatasetFlushedMeanwhileIsSeen) {
  flush(1, containers());
  EXPECT_FALSE(find("top.2").ok());
  flush(2, containers());
  EXPECT_TRUE(find("top.2").ok());
}

TEST_F(PrefixReader, MetadataIsReadOnce) {
  flush(1, containers());
  FaultyFileSystem counting(fs_, FaultPlan{});
  ASSERT_TRUE(locate(counting, run_.prefix(), "top.1").ok());
  counting.reset();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(locate(counting, run_.prefix(), "ckpt.1/last").ok());
  EXPECT_EQ(counting.operations(), 100U);  // one stat of the index each
  flush(2, containers());
  counting.reset();
  ASSERT_TRUE(locate(counting, run_.prefix(), "top.2").ok());
  const std::uint64_t changed = counting.operations();
  counting.reset();
  // The listing of dataset 1 was kept; only 2 was new.
  ASSERT_TRUE(locate(counting, run_.prefix(), "top.1").ok());
  EXPECT_EQ(counting.operations(), 1U);
  EXPECT_GT(changed, 1U);
}

TEST_F(PrefixReader, DamagedMetadataIsPassedOverIfAnotherDatasetHasTheFile) {
  flush(1, containers());
  flush(2, containers());
  flip_byte(run_.prefix() + "/.scr/scr.dataset.2/rank2file.0.scr", 60);
  EXPECT_TRUE(find("top.1").ok());
  const auto lost = find("top.2");
  EXPECT_EQ(lost.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("scr.dataset.2/rank2file.0.scr"));
}

TEST_F(PrefixReader, TroubleThatMayPassIsNotTakenForDamage) {
  flush(1, containers());
  FaultPlan plan = FaultPlan::fail_at(1, EIO);
  plan.path = "*rank2file*";
  FaultyFileSystem faulty(fs_, plan);
  EXPECT_EQ(locate(faulty, run_.prefix(), "top.1").status().errno_value(), EIO);
  EXPECT_TRUE(locate(faulty, run_.prefix(), "top.1").ok());
}

TEST_F(PrefixReader, DamageNamesContainerAndSegment) {
  flush(1, containers());
  flip_byte(container(1), 60);  // byte 310 of the stream: in rank_1.h5, which begins at 301
  ASSERT_TRUE(open("ckpt.1/rank_0.h5").ok());  // ends at byte 49 of the same container
  const auto file = open("ckpt.1/deep/er/rank_1.h5");
  ASSERT_EQ(file.status().code(), StatusCode::kCorrupt);
  const std::string message(file.status().message());
  EXPECT_THAT(message, HasSubstr("segment 0"));
  EXPECT_THAT(message, HasSubstr("199 bytes from byte 51 of container '" + container(1)));
  EXPECT_THAT(message, HasSubstr("no parity containers"));
  EXPECT_TRUE(open("ckpt.1/deep/er/rank_1.h5", Verify::kNone).ok());
}

TEST_F(PrefixReader, DamageThatParityCanRepairIsSaidToBeRepairable) {
  flush(1, containers(1));
  std::filesystem::remove(container(1));
  auto file = open("ckpt.1/rank_0.h5");
  ASSERT_EQ(file.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("the container is missing"));
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("scr_index --verify \"ckpt 1\" --repair"));
  ASSERT_TRUE(repair_containers(fs_, run_.prefix() + "/.scr/scr.dataset.1").ok());
  EXPECT_TRUE(open("ckpt.1/rank_0.h5").ok());
}

TEST_F(PrefixReader, AShortContainerIsNoEndOfFile) {
  flush(1, containers());
  std::filesystem::resize_file(container(1), 10);
  auto file = open("ckpt.1/rank_0.h5", Verify::kNone);
  ASSERT_TRUE(file.ok());
  std::string bytes(300, '\0');
  const auto count = (*file)->read(std::as_writable_bytes(std::span(bytes)), 0);
  EXPECT_EQ(count.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(std::string(count.status().message()), HasSubstr("the container ends before"));
}

TEST_F(PrefixReader, WhatWasVerifiedIsNotReadAgainUntilItChanges) {
  flush(1, containers());
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kRead);
  plan.path = "*ctr*";
  FaultyFileSystem counting(fs_, plan);
  const StoredLocation location = *find("ckpt.1/rank_0.h5");
  const auto open_it = [&] {
    return open_stored(counting, run_.prefix(), location, Verify::kWhole);
  };
  ASSERT_TRUE(open_it().ok());
  EXPECT_EQ(counting.operations(), 2U);
  ASSERT_TRUE(open_it().ok());
  EXPECT_EQ(counting.operations(), 2U);
  flip_byte(container(0), 5);
  const timespec later[] = {{2000000000, 0}, {2000000000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, container(0).c_str(), later, 0), 0);
  EXPECT_EQ(open_it().status().code(), StatusCode::kCorrupt);
}

TEST_F(PrefixReader, APlainFileThatWasChangedFailsOnlyWhenVerified) {
  flush(1, plain_files());
  flip_byte(run_.prefix() + "/ckpt.1/last", 5);
  EXPECT_EQ(open("ckpt.1/last").status().code(), StatusCode::kCorrupt);
  EXPECT_TRUE(open("ckpt.1/last", Verify::kNone).ok());
  write_bytes(run_.prefix() + "/ckpt.1/last", "short");
  EXPECT_THAT(std::string(open("ckpt.1/last").status().message()),
              HasSubstr("has 5 bytes instead of 241"));
}

TEST_F(PrefixReader, AMarkerIsNotPresentedAsTheFile) {
  flush(1, plain_files());
  std::filesystem::remove(run_.prefix() + "/top.1");
  routing::Marker marker;
  marker.file = "top.1";
  ASSERT_TRUE(routing::write_marker(fs_, run_.prefix() + "/top.1", marker).ok());
  const auto file = open("top.1", Verify::kNone);
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("only its marker"));
}

TEST_F(PrefixReader, AContainerThatIsALinkIsNotFollowed) {
  flush(1, containers());
  std::filesystem::rename(container(0), run_.prefix() + "/elsewhere");
  std::filesystem::create_symlink(run_.prefix() + "/elsewhere", container(0));
  auto file = open("ckpt.1/rank_0.h5", Verify::kNone);
  std::byte byte{};
  EXPECT_EQ((*file)->read(std::span(&byte, 1), 0).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(PrefixReader, OffsetsBeyondFourGigabytesWork) {
  const std::uint64_t far = (std::uint64_t{5} << 30) + 3;
  std::filesystem::create_directories(run_.prefix() + "/.scr/d");
  const std::string data = random_bytes(1000, 1);
  for (const char* name : {"a", "b"}) {
    auto file = *fs_.open(run_.prefix() + "/.scr/d/" + name, OpenOptions::create_new());
    ASSERT_TRUE(file->write_all(std::as_bytes(std::span(data)), far).ok());
  }
  StoredLocation location;
  location.directory = "d";
  location.file.file = "x";
  location.file.size = far + 1000 + 1000;  // a hole, then data, over two containers
  location.file.segments = {{"a", 0, far + 1000, 0}, {"b", far, 1000, crc_of(data)}};
  auto file = open_stored(fs_, run_.prefix(), location, Verify::kNone);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::string bytes(2010, 'x');
  EXPECT_EQ(*(*file)->read(std::as_writable_bytes(std::span(bytes)), far - 10), 2010U);
  EXPECT_EQ(bytes, std::string(10, '\0') + data + data);
  location.file.size += 1;
  EXPECT_FALSE(open_stored(fs_, run_.prefix(), location, Verify::kNone).ok());
}

TEST_F(PrefixReader, SeveralThreadsMayReadOneFile) {
  FlushOptions tiny = containers();
  tiny.container_size = 20;  // more containers than are kept open
  flush(1, tiny);
  const std::string name = "ckpt.1/deep/er/rank_1.h5";
  const std::string bytes = read_bytes(run_.cache(1, 1) + "/" + name);
  auto file = open(name);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (read_all(**file) != bytes || !find(name).ok()) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_F(PrefixReader, AmongManyDatasetsTheOldestIsFound) {
  constexpr int kDatasets = 300;
  ASSERT_TRUE(update_index(fs_, run_.prefix(), [&](Index& index) {
                for (int id = 1; id <= kDatasets; ++id) {
                  Summary summary;
                  summary.dataset.id = id;
                  summary.dataset.name = fmt::format("d{}", id);
                  summary.dataset.created = id;
                  summary.complete = true;
                  const std::string name = fmt::format("scr.dataset.{}", id);
                  const std::string directory = run_.prefix() + "/.scr/" + name;
                  std::filesystem::create_directories(directory);
                  StoredFile file;
                  file.file = fmt::format("f{}", id);
                  SCR_RETURN_IF_ERROR(write_rank2file_top(fs_, directory, 1));
                  SCR_RETURN_IF_ERROR(write_rank2file_block(fs_, directory, 0, {{0, {file}}}));
                  SCR_RETURN_IF_ERROR(write_summary(fs_, directory, summary));
                  IndexEntry entry;
                  entry.directory = name;
                  entry.dataset = summary.dataset;
                  entry.complete = true;
                  index.put(entry);
                }
                return Status();
              }).ok());
  FaultyFileSystem counting(fs_, FaultPlan{});
  EXPECT_EQ(locate(counting, run_.prefix(), fmt::format("f{}", kDatasets))->dataset.id, kDatasets);
  EXPECT_LT(counting.operations(), 50U);  // stopped at the first
  EXPECT_EQ(locate(counting, run_.prefix(), "f1")->dataset.id, 1);
  counting.reset();
  EXPECT_EQ(locate(counting, run_.prefix(), "f2")->dataset.id, 2);
  EXPECT_FALSE(locate(counting, run_.prefix(), "none").ok());
  EXPECT_EQ(counting.operations(), 2U);
}

// --- the search upwards

class FindPrefix : public ::testing::Test {
 protected:
  FindPrefix() {
    std::filesystem::create_directories(root_ + "/a/b");
    std::filesystem::create_directory(metadata_);
    set_mode(root_, 0755);
    set_mode(metadata_, 0755);
  }
  static void set_mode(const std::string& path, mode_t mode) {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  }
  Result<std::string> find(const std::string& below = "/a/b/x.h5") {
    return find_prefix(real_file_system(), root_ + below);
  }
  void expect_refused(const std::string& why) {
    const auto found = find();
    EXPECT_EQ(found.status().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr("'" + metadata_ + "' is not trust"));
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(why));
  }

  scr::testing::TemporaryDirectory directory_;
  std::string root_ = directory_ / "run";
  std::string metadata_ = root_ + "/.scr";
};

TEST_F(FindPrefix, IsTheNearestDirectoryWithATrustedScr) {
  EXPECT_EQ(*find(), root_);
  EXPECT_EQ(*find("/x.h5"), root_);
  EXPECT_EQ(*find("/not/there/x.h5"), root_);
  std::filesystem::create_directory(root_ + "/a/.scr");
  EXPECT_EQ(*find(), root_ + "/a");
  set_mode(root_ + "/a/.scr", 0777);
  EXPECT_EQ(*find(), root_);  // the nearer one is not trusted
}

TEST_F(FindPrefix, WithoutAnyThereIsNone) {
  std::filesystem::remove(metadata_);
  EXPECT_EQ(find().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(find_prefix(real_file_system(), "x.h5").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_prefix(real_file_system(), "/a/../x").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(FindPrefix, RefusesOneThatOthersCanWriteTo) {
  set_mode(metadata_, 0757);
  expect_refused("lets others write");
  set_mode(metadata_, 0775);
  expect_refused("lets its group write");
  set_mode(root_, 0775);  // a group that can replace .scr as a whole gains nothing
  EXPECT_EQ(*find(), root_);
}

TEST_F(FindPrefix, RefusesLinksAndFiles) {
  std::filesystem::rename(metadata_, root_ + "/elsewhere");
  std::filesystem::create_symlink("elsewhere", metadata_);
  expect_refused("symbolic link");
  std::filesystem::remove(metadata_);
  write_bytes(metadata_, "x");
  expect_refused("not a directory");
}

TEST_F(FindPrefix, TrustsUsAndTheOwnerOfTheFileOnly) {
  if (::geteuid() != 0) GTEST_FAIL() << "needs to run as root, to give directories away";
  constexpr uid_t kAlice = 12345;
  constexpr uid_t kBob = 12346;
  ASSERT_EQ(::chown(metadata_.c_str(), kAlice, 0), 0);
  expect_refused("owned by user 12345");
  // No such file: its directory counts.
  ASSERT_EQ(::chown((root_ + "/a/b").c_str(), kAlice, 0), 0);
  EXPECT_EQ(*find(), root_);
  write_bytes(root_ + "/a/b/x.h5", "data");
  expect_refused("owner of the file (user 0)");
  ASSERT_EQ(::chown((root_ + "/a/b/x.h5").c_str(), kAlice, 0), 0);
  EXPECT_EQ(*find(), root_);
  // Root's is not everyone's.
  ASSERT_EQ(::chown(metadata_.c_str(), 0, 0), 0);
  set_mode(directory_.path(), 0755);
  ASSERT_EQ(::seteuid(kBob), 0);
  const auto found = find();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(found.status().code(), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace scr::flush
