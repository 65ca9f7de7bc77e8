// Session: files of programs that do not know of h5scr, in a process by itself. More of it is in
// routing_pending_test.cpp, routing_ranks_test.cpp, routing_shared_test.cpp.
#include "core/routing/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/runtime/program.hpp"
#include "flush/index.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/session_fixture.hpp"
#include "tests/unit/small_cache.hpp"

namespace scr::routing {
namespace {

using ::testing::HasSubstr;

// --- a process by itself

TEST_F(SessionTest, AClosedFileIsSealedFlushedAndReal) {
  Session session(file_system());
  write(session, "a.h5", "one");
  EXPECT_EQ(read(session, "a.h5"), "one");
  session.finish();
  EXPECT_EQ(real("a.h5"), "one");
}

TEST_F(SessionTest, AnOpenFileIsNotAtItsNameButAClosedOneIsMarkedUntilFlushed) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  Session session(file_system());
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  EXPECT_NE(opened->routed, nullptr);
  fill(*opened, "one");
  EXPECT_EQ(real("a.h5"), "missing");
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "marker");
  EXPECT_EQ(read(session, "a.h5"), "one");
}

TEST_F(SessionTest, ReadingAloneHasNoSideEffects) {
  std::ofstream(name("plain.h5")) << "plain";
  Session session(file_system());
  EXPECT_EQ(read(session, "plain.h5"), "plain");
  EXPECT_FALSE(session.open(name("none.h5"), OpenOptions::read()).ok());
  EXPECT_FALSE(session.open(name("none.h5"), OpenOptions::read_write()).ok());
  EXPECT_FALSE(std::filesystem::exists(name(".scr")));
}

// What the program asks the system for it gets, also if it is no regular file.
TEST_F(SessionTest, WhatIsNoRegularFileIsOpenedAsWithoutH5scr) {
  ASSERT_EQ(::mkfifo(name("fifo").c_str(), 0600), 0);
  Session session(file_system());
  EXPECT_TRUE(session.open("/dev/null", OpenOptions::read_write()).ok());
  EXPECT_TRUE(session.open(name("fifo"), OpenOptions::read_write()).ok());
}

