#include "core/base/filesystem.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/posix.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class FileSystemTest : public ::testing::Test {
 protected:
  void write(const std::string& path, std::string_view text) {
    const Status written = fs_.write_file_atomically(path, bytes_of(text), false);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  std::string read(const At& at) {
    const auto bytes = fs_.read_file(at);
    if (!bytes.ok()) return bytes.status().to_string();
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  std::unique_ptr<File> open(const At& at, const OpenOptions& options) {
    auto file = fs_.open(at, options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? *std::move(file) : nullptr;
  }
  std::unique_ptr<Directory> open_root() {
    auto directory = fs_.open_directory(root_.path());
    EXPECT_TRUE(directory.ok());
    return *std::move(directory);
  }
  std::vector<std::string> names(const At& at) {
    std::vector<std::string> found;
    for (const auto& entry : fs_.list(at).value()) found.push_back(entry.name);
    return found;
  }

  FileSystem& fs_ = real_file_system();
  TemporaryDirectory root_;
};

// --- files

using RealFileTest = FileSystemTest;

TEST_F(RealFileTest, ReadsBackWhatWasWrittenAtAnOffset) {
  const auto file = open(root_ / "f", OpenOptions::create_truncate());
  ASSERT_TRUE(file->write_all(bytes_of("world"), 6).ok());
  ASSERT_TRUE(file->write_all(bytes_of("hello "), 0).ok());
  EXPECT_TRUE(file->sync().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(read(root_ / "f"), "hello world");
}

TEST_F(RealFileTest, ReadsFewerBytesOnlyAtTheEnd) {
  write(root_ / "f", "0123456789");
  const auto file = open(root_ / "f", OpenOptions::read());
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(file->read(buffer, 0).value(), 8U);
  EXPECT_EQ(file->read(buffer, 5).value(), 5U);
  EXPECT_EQ(file->read(buffer, 10).value(), 0U);
}

TEST_F(RealFileTest, SaysThatItIsTooShortForAnExactRead) {
  write(root_ / "f", "0123456789");
  const auto file = open(root_ / "f", OpenOptions::read());
  std::array<std::byte, 8> buffer{};
  EXPECT_TRUE(file->read_exactly(buffer, 2).ok());
  const Status status = file->read_exactly(buffer, 5);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_EQ(status.message(),
            "cannot read '" + root_ / "f" + "': file is shorter than 13 bytes: it ends at byte 10");
}

TEST_F(RealFileTest, NamesActionPathAndCauseInAnError) {
  const auto missing = fs_.open(root_ / "missing", OpenOptions::read());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().errno_value(), ENOENT);
  EXPECT_EQ(missing.status().message(),
            "cannot open '" + root_ / "missing" + "': No such file or directory");
  EXPECT_THAT(read(root_.path()), HasSubstr("not a regular file, but a directory"));
}

TEST_F(RealFileTest, IsNotCreatedOverAnExistingOne) {
  write(root_ / "f", "old");
  const auto file = fs_.open(root_ / "f", OpenOptions::create_new());
  EXPECT_EQ(file.status().errno_value(), EEXIST);
  EXPECT_EQ(read(root_ / "f"), "old");
}

TEST_F(RealFileTest, HasTheModeAskedForLessTheUmask) {
  const mode_t old = ::umask(027);
  OpenOptions options = OpenOptions::create_new();
  const auto plain = open(root_ / "plain", options);
  options.mode = 0600;
  const auto closed = open(root_ / "closed", options);
  ::umask(old);
  EXPECT_EQ(plain->info()->mode, 0640U);
  EXPECT_EQ(closed->info()->mode, 0600U);
  EXPECT_TRUE(closed->set_mode(0444).ok());
  EXPECT_EQ(fs_.info(root_ / "closed")->mode, 0444U);
}

TEST_F(RealFileTest, AppendsWhateverTheOffset) {
  write(root_ / "f", "one ");
  OpenOptions options = OpenOptions::read_write();
  options.append = true;
  const auto file = open(root_ / "f", options);
  ASSERT_TRUE(file->write_all(bytes_of("two"), 0).ok());
  EXPECT_EQ(read(root_ / "f"), "one two");
}

TEST_F(RealFileTest, ChangesItsSize) {
  const auto file = open(root_ / "f", OpenOptions::create_truncate());
  ASSERT_TRUE(file->write_all(bytes_of("0123456789"), 0).ok());
  EXPECT_TRUE(file->truncate(4).ok());
  EXPECT_EQ(file->info()->size, 4U);
  EXPECT_TRUE(file->allocate(0, 5000).ok());
  EXPECT_EQ(file->info()->size, 5000U);
  EXPECT_TRUE(file->allocate(10, 0).ok());
}

TEST_F(RealFileTest, RefusesOffsetsThatTheSystemCannotHold) {
  const auto file = open(root_ / "f", OpenOptions::create_truncate());
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(file->read(buffer, UINT64_MAX).status().errno_value(), EINVAL);
  EXPECT_EQ(file->write_all(buffer, UINT64_MAX - 1).errno_value(), EFBIG);
  EXPECT_EQ(file->write_all(buffer, INT64_MAX).errno_value(), EFBIG);
  EXPECT_EQ(file->truncate(UINT64_MAX).errno_value(), EFBIG);
  EXPECT_EQ(file->allocate(8, UINT64_MAX).errno_value(), EFBIG);
  EXPECT_EQ(file->map(UINT64_MAX, 2).status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(file->info()->size, 0U);
}

TEST_F(RealFileTest, IsMappedFromAnyOffset) {
  std::string text(10'000, 'x');
  text.replace(4999, 5, "HELLO");
  write(root_ / "f", text);
  Mapping kept;
  {
    const auto file = open(root_ / "f", OpenOptions::read());
    auto mapping = file->map(4999, 5);
    ASSERT_TRUE(mapping.ok());
    kept = *std::move(mapping);
    EXPECT_TRUE(file->map(10'000, 0)->bytes().empty());
    EXPECT_EQ(file->map(9'999, 2).status().code(), StatusCode::kCorrupt);
  }
  EXPECT_TRUE(std::ranges::equal(kept.bytes(), bytes_of("HELLO")));
}

TEST_F(RealFileTest, MayBeClosedTwice) {
  const auto file = open(root_ / "f", OpenOptions::create_new());
  EXPECT_TRUE(file->close().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(file->sync().errno_value(), EBADF);
}

TEST_F(RealFileTest, IsNotInheritedByChildPrograms) {
  const auto file = open(root_ / "f", OpenOptions::create_new());
  EXPECT_TRUE(::fcntl(file->descriptor(), F_GETFD) & FD_CLOEXEC);
}

// --- what is no file

// What is no regular file cannot be one of h5scr's own.
class OtherThanAFile : public FileSystemTest {
 protected:
  void SetUp() override { ::alarm(60); }  // an open that waits ends the test
  void TearDown() override { ::alarm(0); }

  std::string fifo() {
    const std::string path = root_ / "fifo";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  void expect_refused(const At& at, const OpenOptions& options) {
    const auto file = fs_.open(at, options);
    EXPECT_EQ(file.status().code(), StatusCode::kCorrupt) << file.status().message();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("is not a regular file"));
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(at.display()));
  }
};

TEST_F(OtherThanAFile, IsRefusedWithoutAWaitForItsOtherEnd) {
  const std::string path = fifo();
  OpenOptions write;
  write.access = OpenOptions::Access::kWrite;
  for (const OpenOptions& options :
       {OpenOptions::read(), OpenOptions::read_write(), OpenOptions::create_truncate(), write}) {
    expect_refused(path, options);
    expect_refused({*open_root(), "fifo"}, options);
  }
  EXPECT_EQ(fs_.read_file(path).status().code(), StatusCode::kCorrupt);
}

TEST_F(OtherThanAFile, IsRefusedAlsoIfItCanBeRead) {
  expect_refused("/dev/zero", OpenOptions::read());
  expect_refused(root_.path(), OpenOptions::read());
}

TEST_F(OtherThanAFile, IsOpenedAsTheSystemDoesIfAskedFor) {
  OpenOptions options = OpenOptions::read_write();
  options.any_type = true;
  EXPECT_NE(open("/dev/null", options), nullptr);
  EXPECT_NE(open(fifo(), options), nullptr);
}

TEST_F(RealFileTest, WaitsInItsReadsAndWritesAsAnyOther) {
  OpenOptions options = OpenOptions::create_truncate();
  options.append = true;
  const auto file = open(root_ / "f", options);
  const int flags = ::fcntl(file->descriptor(), F_GETFL);
  EXPECT_EQ(flags & O_NONBLOCK, 0);
  EXPECT_EQ(flags & (O_APPEND | O_ACCMODE), O_APPEND | O_RDWR);
}

// --- locks

using Lock = FileSystemTest;

TEST_F(Lock, KeepsASecondOpenOutUntilItIsReleased) {
  const auto first = open(root_ / "f", OpenOptions::create_truncate());
  const auto second = open(root_ / "f", OpenOptions::read_write());
  ASSERT_TRUE(first->lock(LockMode::kExclusive, false).ok());
  const Status busy = second->lock(LockMode::kShared, false);
  EXPECT_EQ(busy.code(), StatusCode::kUnavailable);
  EXPECT_EQ(busy.message(), "cannot lock '" + root_ / "f" + "': another process has it locked");
  ASSERT_TRUE(first->unlock().ok());
  EXPECT_TRUE(second->lock(LockMode::kExclusive, false).ok());
}

TEST_F(Lock, IsReleasedByClose) {
  const auto first = open(root_ / "f", OpenOptions::create_truncate());
  const auto second = open(root_ / "f", OpenOptions::read_write());
  ASSERT_TRUE(first->lock(LockMode::kExclusive, true).ok());
  ASSERT_TRUE(first->close().ok());
  EXPECT_TRUE(second->lock(LockMode::kExclusive, false).ok());
}

TEST_F(Lock, IsSharedByReaders) {
  const auto first = open(root_ / "f", OpenOptions::create_truncate());
  const auto second = open(root_ / "f", OpenOptions::read());
  EXPECT_TRUE(first->lock(LockMode::kShared, false).ok());
  EXPECT_TRUE(second->lock(LockMode::kShared, false).ok());
  EXPECT_EQ(first->lock(LockMode::kExclusive, false).code(), StatusCode::kUnavailable);
}

TEST_F(Lock, WaitsForItsTurn) {
  const auto first = open(root_ / "f", OpenOptions::create_truncate());
  const auto second = open(root_ / "f", OpenOptions::read_write());
  ASSERT_TRUE(first->lock(LockMode::kExclusive, true).ok());
  std::atomic<bool> released = false;
  std::thread waiter([&] {
    EXPECT_TRUE(second->lock(LockMode::kExclusive, true).ok());
    EXPECT_TRUE(released);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  released = true;
  ASSERT_TRUE(first->unlock().ok());
  waiter.join();
}

// --- directories

using DirectoryTest = FileSystemTest;

TEST_F(DirectoryTest, ListsItsEntriesSortedWithTheirTypes) {
  write(root_ / "b", "");
  ASSERT_TRUE(fs_.make_directory(root_ / "c").ok());
  ASSERT_TRUE(fs_.make_symlink("b", root_ / "a").ok());
  const auto entries = fs_.list(root_.path());
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].type, FileInfo::Type::kSymlink);
  EXPECT_EQ((*entries)[1].type, FileInfo::Type::kRegular);
  EXPECT_EQ((*entries)[2].type, FileInfo::Type::kDirectory);
  EXPECT_EQ(fs_.list(root_ / "none").status().code(), StatusCode::kNotFound);
}

TEST_F(DirectoryTest, ReachesFilesBelowItself) {
  const auto root = open_root();
  ASSERT_TRUE(fs_.make_directories(At(*root, "a/b")).ok());
  ASSERT_TRUE(fs_.write_file_atomically(At(*root, "a/b/f"), bytes_of("text"), true).ok());
  EXPECT_EQ(read(root_ / "a/b/f"), "text");
  EXPECT_EQ(read(At(*root, "a/b/f")), "text");
  EXPECT_EQ(fs_.info(At(*root, "a/b/f"))->size, 4U);
  EXPECT_EQ(fs_.info(At(*root, "a/b/"))->type, FileInfo::Type::kDirectory);
  EXPECT_THAT(names(At(*root, ".")), ElementsAre("a"));
  EXPECT_THAT(names(At(*root, "a/b")), ElementsAre("f"));
  ASSERT_TRUE(fs_.rename(At(*root, "a/b/f"), At(*root, "g")).ok());
  EXPECT_TRUE(fs_.remove(At(*root, "g")).ok());
  EXPECT_TRUE(fs_.remove_directory(At(*root, "a/b")).ok());
  EXPECT_TRUE(fs_.sync_directory(At(*root, ".")).ok());
  EXPECT_GT(fs_.space(At(*root, "a"))->capacity, 0U);
}

TEST_F(DirectoryTest, NamesTheFullPathInErrors) {
  const auto root = open_root();
  EXPECT_EQ(fs_.open(At(*root, "x/y"), OpenOptions::read()).status().message(),
            "cannot open '" + root_ / "x/y" + "': No such file or directory");
}

TEST_F(DirectoryTest, IsStillTheSameAfterItWasRenamed) {
  ASSERT_TRUE(fs_.make_directory(root_ / "d").ok());
  auto directory = fs_.open_directory(root_ / "d");
  ASSERT_TRUE(fs_.rename(root_ / "d", root_ / "e").ok());
  ASSERT_TRUE(fs_.write_file_atomically(At(**directory, "f"), bytes_of("x"), false).ok());
  EXPECT_EQ(read(root_ / "e/f"), "x");
}

TEST_F(DirectoryTest, IsNotOpenedThroughASymbolicLinkUnlessAsked) {
  ASSERT_TRUE(fs_.make_directory(root_ / "d").ok());
  ASSERT_TRUE(fs_.make_symlink("d", root_ / "link").ok());
  for (const char* name : {"link", "link/"}) {
    const auto refused = fs_.open_directory(root_ / name);
    EXPECT_EQ(refused.status().errno_value(), ELOOP) << name;
  }
  EXPECT_TRUE(fs_.open_directory(root_ / "link", false).ok());
}

TEST_F(FileSystemTest, FindsTheRealPath) {
  ASSERT_TRUE(fs_.make_directories(root_ / "a/b").ok());
  ASSERT_TRUE(fs_.make_symlink("a", root_ / "relative").ok());
  ASSERT_TRUE(fs_.make_symlink(root_ / "relative/b", root_ / "absolute").ok());
  ASSERT_TRUE(fs_.make_symlink("../../absolute/..", root_ / "a/b/up").ok());
  ASSERT_TRUE(fs_.make_symlink("round", root_ / "round").ok());
  for (const std::string path : {"", "a/b", "relative", "relative/./b//", "absolute", "a/b/up",
                                 "absolute/up/b/..", "../../../../../..", "relative/b/../../a"}) {
    const auto real = fs_.real_path(root_ / path);
    ASSERT_TRUE(real.ok()) << path << ": " << real.status().message();
    EXPECT_EQ(*real, std::filesystem::canonical(root_ / path).native()) << path;
  }
  EXPECT_EQ(fs_.real_path("/").value(), "/");
  EXPECT_EQ(fs_.real_path(root_ / "relative/none").status().errno_value(), ENOENT);
  EXPECT_EQ(fs_.real_path(root_ / "round").status().errno_value(), ELOOP);
}

// Every operation through a Directory, on a path that a symbolic link or ".." leads out of it.
class EscapeFromDirectory : public FileSystemTest {
 protected:
  EscapeFromDirectory() {
    EXPECT_TRUE(fs_.make_directories(root_ / "inside/sub").ok());
    EXPECT_TRUE(fs_.make_directory(root_ / "outside").ok());
    write(root_ / "outside/secret", "secret");
    write(root_ / "inside/mine", "mine");
    EXPECT_TRUE(fs_.make_symlink("../outside", root_ / "inside/link").ok());
    EXPECT_TRUE(fs_.make_symlink("../outside/secret", root_ / "inside/secret").ok());
    EXPECT_TRUE(fs_.make_symlink("mine", root_ / "inside/harmless").ok());
    inside_ = *fs_.open_directory(root_ / "inside");
  }

  std::vector<Status> try_everything(const std::string& path) {
    const At at(*inside_, path);
    const At mine(*inside_, "mine");
    return {fs_.open(at, OpenOptions::read()).status(),
            fs_.open(at, OpenOptions::create_truncate()).status(),
            fs_.open(at, OpenOptions::create_new()).status(),
            fs_.open_directory(at).status(),
            fs_.open_directory(at, false).status(),
            fs_.info(at).status(),
            fs_.info(at, true).status(),
            fs_.make_directory(at),
            fs_.make_directories(at),
            fs_.remove_directory(at),
            fs_.remove(at),
            fs_.rename(at, mine),
            fs_.rename(mine, at),
            fs_.rename(mine, at, true),
            fs_.make_symlink("x", at),
            fs_.read_symlink(at).status(),
            fs_.list(at).status(),
            fs_.sync_directory(at),
            fs_.space(at).status(),
            fs_.read_file(at).status(),
            fs_.write_file_atomically(at, bytes_of("x"), true)};
  }

  void expect_all_refused(const std::string& path) {
    const std::vector<Status> results = try_everything(path);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].code(), StatusCode::kPermissionDenied)
          << path << " operation " << i << ": " << results[i].to_string();
    }
    EXPECT_THAT(names(root_ / "outside"), ElementsAre("secret"));
    EXPECT_EQ(read(root_ / "outside/secret"), "secret");
    EXPECT_EQ(read(root_ / "inside/mine"), "mine");
  }

  std::unique_ptr<Directory> inside_;
};

TEST_F(EscapeFromDirectory, IsRefusedThroughASymbolicLinkInTheMiddle) {
  expect_all_refused("link/secret");
  expect_all_refused("link/new");
  expect_all_refused("sub/../link/secret");
}

TEST_F(EscapeFromDirectory, IsRefusedThroughDotDot) {
  expect_all_refused("..");
  expect_all_refused("../outside/secret");
  expect_all_refused("sub/..");
  expect_all_refused("sub/../../outside/secret");
  expect_all_refused("sub/../mine");
}

TEST_F(EscapeFromDirectory, IsRefusedByAnAbsolutePath) {
  expect_all_refused(root_ / "outside/secret");
  expect_all_refused("/");
}

TEST_F(EscapeFromDirectory, IsRefusedThroughASymbolicLinkAtTheEnd) {
  for (const char* name : {"secret", "harmless", "link"}) {
    const At at(*inside_, name);
    OpenOptions follow = OpenOptions::read();
    follow.no_follow = false;
    EXPECT_EQ(fs_.open(at, OpenOptions::read()).status().errno_value(), ELOOP);
    EXPECT_EQ(fs_.open(at, follow).status().errno_value(), ELOOP);
    EXPECT_EQ(fs_.open(at, OpenOptions::create_truncate()).status().errno_value(), ELOOP);
    EXPECT_EQ(fs_.info(at, true).status().errno_value(), ELOOP);
    EXPECT_EQ(fs_.info(at)->type, FileInfo::Type::kSymlink);
    EXPECT_EQ(fs_.read_file(at).status().errno_value(), ELOOP);
  }
  for (const char* name : {"link", "link/"}) {
    const At at(*inside_, name);
    EXPECT_EQ(fs_.open_directory(at, false).status().errno_value(), ELOOP) << name;
    EXPECT_EQ(fs_.list(at).status().errno_value(), ELOOP) << name;
    EXPECT_EQ(fs_.sync_directory(at).errno_value(), ELOOP) << name;
  }
}

TEST_F(EscapeFromDirectory, RemovesAndReplacesTheLinkItselfNotItsTarget) {
  ASSERT_TRUE(fs_.write_file_atomically(At(*inside_, "secret"), bytes_of("new"), false).ok());
  EXPECT_EQ(read(At(*inside_, "secret")), "new");
  ASSERT_TRUE(fs_.remove(At(*inside_, "link/")).ok());
  EXPECT_EQ(read(root_ / "outside/secret"), "secret");
}

TEST_F(EscapeFromDirectory, RefusesPathsWithANulByte) {
  const std::string path("mine\0/../x", 10);
  for (const Status& status : try_everything(path)) EXPECT_EQ(status.errno_value(), EINVAL);
}

// The way without openat2() must refuse the same and open the same.
TEST_F(EscapeFromDirectory, IsJudgedTheSameWithoutOpenat2) {
  const int directory = inside_->descriptor();
  for (const char* path :
       {"mine",   "sub",    "sub/", "./sub/.", "sub//",       "mine/",  "none",
        "none/x", "mine/x", "link", "link/",   "link/secret", "secret", "harmless",
        "..",     "sub/..", "/",    "",        "sub/../mine", "/etc",   "."}) {
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECTORY, O_PATH | O_DIRECTORY}) {
      const posix::Descriptor one(posix::open_beneath(directory, path, flags));
      const int one_errno = one.valid() ? 0 : errno;
      const posix::Descriptor two(posix::open_beneath_by_walking(directory, path, flags));
      const int two_errno = two.valid() ? 0 : errno;
      EXPECT_EQ(one_errno, two_errno) << path << " " << flags;
      struct stat one_stat {};
      struct stat two_stat {};
      if (!one.valid() || !two.valid()) continue;
      ASSERT_EQ(::fstat(one.get(), &one_stat), 0);
      ASSERT_EQ(::fstat(two.get(), &two_stat), 0);
      EXPECT_EQ(one_stat.st_ino, two_stat.st_ino) << path;
    }
  }
}

// --- names

using MakeDirectories = FileSystemTest;

TEST_F(MakeDirectories, MakesMissingParentsAndAcceptsWhatIsThere) {
  EXPECT_TRUE(fs_.make_directories(root_ / "a/b//c/").ok());
  EXPECT_TRUE(fs_.make_directories(root_ / "a/b/c").ok());
  EXPECT_EQ(fs_.info(root_ / "a/b/c")->type, FileInfo::Type::kDirectory);
  EXPECT_TRUE(fs_.make_directories("/").ok());
  EXPECT_TRUE(fs_.make_directories(".").ok());
}

TEST_F(MakeDirectories, FailsWhenAFileIsInTheWay) {
  write(root_ / "f", "");
  EXPECT_EQ(fs_.make_directories(root_ / "f").errno_value(), EEXIST);
  EXPECT_EQ(fs_.make_directories(root_ / "f/x").errno_value(), ENOTDIR);
  EXPECT_EQ(fs_.make_directories("").errno_value(), ENOENT);
}

using Rename = FileSystemTest;

TEST_F(Rename, ReplacesUnlessExclusive) {
  write(root_ / "a", "a");
  write(root_ / "b", "b");
  const Status refused = fs_.rename(root_ / "a", root_ / "b", true);
  EXPECT_EQ(refused.errno_value(), EEXIST);
  EXPECT_EQ(refused.message(),
            "cannot rename '" + root_ / "a" + "' to '" + root_ / "b" + "': File exists");
  EXPECT_EQ(read(root_ / "b"), "b");
  EXPECT_TRUE(fs_.rename(root_ / "a", root_ / "b").ok());
  EXPECT_EQ(read(root_ / "b"), "a");
  EXPECT_TRUE(fs_.rename(root_ / "b", root_ / "c", true).ok());
  EXPECT_EQ(read(root_ / "c"), "a");
}

TEST_F(Rename, IsExclusiveAlsoWhereTheFileSystemCannot) {
  write(root_ / "a", "a");
  write(root_ / "b", "b");
  ASSERT_TRUE(fs_.make_directories(root_ / "d/x").ok());
  const auto root = open_root();
  const int at = root->descriptor();
  EXPECT_EQ(posix::rename_exclusively_by_link(at, "a", at, "b"), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(posix::rename_exclusively_by_link(at, "a", at, "c"), 0);
  EXPECT_EQ(posix::rename_exclusively_by_link(at, "d", at, "b"), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(posix::rename_exclusively_by_link(at, "d", at, "e"), 0);
  EXPECT_EQ(posix::rename_exclusively_by_link(at, "none", at, "f"), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(names(root_.path()), ElementsAre("b", "c", "e"));
  EXPECT_THAT(names(root_ / "e"), ElementsAre("x"));
}

using Symlink = FileSystemTest;

TEST_F(Symlink, IsReadHoweverLong) {
  const std::string target(1000, 'x');
  ASSERT_TRUE(fs_.make_symlink(target, root_ / "link").ok());
  EXPECT_EQ(fs_.read_symlink(root_ / "link").value(), target);
  EXPECT_TRUE(fs_.exists(root_ / "link").value());
  EXPECT_EQ(fs_.info(root_ / "link")->type, FileInfo::Type::kSymlink);
}

using Exists = FileSystemTest;

TEST_F(Exists, TellsMissingFromFailing) {
  write(root_ / "f", "");
  EXPECT_TRUE(fs_.exists(root_ / "f").value());
  EXPECT_FALSE(fs_.exists(root_ / "g").value());
  EXPECT_FALSE(fs_.exists(root_ / "f/g").value());
  FaultyFileSystem faulty(fs_, FaultPlan::fail_at(1, EIO));
  EXPECT_EQ(faulty.exists(root_ / "f").status().errno_value(), EIO);
}

using RemoveIfExists = FileSystemTest;

TEST_F(RemoveIfExists, IsContentWithAMissingFile) {
  write(root_ / "f", "");
  EXPECT_TRUE(fs_.remove_if_exists(root_ / "f").ok());
  EXPECT_TRUE(fs_.remove_if_exists(root_ / "f").ok());
  EXPECT_EQ(fs_.remove_if_exists(root_.path()).errno_value(), EISDIR);
}

using ReadFile = FileSystemTest;

TEST_F(ReadFile, ReadsFilesWhoseSizeTheSystemDoesNotTell) {
  EXPECT_THAT(read("/proc/self/status"), StartsWith("Name:"));
}

TEST_F(ReadFile, ReadsEmptyAndLargeFiles) {
  write(root_ / "empty", "");
  EXPECT_EQ(read(root_ / "empty"), "");
  const std::string large(3'000'001, 'y');
  write(root_ / "large", large);
  EXPECT_EQ(read(root_ / "large"), large);
}

// --- atomic writes

class AtomicWrite : public FileSystemTest {
 protected:
  AtomicWrite() { write(target_, old_); }

  const std::string target_ = root_ / "index.scr";
  const std::string old_ = "old content";
  const std::string new_ = "new content, which is a little longer";
};

TEST_F(AtomicWrite, ReplacesTheWholeFileAndLeavesNothingElse) {
  for (const bool durable : {false, true}) {
    ASSERT_TRUE(fs_.write_file_atomically(target_, bytes_of(new_), durable).ok());
    EXPECT_EQ(read(target_), new_);
    EXPECT_THAT(names(root_.path()), ElementsAre("index.scr"));
  }
}

TEST_F(AtomicWrite, WorksOnTheLongestName) {
  const std::string name(255, 'n');
  EXPECT_TRUE(fs_.write_file_atomically(root_ / name, bytes_of("x"), true).ok());
  EXPECT_EQ(read(root_ / name), "x");
}

TEST_F(AtomicWrite, WritesUnderAHiddenNameBesideTheTarget) {
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRename) | FaultPlan::bit(Operation::kRemove);
  FaultyFileSystem faulty(fs_, plan);
  EXPECT_FALSE(faulty.write_file_atomically(target_, bytes_of(new_), true).ok());
  const auto found = names(root_.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], StartsWith(".index.scr.tmp."));
}

TEST_F(AtomicWrite, SyncsTheFileBeforeAndTheDirectoryAfterTheRename) {
  FaultPlan plan;
  plan.log = root_ / "log";
  {
    FaultyFileSystem counting(fs_, plan);
    ASSERT_TRUE(counting.write_file_atomically(target_, bytes_of(new_), true).ok());
  }
  std::vector<std::string> steps;
  const std::string log = read(plan.log);
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = log.find('\n', at);
    const std::string line = log.substr(at, end - at);
    const std::size_t first = line.find(' ', line.find(' ') + 1) + 1;
    steps.push_back(line.substr(first, line.find(' ', first) - first));
    at = end + 1;
  }
  EXPECT_THAT(steps, ElementsAre("open", "write", "sync", "close", "rename", "syncdir"));
}

TEST_F(AtomicWrite, KeepsTheOldContentWhicheverStepFails) {
  for (const int why : {EIO, ENOSPC}) {
    for (std::uint64_t n = 1;; ++n) {
      write(target_, old_);
      FaultyFileSystem faulty(fs_, FaultPlan::fail_at(n, why));
      const Status status = faulty.write_file_atomically(target_, bytes_of(new_), true);
      if (faulty.hits() == 0) {
        EXPECT_TRUE(status.ok());
        EXPECT_EQ(n, 7U);
        break;
      }
      EXPECT_EQ(status.errno_value(), why) << n;
      // After the rename, only the sync of the directory is left to fail.
      EXPECT_EQ(read(target_), n < 6 ? old_ : new_) << n;
      EXPECT_THAT(names(root_.path()), ElementsAre("index.scr")) << n;
    }
  }
}

TEST_F(AtomicWrite, KeepsTheOldContentWhenTheDeviceFillsUpHalfWay) {
  FaultPlan plan;
  plan.action = FaultPlan::Action::kShort;
  plan.operations = FaultPlan::bit(Operation::kWrite);
  FaultyFileSystem faulty(fs_, plan);
  const Status status = faulty.write_file_atomically(target_, bytes_of(new_), true);
  EXPECT_EQ(status.code(), StatusCode::kNoSpace);
  EXPECT_EQ(faulty.operations(), 2U);
  EXPECT_EQ(read(target_), old_);
  EXPECT_THAT(names(root_.path()), ElementsAre("index.scr"));
}

TEST_F(AtomicWrite, LeavesOldOrNewContentWheneverTheProcessIsKilled) {
  for (const auto action : {FaultPlan::Action::kKill, FaultPlan::Action::kTear}) {
    for (std::uint64_t n = 1;; ++n) {
      write(target_, old_);
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        FaultPlan plan = FaultPlan::kill_at(n);
        plan.action = action;
        FaultyFileSystem faulty(fs_, plan);
        const bool ok = faulty.write_file_atomically(target_, bytes_of(new_), true).ok();
        ::_exit(ok && faulty.operations() < n ? 0 : 1);
      }
      int result = 0;
      ASSERT_EQ(::waitpid(child, &result, 0), child);
      const std::string found = read(target_);
      EXPECT_TRUE(found == old_ || found == new_) << n << ": " << found;
      if (WIFEXITED(result) && WEXITSTATUS(result) == 0) {
        EXPECT_EQ(found, new_);
        EXPECT_EQ(n, 7U);
        break;
      }
      if (action == FaultPlan::Action::kKill) {
        ASSERT_TRUE(WIFSIGNALED(result));
        EXPECT_EQ(WTERMSIG(result), SIGKILL);
        EXPECT_EQ(found, n <= 5 ? old_ : new_) << n;
      }
    }
  }
}

TEST_F(AtomicWrite, ByManyThreadsAtOnceGivesTheContentOfOneOfThem) {
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i) write(target_, std::string(1000, c));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string found = read(target_);
  EXPECT_EQ(found, std::string(1000, found[0]));
  EXPECT_THAT(names(root_.path()), ElementsAre("index.scr"));
}

}  // namespace
}  // namespace scr