TEST_F(SessionTest, AnUpdateIsANewVersionAndTheOldFileStaysWhole) {
  Session session(file_system());
  write(session, "a.h5", "one");
  auto opened = session.open(name("a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(opened.ok());
  fill(*opened, "two");
  EXPECT_EQ(real("a.h5"), "one");
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(read(session, "a.h5"), "two");
  session.finish();
  EXPECT_EQ(real("a.h5"), "two");
}

TEST_F(SessionTest, AFileOpenedForChangesBeforeTheEndCanBeChangedAfterIt) {
  Session session(file_system());
  write(session, "a.h5", "one");
  auto opened = session.open(name("a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(opened.ok());
  session.finish();
  session.disable();
  fill(*opened, "two");
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "two");
}

TEST_F(SessionTest, AnOpenFileMovesToItsNameAtTheEndAndLivesOn) {
  Session session(file_system());
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  fill(*opened, "one");
  session.finish();
  fill(*opened, "two");
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "two");
}

// The temporary name that it has meanwhile is longer.
TEST_F(SessionTest, AnOpenFileWithTheLongestNameMovesThereToo) {
  Session session(file_system());
  const std::string file(255, 'x');
  auto opened = session.open(name(file), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  fill(*opened, "one");
  session.finish();
  EXPECT_EQ(real(file), "one");
}

TEST_F(SessionTest, AProcessThatIsNotServedDoesNotGetTheBytesOfAMarker) {
  set("SCR_FLUSH", "0");
  Session session(file_system());
  write(session, "a.h5", "one");
  ASSERT_EQ(real("a.h5"), "marker");
  Session other(file_system());
  other.disable();
  EXPECT_THAT(read(other, "a.h5"), HasSubstr("its data is in the cache of node"));
  EXPECT_FALSE(other.open(name("a.h5"), OpenOptions::read_write()).ok());
  std::ofstream(name("b.h5")) << "real";
  EXPECT_EQ(read(other, "b.h5"), "real");
  // One that was copied to where nothing is routed is not served by anybody.
  const std::string copy = directory_ / "copy.h5";
  std::filesystem::copy_file(name("a.h5"), copy);
  EXPECT_FALSE(session.open(copy, OpenOptions::read_write()).ok());
}

// --- what the system would refuse

// Not as root, who may do everything.
class RefusedTest : public SessionTest {
 protected:
  RefusedTest() {
    if (::geteuid() != 0) return;
    for (const auto& entry : {directory_.path(), std::filesystem::path(prefix()),
                              directory_.path() / "control", directory_.path() / "cache"}) {
      EXPECT_EQ(::chown(entry.c_str(), kNobody, kNobody), 0);
    }
    EXPECT_EQ(::setegid(kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
    was_root_ = true;
  }
  ~RefusedTest() override {
    if (!was_root_) return;
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
  }

  void make(const std::string& file, const std::string& text, mode_t mode) {
    std::ofstream(name(file)) << text;
    ASSERT_EQ(::chmod(name(file).c_str(), mode), 0);
  }
  static int error_of(const Result<Session::Opened>& opened) {
    return opened.ok() ? 0 : opened.status().errno_value();
  }

  static constexpr uid_t kNobody = 65534;

 private:
  bool was_root_ = false;
};

TEST_F(RefusedTest, AFileThatMayNotBeWrittenIsNotReplaced) {
  make("golden.h5", "gold", 0444);
  Session session(file_system());
  EXPECT_EQ(error_of(session.open(name("golden.h5"), OpenOptions::create_truncate())), EACCES);
  EXPECT_EQ(error_of(session.open(name("golden.h5"), OpenOptions::read_write())), EACCES);
  OpenOptions exclusive = OpenOptions::create_new();
  EXPECT_EQ(error_of(session.open(name("golden.h5"), exclusive)), EEXIST);
  session.finish();
  EXPECT_EQ(real("golden.h5"), "gold");
}

TEST_F(RefusedTest, AMarkerCountsAsTheFile) {
  set("SCR_FLUSH", "0");
  Session session(file_system());
  write(session, "a.h5", "one");
  ASSERT_EQ(real("a.h5"), "marker");
  ASSERT_EQ(::chmod(name("a.h5").c_str(), 0444), 0);
  EXPECT_EQ(error_of(session.open(name("a.h5"), OpenOptions::create_truncate())), EACCES);
  EXPECT_EQ(error_of(session.open(name("a.h5"), OpenOptions::read_write())), EACCES);
  EXPECT_EQ(read(session, "a.h5"), "one");
}

TEST_F(RefusedTest, WhereNoFileCanBeMadeNoneIsAndOneThatIsThereIsWrittenInPlace) {
  std::filesystem::create_directory(name("closed"));
  make("closed/there.h5", "old", 0644);
  ASSERT_EQ(::chmod(name("closed").c_str(), 0555), 0);
  Session session(file_system());
  EXPECT_EQ(error_of(session.open(name("closed/a.h5"), OpenOptions::create_truncate())), EACCES);
  write(session, "closed/there.h5", "new");
  EXPECT_EQ(real("closed/there.h5"), "new");
  write(session, "b.h5", "two");
  session.finish();
  EXPECT_EQ(real("b.h5"), "two") << "its dataset is flushed";
  ASSERT_EQ(::chmod(name("closed").c_str(), 0755), 0);
}

TEST_F(RefusedTest, ADirectoryIsNoFileAndAMissingOneIsNotMade) {
  std::filesystem::create_directory(name("d.h5"));
  Session session(file_system());
  EXPECT_EQ(error_of(session.open(name("d.h5"), OpenOptions::create_truncate())), EISDIR);
  EXPECT_EQ(error_of(session.open(name("no/a.h5"), OpenOptions::create_truncate())), ENOENT);
  session.finish();
  EXPECT_FALSE(std::filesystem::exists(name("no")));
}

// --- modes

class ModeTest : public SessionTest {
 protected:
  ModeTest() : old_mask_(::umask(022)) {}
  ~ModeTest() override { ::umask(old_mask_); }

  void make(const std::string& file, mode_t mode) {
    std::ofstream(name(file)) << "old";
    change(file, mode);
  }
  void change(const std::string& file, mode_t mode) {
    ASSERT_EQ(::chmod(name(file).c_str(), mode), 0);
  }
  mode_t mode_of(const std::string& file) const {
    auto info = file_system().info(name(file));
    return info.ok() ? info->mode : 0;
  }

 private:
  mode_t old_mask_;
};

// Notes what those can read who may read a temporary file.
class SeesModes final : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    auto file = inner_.open(at, options);
    const auto info = inner_.info(at, /*follow=*/false);
    const bool temporary = at.path.find("a.h5") != std::string::npos &&
                           at.path.find(".scr-") != std::string::npos;  // and of no marker
    if (temporary && options.access != OpenOptions::Access::kRead && info.ok()) {
      seen |= info->mode;
      ++count;
    }
    return file;
  }
  mode_t seen = 0;
  int count = 0;
};

TEST_F(ModeTest, AFlushedFileHasThatOfTheFileThatItReplaces) {
  make("a.h5", 0640);
  SeesModes fs;
  Session session(fs);
  write(session, "a.h5", "new");
  write(session, "b.h5", "new");
  session.finish();
  EXPECT_EQ(real("a.h5"), "new");
  EXPECT_EQ(mode_of("a.h5"), 0640U);
  EXPECT_EQ(mode_of("b.h5"), 0644U);
  EXPECT_GT(fs.count, 0);
  EXPECT_EQ(fs.seen & 077U, 0U) << "nobody else reads it before it has its name";
}

TEST_F(ModeTest, AFlushedFileHasThatOfItsMarkerAlsoIfItIsWrittenAgain) {
  set("SCR_FLUSH", "10");
  Session session(file_system());
  write(session, "a.h5", "one");
  ASSERT_EQ(real("a.h5"), "marker");
  EXPECT_EQ(mode_of("a.h5"), 0644U);
  change("a.h5", 0600);
  write(session, "a.h5", "two");
  ASSERT_EQ(real("a.h5"), "marker");
  EXPECT_EQ(mode_of("a.h5"), 0600U);
  session.finish();
  EXPECT_EQ(real("a.h5"), "two");
  EXPECT_EQ(mode_of("a.h5"), 0600U);
}

TEST_F(ModeTest, AFileThatMovesToItsNameHasThatOfTheOldOne) {
  make("a.h5", 0600);
  SeesModes fs;
  Session session(fs);
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  fill(*opened, "new");
  session.finish();
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "new");
  EXPECT_EQ(mode_of("a.h5"), 0600U);
  EXPECT_GT(fs.count, 0);
  EXPECT_EQ(fs.seen & 077U, 0U);
}

TEST_F(ModeTest, AFileThatBypassesTheCacheHasThatOfTheOldOne) {
  set("SCR_CACHE_BYPASS", "1");
  make("a.h5", 0600);
  SeesModes fs;
  Session session(fs);
  write(session, "a.h5", "new");
  session.finish();
  EXPECT_EQ(real("a.h5"), "new");
  EXPECT_EQ(mode_of("a.h5"), 0600U);
  EXPECT_GT(fs.count, 0);
  EXPECT_EQ(fs.seen & 077U, 0U);
}

TEST_F(SessionTest, ExclusiveCreateFindsCachedFiles) {
  Session session(file_system());
  write(session, "a.h5", "one");
  OpenOptions options = OpenOptions::create_truncate();
  options.exclusive = true;
  options.truncate = false;
  EXPECT_EQ(session.open(name("a.h5"), options).status().errno_value(), EEXIST);
}

TEST_F(SessionTest, RenameAndUnlink) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  std::ofstream(name("restart.h5")) << "old";
  Session session(file_system());
  write(session, "tmp.h5", "new");
  auto renamed = session.renamed(name("tmp.h5"), name("restart.h5"));
  ASSERT_TRUE(renamed.ok()) << renamed.status().message();
  EXPECT_TRUE(*renamed);
  EXPECT_EQ(real("restart.h5"), "old");
  EXPECT_EQ(read(session, "restart.h5"), "new");
  EXPECT_FALSE(session.open(name("tmp.h5"), OpenOptions::read()).ok());
  write(session, "gone.h5", "x");
  ASSERT_TRUE(session.remove(name("gone.h5")).ok());
  EXPECT_FALSE(session.open(name("gone.h5"), OpenOptions::read()).ok());
  EXPECT_EQ(real("gone.h5"), "missing");
  ::unsetenv("SCR_FLUSH_ASYNC_BW");
  session.finish();
  EXPECT_EQ(real("restart.h5"), "new");
  EXPECT_EQ(real("tmp.h5"), "missing");
  EXPECT_EQ(real("gone.h5"), "missing");
}

TEST_F(SessionTest, TwoProcessesByThemselvesTakeTwoSlots) {
  Session one(file_system());
  Session two(file_system());
  write(one, "a.h5", "one");
  write(two, "b.h5", "two");
  EXPECT_EQ(read(two, "a.h5"), "one");
  EXPECT_EQ(read(one, "b.h5"), "two");
  one.finish();
  two.finish();
  EXPECT_EQ(real("a.h5"), "one");
  EXPECT_EQ(real("b.h5"), "two");
}

TEST_F(SessionTest, MarkersOfWhatWasLostAreSwept) {
  MarkerStore store(file_system(), prefix());
  Marker marker;
  marker.file = "lost.h5";
  marker.dataset = 3;
  marker.created = 5;
  marker.job = "7.s0";
  marker.host = "elsewhere";
  std::filesystem::create_directories(name(".scr"));
  ASSERT_TRUE(store.put(marker, MarkerStore::Visible::kYes).ok());
  EXPECT_EQ(real("lost.h5"), "marker");
  Session session(file_system());
  write(session, "a.h5", "one");
  EXPECT_EQ(real("lost.h5"), "missing");
}

TEST_F(SessionTest, AKilledProcessLeavesItsDataAndADamagedFileIsNotUsed) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  {
    Session killed(file_system());
    write(killed, "a.h5", "one");
  }
  {
    Session reader(file_system());
    EXPECT_EQ(read(reader, "a.h5"), "one");
  }
  const std::string path = cached_path("a.h5");
  ASSERT_NE(path, "");
  std::ofstream(path) << "odd";
  Session reader(file_system());
  EXPECT_FALSE(reader.open(name("a.h5"), OpenOptions::read()).ok());
}

// Otherwise the cost of a file grows with the number of those before it.
TEST_F(SessionTest, AProcessByItselfDoesNotLookForNewFilesInItsOwnFilemap) {
  set("SCR_FLUSH", "0");  // the files wait in the cache for the one that is open
  FaultPlan plan;
  plan.operations = FaultPlan::bit(Operation::kOpen);
  plan.path = "*/filemap_*";
  plan.log = prefix() + ".opens";
  FaultyFileSystem fs(file_system(), plan);
  const auto opens = [&] {
    std::ifstream lines(plan.log);
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  Session session(fs);
  auto kept = session.open(name("kept.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(kept.ok());
  write(session, "0.h5", "zero");
  const auto before = opens();
  for (int i = 1; i <= 10; ++i) write(session, fmt::format("{}.h5", i), "more");
  EXPECT_EQ(opens(), before);
  ASSERT_TRUE(kept->file->close().ok());
  EXPECT_EQ(read(session, "10.h5"), "more");
  std::filesystem::remove(plan.log);
}

TEST_F(SessionTest, ARealFileThatIsNewerThanTheCachedOneIsRead) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  Session session(file_system());
  write(session, "a.h5", "one");
  std::filesystem::remove(name("a.h5"));
  std::ofstream(name("a.h5")) << "by hand";
  std::filesystem::last_write_time(
      name("a.h5"), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  EXPECT_EQ(read(session, "a.h5"), "by hand");
}

TEST_F(SessionTest, WhereAnotherJobsDataWasLostANewFileCanBeWrittenRenamedOrDeleted) {
  MarkerStore store(file_system(), prefix());
  std::filesystem::create_directories(name(".scr"));
  for (const char* file : {"restart.h5", "target.h5", "gone.h5", "source.h5"}) {
    Marker marker;
    marker.file = file;
    marker.dataset = 3;
    marker.created = 5;
    marker.generation = 2;
    marker.job = "another.s0";
    marker.host = "elsewhere";
    ASSERT_TRUE(store.put(marker, MarkerStore::Visible::kYes).ok());
  }
  Session session(file_system());
  EXPECT_THAT(read(session, "restart.h5"), HasSubstr("the data of"));
  EXPECT_FALSE(session.open(name("restart.h5"), OpenOptions::read_write()).ok());
  OpenOptions exclusive = OpenOptions::create_truncate();
  exclusive.exclusive = true;
  exclusive.truncate = false;
  EXPECT_EQ(session.open(name("restart.h5"), exclusive).status().errno_value(), EEXIST);
  write(session, "restart.h5", "new");
  EXPECT_EQ(read(session, "restart.h5"), "new");
  write(session, "tmp.h5", "renamed");
  auto renamed = session.renamed(name("tmp.h5"), name("target.h5"));
  ASSERT_TRUE(renamed.ok()) << renamed.status().message();
  if (!*renamed) std::filesystem::rename(name("tmp.h5"), name("target.h5"));
  EXPECT_EQ(read(session, "target.h5"), "renamed");
  ASSERT_TRUE(session.remove(name("gone.h5")).ok());
  EXPECT_EQ(real("gone.h5"), "missing");
  // Nothing good is replaced by what is lost.
  EXPECT_THAT(session.renamed(name("source.h5"), name("restart.h5")).status().message(),
              HasSubstr("the data of"));
  session.finish();
  EXPECT_EQ(real("restart.h5"), "new");
  EXPECT_EQ(real("target.h5"), "renamed");
}

TEST_F(SessionTest, TruncateOfACachedFileIsANewVersion) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  std::ofstream(name("plain.h5")) << "plain";
  Session session(file_system());
  write(session, "a.h5", "abc");
  auto done = session.truncated(name("a.h5"), 1);
  ASSERT_TRUE(done.ok()) << done.status().message();
  EXPECT_TRUE(*done);
  EXPECT_EQ(read(session, "a.h5"), "a");
  EXPECT_FALSE(session.truncated(name("plain.h5"), 3).value());
  EXPECT_FALSE(session.truncated(name("none.h5"), 3).value());
  ::unsetenv("SCR_FLUSH_ASYNC_BW");
  session.finish();
  EXPECT_EQ(real("a.h5"), "a");
}

TEST_F(SessionTest, RenameToAnUnroutedNameTakesTheDataAlong) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  const std::string outside = directory_ / "outside.h5";
  std::ofstream(name("a.h5")) << "older";
  Session session(file_system());
  write(session, "a.h5", "one");
  auto renamed = session.renamed(name("a.h5"), outside);
  ASSERT_TRUE(renamed.ok()) << renamed.status().message();
  EXPECT_TRUE(*renamed);
  std::ifstream stream(outside);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(stream)), {}), "one");
  EXPECT_FALSE(session.open(name("a.h5"), OpenOptions::read()).ok());
  ::unsetenv("SCR_FLUSH_ASYNC_BW");
  session.finish();
  EXPECT_EQ(real("a.h5"), "missing");
}

TEST_F(SessionTest, RenameOfAFlushedFileIsForTheSystem) {
  Session session(file_system());
  write(session, "a.h5", "one");
  EXPECT_EQ(real("a.h5"), "one");
  auto renamed = session.renamed(name("a.h5"), name("b.h5"));
  ASSERT_TRUE(renamed.ok()) << renamed.status().message();
  ASSERT_FALSE(*renamed);
  std::filesystem::rename(name("a.h5"), name("b.h5"));
  EXPECT_EQ(read(session, "b.h5"), "one");
  EXPECT_FALSE(session.open(name("a.h5"), OpenOptions::read()).ok());
}

// A second open of the same file, as another process makes it.
bool can_lock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) == 0;
  ::close(descriptor);
  return locked;
}

TEST_F(SessionTest, ALockStaysWithTheFileWhereverItsBytesGo) {
  std::ofstream(name("a.h5")) << "one";
  Session session(file_system());
  auto opened = session.open(name("a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_NE(opened->routed, nullptr);
  ASSERT_EQ(::flock(opened->file->descriptor(), LOCK_EX | LOCK_NB), 0);
  opened->routed->note_lock(LOCK_EX);
  fill(*opened, "two");
  ASSERT_NE(cached_path("a.h5"), "");
  EXPECT_FALSE(can_lock(cached_path("a.h5")));
  session.finish();
  EXPECT_EQ(real("a.h5"), "two");
  EXPECT_FALSE(can_lock(name("a.h5")));
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_TRUE(can_lock(name("a.h5")));
}

// No open file can be moved to its name.
class NoMoves : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    if (at.display().ends_with(".scr-moving")) return errno_status(ENOSPC, "open", at.display());
    return ForwardingFileSystem::open(at, options);
  }
};

TEST_F(SessionTest, AFileThatIsOpenAtTheEndIsNeverPartOfACompleteDataset) {
  NoMoves fs;
  Session session(fs);
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  fill(*opened, "half");
  session.finish();
  auto index = flush::read_index(file_system(), prefix());
  ASSERT_TRUE(index.ok()) << index.status().message();
  for (const auto& entry : index->entries()) EXPECT_FALSE(entry.complete) << entry.dataset.name;
  EXPECT_EQ(real("a.h5"), "half");  // as without h5scr
  EXPECT_THAT(opened->file->write_all(bytes_of("rest"), 4).message(),
              HasSubstr("cannot be changed"));
  EXPECT_TRUE(opened->file->close().ok());
}

TEST_F(SessionTest, AFileThatCouldNotBeWrittenLeavesTheOldOneAlsoIfItIsOpenTwiceAtTheEnd) {
  {
    Session session(file_system());
    write(session, "a.h5", "good");
    session.finish();
  }
  FaultPlan plan = FaultPlan::fail_at(1, ENOSPC);
  plan.operations = FaultPlan::bit(Operation::kWrite);
  plan.path = "*/cache/*/a.h5";
  FaultyFileSystem fs(file_system(), plan);
  Session session(fs);
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  auto again = session.open(name("a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_FALSE(opened->file->write_all(bytes_of("half"), 0).ok());
  ASSERT_EQ(fs.hits(), 1U);
  session.finish();
  EXPECT_EQ(real("a.h5"), "good");
  // Nobody would ever see what is written from here on.
  EXPECT_FALSE(opened->file->write_all(bytes_of("more"), 0).ok());
  EXPECT_FALSE(again->file->write_all(bytes_of("more"), 0).ok());
  EXPECT_EQ(real("a.h5"), "good");
}

// --- a cache with little room

TEST_F(SessionTest, AFileThatHasNoRoomInTheCacheGoesOnAtItsName) {
  testing::SmallCache fs(directory_ / "cache", 1000);
  Session session(fs);
  for (const char value : {'a', 'b'}) {  // the second one finds out before it is written
    auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    for (const std::uint64_t offset : {0, 600, 1200}) {
      const Status status = opened->file->write_all(bytes_of(std::string(600, value)), offset);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ASSERT_TRUE(opened->file->close().ok());
    EXPECT_EQ(read(session, "a.h5"), std::string(1800, value));
    EXPECT_EQ(real("a.h5"), std::string(1800, value));
  }
  session.finish();
  EXPECT_EQ(real("a.h5"), std::string(1800, 'b'));
  auto index = flush::read_index(file_system(), prefix());
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->entries().size(), 1U) << "the second one is a dataset of the prefix directory";
}

TEST_F(SessionTest, AFileThatIsChangedWithoutRoomForACopyIsChangedAtItsName) {
  set("SCR_FLUSH", "10");
  InProcessWorld::run(1, [&](Communicator& comm) {
    testing::SmallCache fs(directory_ / "cache", 1700);
    Rank rank(comm, {"ROUTE=*.h5 TYPE=CKPT"}, fs);
    write(rank.session, "a.h5", std::string(800, 'a'));
    rank.look();
    write(rank.session, "b.h5", std::string(200, 'b'));
    write_second(rank.session, "new", 0);
    const std::string changed = "new" + std::string(797, 'a');
    EXPECT_EQ(real("a.h5"), changed);
    EXPECT_EQ(read(rank.session, "a.h5"), changed);
    rank.look();
    rank.session.finish();
    EXPECT_EQ(real("a.h5"), changed);
    EXPECT_EQ(real("b.h5"), std::string(200, 'b'));
  });
}

TEST_F(SessionTest, ADatasetThatIsInThePrefixDirectoryMakesRoomForANewOne) {
  set("SCR_CACHE_SIZE", "3");
  testing::SmallCache fs(directory_ / "cache", 1000);
  Session session(fs);
  write(session, "a.h5", std::string(600, 'a'));
  ASSERT_EQ(real("a.h5"), std::string(600, 'a'));
  write(session, "b.h5", std::string(600, 'b'));
  EXPECT_NE(cached_path("b.h5"), "");
  EXPECT_EQ(cached_path("a.h5"), "");
  EXPECT_EQ(read(session, "a.h5"), std::string(600, 'a'));
  session.finish();
  EXPECT_EQ(real("b.h5"), std::string(600, 'b'));
}

TEST_F(SessionTest, AFileThatIsRenamedWithoutRoomForACopyIsAtTheNewName) {
  set("SCR_FLUSH", "10");
  InProcessWorld::run(1, [&](Communicator& comm) {
    testing::SmallCache fs(directory_ / "cache", 1700);
    Rank rank(comm, {"ROUTE=*.h5 TYPE=CKPT"}, fs);
    write(rank.session, "a.h5", std::string(800, 'a'));
    rank.look();
    write(rank.session, "b.h5", std::string(200, 'b'));
    auto renamed = rank.session.renamed(name("a.h5"), name("c.h5"));
    ASSERT_TRUE(renamed.ok()) << renamed.status().message();
    EXPECT_EQ(real("c.h5"), std::string(800, 'a'));
    EXPECT_FALSE(rank.session.open(name("a.h5"), OpenOptions::read()).ok());
    rank.look();
    EXPECT_NE(cached_path("b.h5"), "") << "the dataset is sealed";
    rank.session.finish();
    EXPECT_EQ(real("b.h5"), std::string(200, 'b'));
    EXPECT_EQ(real("c.h5"), std::string(800, 'a'));
  });
}

TEST_F(SessionTest, WithoutNewsOfRenamesAFileIsAtItsNameWhenItIsClosed) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH", "10");
  std::ofstream(name("restart.h5")) << "old";
  Session session(file_system());
  session.names_are_not_watched();
  write(session, "tmp.h5", "new");
  EXPECT_EQ(real("tmp.h5"), "new");
  std::filesystem::rename(name("tmp.h5"), name("restart.h5"));
  EXPECT_EQ(real("restart.h5"), "new");
  EXPECT_EQ(read(session, "restart.h5"), "new");
  EXPECT_FALSE(session.open(name("tmp.h5"), OpenOptions::read()).ok());
  // Also while another one is open.
  auto log = session.open(name("log.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(log.ok());
  fill(*log, "log");
  write(session, "tmp.h5", "newer");
  EXPECT_EQ(real("tmp.h5"), "newer");
  std::filesystem::rename(name("tmp.h5"), name("restart.h5"));
  EXPECT_EQ(read(session, "restart.h5"), "newer");
  EXPECT_TRUE(log->file->close().ok());
  session.finish();
  EXPECT_EQ(real("restart.h5"), "newer");
  EXPECT_EQ(real("tmp.h5"), "missing");
  EXPECT_EQ(real("log.h5"), "log");
}

TEST_F(SessionTest, AnOlderVersionAtTheNameIsNotTakenInSilence) {
  std::ofstream(name("a.h5")) << "old";
  MarkerStore store(file_system(), prefix());
  std::filesystem::create_directories(name(".scr"));
  Marker marker;
  marker.file = "a.h5";
  marker.dataset = 3;
  marker.job = "killed";
  marker.host = "elsewhere";
  marker.written = file_system().info(name("a.h5"))->mtime_ns + 1;
  ASSERT_TRUE(store.put(marker, MarkerStore::Visible::kNo).ok());
  Session session(file_system());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(session, "a.h5"), "old");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("an older version of"), HasSubstr("job killed wrote a newer one")));
}

// A log that is open for the whole run must not keep the checkpoints from being safe.
TEST_F(SessionTest, WhatIsClosedWhileAnotherFileIsOpenOutlivesAKill) {
  set("SCR_FLUSH_ASYNC", "1");
  Session killed(file_system());
  auto log = killed.open(name("log.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(log.ok()) << log.status().message();
  for (const char* checkpoint : {"1.h5", "2.h5", "3.h5"}) {
    write(killed, checkpoint, checkpoint);
    EXPECT_EQ(real(checkpoint), checkpoint);
  }
  EXPECT_EQ(read(killed, "2.h5"), "2.h5");
  // Nothing more is heard of it.
  Session next(file_system());
  write(next, "new.h5", "new");
  for (const char* checkpoint : {"1.h5", "2.h5", "3.h5"})
    EXPECT_EQ(read(next, checkpoint), checkpoint);
  next.finish();
  EXPECT_EQ(real("3.h5"), "3.h5");
}

// --- links

TEST_F(SessionTest, WhatIsWrittenThroughALinkIsTheFileBehindIt) {
  Session session(file_system());
  write(session, "real.h5", "one");
  std::filesystem::create_symlink("real.h5", name("latest.h5"));
  std::filesystem::create_symlink(name("later.h5"), name("dangling.h5"));
  write(session, "latest.h5", "two");
  write(session, "dangling.h5", "new");
  EXPECT_EQ(read(session, "real.h5"), "two");
  EXPECT_EQ(read(session, "latest.h5"), "two");
  EXPECT_EQ(read(session, "later.h5"), "new");
  auto truncated = session.truncated(name("latest.h5"), 1);
  ASSERT_TRUE(truncated.ok()) << truncated.status().message();
  if (!*truncated) std::filesystem::resize_file(name("latest.h5"), 1);
  session.finish();
  EXPECT_EQ(real("real.h5"), "t");
  EXPECT_EQ(real("later.h5"), "new");
  EXPECT_EQ(std::filesystem::read_symlink(name("latest.h5")), "real.h5");
  EXPECT_EQ(std::filesystem::read_symlink(name("dangling.h5")), name("later.h5"));
}

TEST_F(SessionTest, WhatIsBehindALinkOutOfThePrefixDirectoryIsWrittenThere) {
  const std::string outside = directory_ / "outside.h5";
  std::filesystem::create_symlink(outside, name("link.h5"));
  Session session(file_system());
  write(session, "link.h5", "there");
  session.finish();
  EXPECT_TRUE(std::filesystem::is_symlink(name("link.h5")));
  EXPECT_EQ(real("link.h5"), "there");
}

TEST_F(SessionTest, AFileHasOneNameWhateverLinksOfDirectoriesLeadToIt) {
  std::filesystem::create_directories(name("real/deep"));
  std::filesystem::create_directory_symlink("real", name("link"));
  Session session(file_system());
  write(session, "real/x.h5", "one");
  write(session, "link/x.h5", "two");
  EXPECT_EQ(read(session, "real/x.h5"), "two");
  write(session, "real/deep/y.h5", "why");
  EXPECT_EQ(read(session, "link/deep/y.h5"), "why");
  session.finish();
  EXPECT_EQ(real("real/x.h5"), "two");
  EXPECT_TRUE(std::filesystem::is_symlink(name("link")));
}

TEST_F(SessionTest, UpwardsIsFromTheDirectoryBehindALink) {
  const std::string outside = directory_ / "outside";
  std::filesystem::create_directories(outside + "/deep");
  std::filesystem::create_directory_symlink(outside + "/deep", name("link"));
  Session session(file_system());
  write(session, "link/../x.h5", "out");
  EXPECT_EQ(real("x.h5"), "missing");
  EXPECT_TRUE(std::filesystem::exists(outside + "/x.h5"));
  std::filesystem::create_directory(name("sub"));
  write(session, "sub/../y.h5", "in");
  EXPECT_EQ(read(session, "y.h5"), "in");
  EXPECT_EQ(
      session.open(name("none/../z.h5"), OpenOptions::create_truncate()).status().errno_value(),
      ENOENT);
  session.finish();
  EXPECT_EQ(real("y.h5"), "in");
}

TEST_F(SessionTest, ARunInWhichNothingWasRoutedSaysSo) {
  set("HDF5_DRIVER", "scr");
  Session session(file_system());
  auto opened = session.open(directory_ / "outside.h5", OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(opened->file->close().ok());
  ::testing::internal::CaptureStderr();
  session.finish();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("not routed: 1 it is not below SCR_PREFIX"));
  ::testing::internal::CaptureStderr();
  session.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// --- threads

// A file whose close() lets something happen first, if it was written to; once.
class SlowToClose final : public testing::ForwardingFile {
 public:
  SlowToClose(std::unique_ptr<File> inner, std::function<void()>& before)
      : ForwardingFile(std::move(inner)), before_(before) {}
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
    written_ = true;
    return ForwardingFile::write_some(data, offset);
  }
  Status close() override {
    if (written_ && before_) std::exchange(before_, {})();
    return ForwardingFile::close();
  }

 private:
  std::function<void()>& before_;
  bool written_ = false;
};

class SlowFileSystem final : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, inner_.open(at, options));
    if (!before_close || !at.path.ends_with("log.h5")) return file;
    file = std::make_unique<SlowToClose>(std::move(file), before_close);
    return file;
  }
  std::function<void()> before_close;  // of a "log.h5"
};

TEST_F(SessionTest, AFileThatOneThreadClosesIsNotMovedToItsNameByAnother) {
  SlowFileSystem fs;
  Session session(fs);
  std::thread other;
  // A collective point in another thread, where files that were flushed and are open move.
  fs.before_close = [&] {
    std::atomic<bool> voted = false;
    other = std::thread([&session, &voted] {
      (void)session.vote();
      voted = true;
    });
    while (!voted) std::this_thread::yield();
  };
  auto opened = session.open(name("log.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  fill(*opened, "one");
  ASSERT_TRUE(opened->routed->flush_hint().ok());
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(opened->file->close().ok());
  other.join();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(read(session, "log.h5"), "one");
  session.finish();
  EXPECT_EQ(real("log.h5"), "one");
}

// --- programs

TEST(ProgramName, IsTheExecutableAndTheScriptOfAnInterpreter) {
  EXPECT_EQ(program_name("/usr/bin/solver", std::vector<std::string>{"solver", "x.py"}), "solver");
  const std::vector<std::string> script = {"python3", "-u", "/home/me/run.py", "1"};
  EXPECT_EQ(program_name("/usr/bin/python3.11", script), "python3.11 run.py");
  EXPECT_EQ(program_name("/usr/bin/python3.11", std::vector<std::string>{"python3", "-c", "x"}),
            "python3.11");
  EXPECT_EQ(program_name("/opt/shmem_solver", std::vector<std::string>{"shmem_solver", "deck"}),
            "shmem_solver");
}

}  // namespace
}  // namespace scr::routing
