// Session: files of programs that do not know of h5scr, in a process by itself and in several ranks
// of one node.
#include "core/routing/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/routing/shared_open.hpp"
#include "core/runtime/program.hpp"
#include "flush/index.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/session_fixture.hpp"
#include "tests/unit/small_cache.hpp"

namespace scr::routing {
namespace {

using ::testing::ElementsAre;
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

// --- names of files that are not flushed yet

// Nothing is flushed before the end of the run.
class PendingTest : public SessionTest {
 protected:
  PendingTest() {
    set("SCR_FLUSH_ASYNC", "1");
    set("SCR_FLUSH_ASYNC_BW", "1");
  }
  // Written without h5scr before all else.
  void put_old(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  static void rename(Session& session, const std::string& from, const std::string& to) {
    auto handled = session.renamed(from, to);
    ASSERT_TRUE(handled.ok()) << handled.status().message();
    if (!*handled) std::filesystem::rename(from, to);
  }
};

TEST_F(PendingTest, AnOldFileThatIsRenamedToTheNameOfANewOneStaysThere) {
  put_old(name("keep.h5"), "kept");
  put_old(directory_ / "outside.h5", "from outside");
  Session session(file_system());
  write(session, "a.h5", "new");
  write(session, "b.h5", "new");
  rename(session, name("keep.h5"), name("a.h5"));
  rename(session, directory_ / "outside.h5", name("b.h5"));
  EXPECT_EQ(read(session, "a.h5"), "kept");
  EXPECT_EQ(read(session, "b.h5"), "from outside");
  session.finish();
  EXPECT_EQ(real("a.h5"), "kept");
  EXPECT_EQ(real("b.h5"), "from outside");
}

TEST_F(PendingTest, AnOldFileThatIsRenamedToTheNameOfANewOneStaysThereAfterAKill) {
  put_old(name("keep.h5"), "kept");
  {
    Session killed(file_system());
    write(killed, "a.h5", "new");
    rename(killed, name("keep.h5"), name("a.h5"));
  }
  Session session(file_system());
  EXPECT_EQ(read(session, "a.h5"), "kept");
  write(session, "z.h5", "z");
  EXPECT_EQ(read(session, "a.h5"), "kept");
  session.finish();
  EXPECT_EQ(real("a.h5"), "kept");
}

// A user puts a backup there, with the time that it has (cp -p), in the run or after a kill.
TEST_F(PendingTest, AnOldFileThatAnotherProgramPutsAtTheNameOfADeletedOneStaysThere) {
  {
    Session killed(file_system());
    write(killed, "a.h5", "new");
    write(killed, "b.h5", "new");
    ASSERT_TRUE(killed.remove(name("a.h5")).ok());
    ASSERT_TRUE(killed.remove(name("b.h5")).ok());
    put_old(name("a.h5"), "backup");
  }
  put_old(name("b.h5"), "backup");
  Session session(file_system());
  write(session, "c.h5", "new");
  ASSERT_TRUE(session.remove(name("c.h5")).ok());
  put_old(name("c.h5"), "backup");
  for (const char* file : {"a.h5", "b.h5", "c.h5"})
    EXPECT_EQ(read(session, file), "backup") << file;
  session.finish();
  for (const char* file : {"a.h5", "b.h5", "c.h5"}) EXPECT_EQ(real(file), "backup") << file;
}

// Killed before the name was taken, or the system has refused the rename.
TEST_F(PendingTest, ANameThatNobodyTakesAfterAllKeepsItsData) {
  std::filesystem::create_directories(name("directory"));
  Session session(file_system());
  write(session, "a.h5", "new");
  auto handled = session.renamed(name("directory"), name("a.h5"));
  EXPECT_FALSE(handled.ok() && *handled);
  EXPECT_EQ(read(session, "a.h5"), "new");
  MarkerStore store(file_system(), prefix());
  auto note = store.find_note("a.h5");
  ASSERT_TRUE(note.ok() && *note);
  ASSERT_TRUE(store.bury_replaced(**note).ok());
  EXPECT_EQ(read(session, "a.h5"), "new");
  session.finish();
  EXPECT_EQ(real("a.h5"), "new");
}

TEST_F(PendingTest, WithAFileThatIsDeletedOrRenamedItsOlderVersionsGo) {
  Session session(file_system());
  write(session, "a.h5", "one");
  write(session, "b.h5", "one");
  auto log = session.open(name("log.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(log.ok());
  write(session, "a.h5", "two");
  write(session, "b.h5", "two");
  ASSERT_TRUE(session.remove(name("a.h5")).ok());
  rename(session, name("b.h5"), name("c.h5"));
  EXPECT_FALSE(session.open(name("a.h5"), OpenOptions::read()).ok());
  EXPECT_FALSE(session.open(name("b.h5"), OpenOptions::read()).ok());
  EXPECT_EQ(read(session, "c.h5"), "two");
  EXPECT_TRUE(log->file->close().ok());
  session.finish();
  EXPECT_EQ(real("a.h5"), "missing");
  EXPECT_EQ(real("b.h5"), "missing");
  EXPECT_EQ(real("c.h5"), "two");
}

TEST_F(PendingTest, WithAFileThatHasMovedToItsNameItsOlderVersionGoes) {
  set("SCR_CACHE_SIZE", "3");
  Session session(file_system());
  write(session, "a.h5", "one");
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  fill(*opened, "two");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(opened->routed->flush_hint().ok());
  EXPECT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "two");
  ASSERT_TRUE(session.remove(name("a.h5")).ok());
  EXPECT_EQ(session.open(name("a.h5"), OpenOptions::read()).status().errno_value(), ENOENT);
  session.finish();
  EXPECT_EQ(real("a.h5"), "missing");
}

TEST_F(PendingTest, AFileThatIsDeletedWhileItIsOpenDoesNotComeBack) {
  Session session(file_system());
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok());
  fill(*opened, "one");
  EXPECT_TRUE(opened->routed->flush_hint().ok());
  ASSERT_TRUE(session.remove(name("a.h5")).ok());
  write(session, "b.h5", "two");
  fill(*opened, "three");
  EXPECT_EQ(real("a.h5"), "missing");
  session.finish();
  EXPECT_TRUE(opened->file->close().ok());
  EXPECT_EQ(real("a.h5"), "missing");
  EXPECT_EQ(real("b.h5"), "two");
}

TEST_F(PendingTest, WhatAKilledRunHasLeftCanBeDeletedFirstOfAll) {
  {
    Session killed(file_system());
    for (const char* file : {"a.h5", "b.h5", "c.h5"}) write(killed, file, "one");
  }
  Session session(file_system());
  EXPECT_EQ(read(session, "c.h5"), "one");
  ASSERT_TRUE(session.remove(name("c.h5")).ok());
  EXPECT_FALSE(session.open(name("c.h5"), OpenOptions::read()).ok());
  session.finish();
  EXPECT_EQ(real("c.h5"), "missing");
  EXPECT_EQ(real("b.h5"), "one");
}

TEST_F(PendingTest, ALinkThatIsDeletedLeavesTheFileThatItLeadsTo) {
  Session session(file_system());
  write(session, "real.h5", "one");
  std::filesystem::create_symlink("real.h5", name("soft.h5"));
  std::filesystem::create_hard_link(name("real.h5"), name("hard.h5"));
  ASSERT_TRUE(session.remove(name("soft.h5")).ok());
  ASSERT_TRUE(session.remove(name("hard.h5")).ok());
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(name("soft.h5"))));
  EXPECT_EQ(real("hard.h5"), "missing");
  EXPECT_EQ(real("real.h5"), "marker");
  EXPECT_EQ(read(session, "real.h5"), "one");
  session.finish();
  EXPECT_EQ(real("real.h5"), "one");
}

// With flushes that do not end before the test lets them.
class SlowFlushTest : public SessionTest {
 protected:
  SlowFlushTest() {
    set("SCR_FLUSH_ASYNC", "1");
    set("SCR_FLUSH_ASYNC_BW", "10");
    set("SCR_CACHE_SIZE", "20");
  }

  // As the preload does it: what the session leaves to the system is done there.
  void rename(Session& session, const std::string& from, const std::string& to,
              Session::Rename how = Session::Rename::kReplace) {
    auto done = session.renamed(name(from), name(to), how);
    ASSERT_TRUE(done.ok()) << done.status().message();
    const unsigned flags = how == Session::Rename::kExchange ? RENAME_EXCHANGE : 0;
    if (!*done) {
      ASSERT_EQ(::renameat2(AT_FDCWD, name(from).c_str(), AT_FDCWD, name(to).c_str(), flags), 0);
    }
  }
  void link(Session& session, const std::string& from, const std::string& to) {
    auto done = session.linked(name(from), name(to));
    ASSERT_TRUE(done.ok()) << done.status().message();
    ASSERT_EQ(::link(name(from).c_str(), name(to).c_str()), 0);
  }
  // In a process by itself, with all flushes ended.
  void finish(Session& session) {
    session.finish();
    const std::filesystem::path notes = name(".scr/markers");
    if (!std::filesystem::exists(notes)) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(notes))
      EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
  // What is below the prefix directory, without h5scr's own files.
  std::vector<std::string> tree() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix())) {
      std::string file = entry.path().string().substr(prefix().size() + 1);
      if (!file.starts_with(".scr") && file != "scr.current") found.push_back(std::move(file));
    }
    std::ranges::sort(found);
    return found;
  }
};

TEST_F(SlowFlushTest, AHardLinkHasTheDataWhateverBecomesOfTheOtherName) {
  Session session(file_system());
  write(session, "a.h5", "one");
  link(session, "a.h5", "a.bak");
  EXPECT_EQ(real("a.bak"), "one");
  ASSERT_TRUE(session.remove(name("a.h5")).ok());
  EXPECT_FALSE(session.open(name("a.h5"), OpenOptions::read()).ok());
  write(session, "a.h5", "two");
  EXPECT_EQ(read(session, "a.bak"), "one");
  EXPECT_EQ(read(session, "a.h5"), "two");
  finish(session);
  EXPECT_EQ(real("a.bak"), "one");
  EXPECT_EQ(real("a.h5"), "two");
  EXPECT_THAT(tree(), ElementsAre("a.bak", "a.h5"));
}

TEST_F(SlowFlushTest, AFileThatStaysAfterALinkKeepsItsDataWhenItsFlushEnds) {
  Session session(file_system());
  write(session, "a.h5", "one");
  link(session, "a.h5", "b.h5");
  finish(session);
  EXPECT_EQ(real("a.h5"), "one");
  EXPECT_EQ(real("b.h5"), "one");
}

// Times are coarse: both may have the same, or the link may be made in the same instant.
TEST_F(SlowFlushTest, AVersionThatIsWrittenAfterALinkOrACommandIsNotLost) {
  Session session(file_system());
  auto kept = session.open(name("kept.h5"), OpenOptions::create_truncate());  // nothing is sealed
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  for (int i = 0; i < 20; ++i) {
    const std::string file = fmt::format("{}.h5", i);
    write(session, file, "1");
    if (i % 2 == 0) link(session, file, file + ".bak");
    if (i % 2 == 1) session.starts_command("h5ls " + file);
    if (i % 2 == 1) session.ends_command();
    write(session, file, "2");
  }
  ASSERT_TRUE(kept->file->close().ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(read(session, fmt::format("{}.h5", i)), "2");
  finish(session);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(real(fmt::format("{}.h5", i)), "2");
  EXPECT_EQ(real("4.h5.bak"), "1");
}

TEST_F(SlowFlushTest, ALinkDoesNotTakeANameThatIsOnlyInTheCache) {
  set("SCR_MARKERS", "off");
  Session session(file_system());
  write(session, "a.h5", "one");
  write(session, "b.h5", "two");
  EXPECT_EQ(real("b.h5"), "missing");
  EXPECT_EQ(session.linked(name("a.h5"), name("b.h5")).status().errno_value(), EEXIST);
  EXPECT_EQ(read(session, "b.h5"), "two");
}

TEST_F(SlowFlushTest, ARenamedDirectoryTakesItsFilesAlong) {
  std::filesystem::create_directories(name("cur"));
  Session session(file_system());
  write(session, "cur/c.h5", "c1");
  write(session, "cur/d.h5", "d1");
  write(session, "current.h5", "not below it");
  rename(session, "cur", "old");
  EXPECT_EQ(real("old/c.h5"), "c1");
  EXPECT_EQ(real("old/d.h5"), "d1");
  EXPECT_EQ(real("current.h5"), "marker");
  EXPECT_FALSE(session.open(name("cur/c.h5"), OpenOptions::read()).ok());
  std::filesystem::create_directories(name("cur"));
  write(session, "cur/c.h5", "c2");
  EXPECT_EQ(read(session, "cur/c.h5"), "c2");
  EXPECT_EQ(read(session, "old/c.h5"), "c1");
  EXPECT_FALSE(session.open(name("cur/d.h5"), OpenOptions::read()).ok());
  finish(session);
  EXPECT_EQ(real("old/c.h5"), "c1");
  EXPECT_EQ(real("old/d.h5"), "d1");
  EXPECT_EQ(real("cur/c.h5"), "c2");
  EXPECT_THAT(tree(), ElementsAre("cur", "cur/c.h5", "current.h5", "old", "old/c.h5", "old/d.h5"));
}

TEST_F(SlowFlushTest, ADirectoryThatIsDeletedOrRenamedDoesNotComeBackWithTheFlush) {
  std::filesystem::create_directories(name("step1"));
  std::filesystem::create_directories(name("step2/deep"));
  Session session(file_system());
  write(session, "step1/a.h5", "a");
  write(session, "step2/deep/b.h5", "b");
  ASSERT_TRUE(session.remove(name("step1/a.h5")).ok());
  EXPECT_EQ(::rmdir(name("step1").c_str()), 0);
  rename(session, "step2", "kept");
  finish(session);
  EXPECT_EQ(real("kept/deep/b.h5"), "b");
  EXPECT_THAT(tree(), ElementsAre("kept", "kept/deep", "kept/deep/b.h5"));
}

TEST_F(SlowFlushTest, ADirectoryWithAFileThatIsOpenTwiceIsBusyAndWithOneThatIsOpenItMoves) {
  std::filesystem::create_directories(name("cur"));
  Session session(file_system());
  auto first = session.open(name("cur/a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(first.ok()) << first.status().message();
  fill(*first, "one");
  auto second = session.open(name("cur/a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(session.renamed(name("cur"), name("old")).status().errno_value(), EBUSY);
  ASSERT_TRUE(second->file->close().ok());
  rename(session, "cur", "old");
  fill(*first, "two");
  ASSERT_TRUE(first->file->close().ok());
  finish(session);
  EXPECT_EQ(real("old/a.h5"), "two");
  EXPECT_THAT(tree(), ElementsAre("old", "old/a.h5"));
}

TEST_F(SlowFlushTest, AFileThatIsRenamedWhileItIsOpenIsWrittenUnderItsNewName) {
  Session session(file_system());
  write(session, "new.h5", "older");
  auto opened = session.open(name("a.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  fill(*opened, "one");
  rename(session, "a.h5", "new.h5");
  ASSERT_TRUE(opened->file->write_all(bytes_of(" more"), 3).ok());
  ASSERT_TRUE(opened->file->close().ok());
  EXPECT_EQ(read(session, "new.h5"), "one more");
  EXPECT_FALSE(session.open(name("a.h5"), OpenOptions::read()).ok());
  finish(session);
  EXPECT_EQ(real("new.h5"), "one more");
  EXPECT_THAT(tree(), ElementsAre("new.h5"));
}

TEST_F(SlowFlushTest, AnExchangeSwapsTheDataOfTwoNames) {
  Session session(file_system());
  write(session, "a.h5", "one");
  write(session, "b.h5", "two");
  rename(session, "a.h5", "b.h5", Session::Rename::kExchange);
  EXPECT_EQ(read(session, "a.h5"), "two");
  EXPECT_EQ(read(session, "b.h5"), "one");
  finish(session);
  EXPECT_EQ(real("a.h5"), "two");
  EXPECT_EQ(real("b.h5"), "one");
}

TEST_F(SlowFlushTest, AnOlderFileThatGetsTheNameOfADeletedOneStaysThere) {
  std::filesystem::create_directories(name("backup"));
  std::filesystem::create_directories(name("new"));
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* file : {"backup/a.h5", "b.bak", "c.bak", "d.bak"}) {
    std::ofstream(name(file)) << "older";
    std::filesystem::last_write_time(name(file), long_ago);
  }
  Session session(file_system());
  for (const char* file : {"new/a.h5", "b.h5", "c.h5", "d.h5"}) write(session, file, "1");
  for (const char* file : {"new/a.h5", "b.h5", "c.h5"})
    ASSERT_TRUE(session.remove(name(file)).ok());
  rename(session, "backup", "new");
  rename(session, "b.bak", "b.h5");
  link(session, "c.bak", "c.h5");
  rename(session, "d.bak", "d.h5", Session::Rename::kExchange);
  EXPECT_EQ(read(session, "d.h5"), "older");
  finish(session);
  for (const char* file : {"new/a.h5", "b.h5", "c.h5", "d.h5"}) EXPECT_EQ(real(file), "older");
  EXPECT_EQ(real("d.bak"), "1");
}

TEST_F(SlowFlushTest, ARenameThatMustNotReplaceFindsWhatIsOnlyInTheCache) {
  set("SCR_MARKERS", "off");
  Session session(file_system());
  write(session, "a.h5", "one");
  write(session, "b.h5", "two");
  const auto how = Session::Rename::kNoReplace;
  EXPECT_EQ(session.renamed(name("a.h5"), name("b.h5"), how).status().errno_value(), EEXIST);
  rename(session, "a.h5", "c.h5", how);
  EXPECT_EQ(read(session, "c.h5"), "one");
  EXPECT_EQ(read(session, "b.h5"), "two");
}

TEST_F(SlowFlushTest, AMarkerThatAnotherProgramHasMovedIsOfItsOwnVersion) {
  set("SCR_FLUSH_ASYNC_BW", "1");  // no flush may end before
  Session session(file_system());
  write(session, "kept.h5", "older");
  write(session, "tmp.h5", "one");
  std::filesystem::rename(name("tmp.h5"), name("kept.h5"));  // by another program
  EXPECT_EQ(read(session, "kept.h5"), "one");
  write(session, "tmp.h5", "two");
  EXPECT_EQ(read(session, "kept.h5"), "one");
  EXPECT_EQ(read(session, "tmp.h5"), "two");
}

TEST_F(SlowFlushTest, WhereAnotherProgramHasTakenAMarkerAwayTheDataStaysAndOneLineSaysSo) {
  Session session(file_system());
  write(session, "a.h5", "one");
  std::filesystem::remove(name("a.h5"));  // by another program
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(session, "a.h5"), "one");
  EXPECT_EQ(read(session, "a.h5"), "one");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("another program has moved or deleted"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  session.finish();
  EXPECT_EQ(real("a.h5"), "one");
}

TEST_F(SlowFlushTest, ACommandFindsTheFilesThatItMayMeanAtTheirNames) {
  std::filesystem::create_directories(name("step"));
  Session session(file_system());
  for (const char* file : {"ckpt.tmp", "step/a.h5", "b.01.h5", "other.h5"})
    write(session, file, "data");
  auto open = session.open(name("open.h5"), OpenOptions::create_truncate());
  ASSERT_TRUE(open.ok()) << open.status().message();
  session.starts_command("mv './ckpt.tmp' ckpt && rm -rf \"$PWD/step\"; ls b.*.h5 open.h5 >log");
  EXPECT_EQ(real("ckpt.tmp"), "data");
  EXPECT_EQ(real("step/a.h5"), "data");
  EXPECT_EQ(real("b.01.h5"), "data");
  EXPECT_EQ(real("other.h5"), "marker");
  EXPECT_EQ(real("open.h5"), "missing");
  std::filesystem::rename(name("ckpt.tmp"), name("ckpt"));
  std::filesystem::remove_all(name("step"));
  session.ends_command();
  EXPECT_EQ(read(session, "ckpt"), "data");
  EXPECT_FALSE(session.open(name("ckpt.tmp"), OpenOptions::read()).ok());
  write(session, "ckpt.tmp", "two");
  EXPECT_EQ(read(session, "ckpt"), "data");
  ASSERT_TRUE(open->file->close().ok());
  finish(session);
  EXPECT_EQ(real("ckpt"), "data");
  EXPECT_EQ(real("ckpt.tmp"), "two");
  EXPECT_THAT(tree(), ElementsAre("b.01.h5", "ckpt", "ckpt.tmp", "open.h5", "other.h5"));
}

// Of a path the last part counts: those before it may be links, and lead to other files.
TEST_F(SlowFlushTest, ACommandGetsTheFilesAtTheEndsOfItsPathsAndNoOthers) {
  std::filesystem::create_directories(name("step"));
  std::filesystem::create_directory_symlink(name("step"), name("latest"));
  Session session(file_system());
  for (const char* file : {"step/a.h5", "step/b.h5", "c.h5"}) write(session, file, "data");
  session.starts_command("tar cf save.tar step/a.h5");
  session.ends_command();
  EXPECT_EQ(real("step/a.h5"), "data");
  EXPECT_EQ(real("step/b.h5"), "marker");
  session.starts_command("h5ls latest/b.h5");
  session.ends_command();
  EXPECT_EQ(real("step/b.h5"), "data");
  EXPECT_EQ(real("c.h5"), "marker");
  session.starts_command("cp -r . ../copy");
  session.ends_command();
  EXPECT_EQ(real("c.h5"), "data");
  finish(session);
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

// --- ranks of one program

using RanksTest = SessionTest;

TEST_F(RanksTest, WindowsAreSealedAtCollectivePointsAlsoWithRanksWithoutFiles) {
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    const std::string own = "c." + std::to_string(comm.rank()) + ".h5";
    if (comm.rank() != 1) write(rank.session, own, own);
    EXPECT_EQ(real(own), comm.rank() != 1 ? "marker" : "missing");
    rank.look();
    EXPECT_EQ(real("c.0.h5"), "c.0.h5");
    EXPECT_EQ(read(rank.session, "c.2.h5"), "c.2.h5");
    rank.session.finish();
  });
}

// Not only the newest dataset is verified at the start: a program may read any.
TEST_F(RanksTest, AfterAKillNoDamagedFileOfAnyCachedDatasetIsRead) {
  set("SCR_CACHE_SIZE", "3");
  set("SCR_FLUSH", "10");
  const std::vector<std::string> calls = {"ROUTE=*.h5 TYPE=CKPT"};
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank killed(comm, calls);
    for (const char* step : {"a", "b"}) {
      write(killed.session, fmt::format("{}.{}.h5", step, comm.rank()), "one");
      killed.look();
    }
    comm.barrier();
  });
  std::ofstream(cached_path("a.0.h5")) << "odd";
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, calls);
    EXPECT_EQ(read(rank.session, "b.0.h5"), "one");
    EXPECT_THAT(read(rank.session, "a.0.h5"), HasSubstr("the data of"));
    if (comm.rank() == 1) {
      EXPECT_EQ(read(rank.session, "a.1.h5"), "one");
    }
    comm.barrier();
  });
}

TEST_F(RanksTest, SettingsOfTheStartAreThoseOfTheDriver) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    const std::vector<std::string> calls = {"ROUTE=c.*.h5 TYPE=CKPT COMPLETE=CLOSE FILES=1"};
    Rank rank(comm, calls);
    EXPECT_TRUE(rank.session.configure(calls).ok());
    const Status other = rank.session.configure({"SCR_DEBUG=1"});
    EXPECT_THAT(other.message(), HasSubstr("HDF5_DRIVER_CONFIG"));
    // COMPLETE=CLOSE: no collective call of the program is needed.
    const std::string own = "c." + std::to_string(comm.rank()) + ".h5";
    write(rank.session, own, own);
    EXPECT_EQ(real(own), own);
    rank.session.finish();
  });
}

TEST_F(RanksTest, AFileThatHadNoRoomInTheCacheCountsAmongThoseThatEveryRankCloses) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    testing::SmallCache full(directory_ / "cache", 0);
    FileSystem& fs = comm.rank() == 0 ? file_system() : static_cast<FileSystem&>(full);
    Rank rank(comm, {"ROUTE=c.*.h5 TYPE=CKPT COMPLETE=CLOSE FILES=1"}, fs);
    const std::string own = "c." + std::to_string(comm.rank()) + ".h5";
    for (const char* text : {"one", "two"}) {
      write(rank.session, own, text);  // rank 0 waits here for the other one
      EXPECT_EQ(real(own), text);
    }
    rank.session.finish();
  });
}

TEST_F(RanksTest, OneRankWithAnOpenFileKeepsTheWindowOpen) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    auto held = comm.rank() == 0 ? rank.session.open(name("log.h5"), OpenOptions::create_truncate())
                                 : Result<Session::Opened>(not_found(""));
    write(rank.session, "c." + std::to_string(comm.rank()) + ".h5", "c");
    rank.look();
    EXPECT_EQ(real("c.1.h5"), "marker");
    comm.barrier();
    if (held.ok()) {
      EXPECT_TRUE(held->file->close().ok());
    }
    rank.look();
    EXPECT_EQ(real("c.1.h5"), "c");
    rank.session.finish();
  });
}

TEST_F(RanksTest, AFileIsPassedOnLikeABatonAndTheNewestVersionIsKept) {
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    for (int turn = 0; turn < 3; ++turn) {
      if (turn == comm.rank() && turn == 0) write(rank.session, "b.h5", "0..");
      if (turn == comm.rank() && turn > 0) {
        auto opened = rank.session.open(name("b.h5"), OpenOptions::read_write());
        ASSERT_TRUE(opened.ok());
        ASSERT_TRUE(
            opened->file
                ->write_all(bytes_of(std::to_string(turn)), static_cast<std::uint64_t>(turn))
                .ok());
        ASSERT_TRUE(opened->file->close().ok());
      }
      comm.barrier();
      EXPECT_EQ(read(rank.session, "b.h5").substr(0, 1), "0");
      comm.barrier();
    }
    rank.look();
    EXPECT_EQ(real("b.h5"), "012");
    rank.session.finish();
  });
}

// The cache of the run before still has it.
TEST_F(RanksTest, AFileThatWasTakenAwayFromItsNameBetweenTwoRunsIsGone) {
  const auto own = [](const Communicator& comm) {
    return "c." + std::to_string(comm.rank()) + ".h5";
  };
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, own(comm), "c");
    rank.look();
    rank.session.finish();
  });
  ASSERT_NE(cached_path("c.1.h5"), "");
  ASSERT_TRUE(std::filesystem::remove(name("c.1.h5")));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    EXPECT_EQ(rank.session.open(name(own(comm)), OpenOptions::read()).ok(), comm.rank() == 0);
    comm.barrier();
  });
}

// popen(): the command is still at work while the program goes on.
TEST_F(RanksTest, WhatTheProgramWritesBesideACommandIsNotTakenForItsWork) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    const auto both = [&](const std::string& text) {
      for (const char* file : {"a.h5", "b.h5"})
        if (comm.rank() == 0) write(rank.session, file, text);
    };
    both("one");
    rank.look();
    if (comm.rank() == 0) rank.session.starts_command("h5ls -r a.h5 b.h5");
    both("two");
    rank.look();  // and flushes
    both("three");
    if (comm.rank() == 0) {
      EXPECT_EQ(real("a.h5"), "two");
      EXPECT_TRUE(rank.session.remove(name("b.h5")).ok());
      rank.session.ends_command();
      EXPECT_EQ(read(rank.session, "a.h5"), "three");
      EXPECT_EQ(real("b.h5"), "missing");
    }
    rank.look();
    rank.session.finish();
  });
  EXPECT_EQ(real("a.h5"), "three");
  EXPECT_EQ(real("b.h5"), "missing");
}

// By an older one, as a user does who goes back to it.
TEST_F(RanksTest, AFlushedFileThatWasReplacedAtItsNameBetweenTwoRunsIsTheOneThatIsThere) {
  std::ofstream(name("older.h5")) << "older";
  std::filesystem::last_write_time(
      name("older.h5"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, comm.rank() == 0 ? "a.h5" : "b.h5", "new");
    rank.look();
    rank.session.finish();
  });
  ASSERT_NE(cached_path("a.h5"), "");
  std::filesystem::rename(name("older.h5"), name("a.h5"));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    EXPECT_EQ(read(rank.session, "a.h5"), "older");
    EXPECT_EQ(read(rank.session, "b.h5"), "new");
    comm.barrier();
    rank.session.finish();
  });
  EXPECT_EQ(real("a.h5"), "older");
}

// Another program: h5scr does not see it do so.
TEST_F(RanksTest, AFileThatComesToTheNameOfARenamedOneStaysThere) {
  std::ofstream(name("older.h5")) << "older";
  std::filesystem::last_write_time(
      name("older.h5"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");  // the flush must not end before
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) write(rank.session, "a.h5", "one");
    rank.look();
    if (comm.rank() == 0) {
      auto renamed = rank.session.renamed(name("a.h5"), name("b.h5"));
      ASSERT_TRUE(renamed.ok()) << renamed.status().message();
      if (!*renamed) std::filesystem::rename(name("a.h5"), name("b.h5"));
      std::filesystem::rename(name("older.h5"), name("a.h5"));
      EXPECT_EQ(read(rank.session, "a.h5"), "older");
      EXPECT_EQ(read(rank.session, "b.h5"), "one");
    }
    rank.look();
    rank.session.finish();
  });
  EXPECT_EQ(real("a.h5"), "older");
  EXPECT_EQ(real("b.h5"), "one");
}

// As shutil.rmtree() does it: it deletes what it finds in the directory, then the directory.
TEST_F(RanksTest, ADirectoryWhoseFilesAreDeletedBesideTheirFlushStaysEmpty) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "10");
  std::filesystem::create_directories(name("d"));
  InProcessWorld::run(1, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, "a.h5", "this takes half a second");
    write(rank.session, "d/b.h5", "b");
    rank.look();
    ASSERT_TRUE(rank.session.remove(name("d/b.h5")).ok());
    for (int look = 0; look < 1000 && real("a.h5") == "marker"; ++look) {
      ASSERT_TRUE(std::filesystem::is_empty(name("d")));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      rank.look();
    }
    EXPECT_EQ(real("a.h5"), "this takes half a second");
    const auto gone = rank.session.unlinked(name("d/.b.h5.scr-1-66092d078d3bf.tmp"));
    EXPECT_TRUE(gone.ok() && *gone);
    const auto other = rank.session.unlinked(name("d/.b.h5.tmp"));
    EXPECT_TRUE(other.ok() && !*other);
    EXPECT_TRUE(std::filesystem::remove(name("d")));
    rank.session.finish();
  });
  EXPECT_FALSE(std::filesystem::exists(name("d")));
}

TEST_F(RanksTest, AFileThatAnotherRankDeletedIsGoneForAll) {
  set("SCR_FLUSH_ASYNC", "1");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, "c." + std::to_string(comm.rank()) + ".h5", "c");
    rank.look();
    if (comm.rank() == 0) {
      EXPECT_TRUE(rank.session.remove(name("c.1.h5")).ok());
    }
    comm.barrier();
    EXPECT_EQ(real("c.1.h5"), "missing");
    rank.session.finish();
    comm.barrier();
    EXPECT_EQ(real("c.1.h5"), "missing");
    EXPECT_EQ(real("c.0.h5"), "c");
  });
}

// --- one file, opened by ranks of a node each by itself, without O_TRUNC

OpenOptions create_or_open() {
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  return options;
}

void write_at(Session::Opened& opened, const std::string& text, std::uint64_t offset) {
  const Status status = opened.file->write_all(bytes_of(text), offset);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(RanksTest, ANewFileThatTwoRanksHaveOpenHasTheBytesOfBoth) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 1) comm.barrier();  // it opens what rank 0 has written and not closed
    auto opened = rank.session.open(name("a.h5"), create_or_open());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    write_at(*opened, std::to_string(comm.rank()), static_cast<std::uint64_t>(comm.rank()));
    if (comm.rank() == 0) comm.barrier();
    comm.barrier();
    EXPECT_TRUE(opened->file->close().ok());
    comm.barrier();
    rank.look();
    EXPECT_EQ(real("a.h5"), "01");
    rank.session.finish();
  });
}

TEST_F(RanksTest, RanksThatMakeOneFileAtTheSameTimeLoseNothing) {
  constexpr int kRounds = 50;
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    for (int round = 0; round < kRounds; ++round) {
      const std::string file = "a" + std::to_string(round) + ".h5";
      auto opened = rank.session.open(name(file), create_or_open());
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      write_at(*opened, std::to_string(comm.rank()), static_cast<std::uint64_t>(comm.rank()));
      EXPECT_TRUE(opened->file->close().ok());
    }
    comm.barrier();
    rank.look();
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(real("a" + std::to_string(round) + ".h5"), "012");
    }
    rank.session.finish();
  });
}

TEST_F(RanksTest, RanksThatChangeOneFileInPlaceLoseNothing) {
  std::ofstream(name("a.h5")) << "......";
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    const auto place = static_cast<std::uint64_t>(comm.rank());
    auto opened = rank.session.open(name("a.h5"), OpenOptions::read_write());
    auto again = rank.session.open(name("a.h5"), OpenOptions::read_write());
    ASSERT_TRUE(opened.ok() && again.ok());
    comm.barrier();
    write_at(*opened, std::to_string(comm.rank()), 2 * place);
    write_at(*again, "x", 2 * place + 1);
    EXPECT_TRUE(opened->file->close().ok());
    EXPECT_TRUE(again->file->close().ok());
    comm.barrier();
    rank.look();
    EXPECT_EQ(real("a.h5"), "0x1x2x");
    rank.session.finish();
  });
}

TEST_F(RanksTest, WhatIsLeftOfADeletedFileIsNoPartOfANewOne) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) write(rank.session, "a.h5", "deleted");
    comm.barrier();
    if (comm.rank() == 1) {
      EXPECT_TRUE(rank.session.remove(name("a.h5")).ok());
      auto opened = rank.session.open(name("a.h5"), create_or_open());
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      write_at(*opened, "new", 0);
      EXPECT_TRUE(opened->file->close().ok());
    }
    comm.barrier();
    rank.look();
    EXPECT_EQ(real("a.h5"), "new");
    rank.session.finish();
  });
}

TEST_F(RanksTest, AFileThatTwoRanksHaveOpenAtTheEndIsWhole) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    auto opened = rank.session.open(name("a.h5"), create_or_open());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto place = static_cast<std::uint64_t>(comm.rank());
    write_at(*opened, std::to_string(comm.rank()), place);
    comm.barrier();
    // Flushed so often that a rank by itself would move it to its name.
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(opened->routed->flush_hint().ok());
    comm.barrier();
    write_at(*opened, "x", 2 + place);
    rank.session.finish();
    comm.barrier();
    EXPECT_EQ(real("a.h5"), "01xx");
  });
}

TEST_F(RanksTest, AFileThatHasMovedToItsNameIsWrittenThereByAllWhoOpenIt) {
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() != 0) comm.barrier();
    auto opened = rank.session.open(name("a.h5"), create_or_open());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto place = static_cast<std::uint64_t>(comm.rank());
    write_at(*opened, std::to_string(comm.rank()), place);
    if (comm.rank() == 0) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(opened->routed->flush_hint().ok());
      comm.barrier();
    }
    comm.barrier();
    if (comm.rank() != 1) write_at(*opened, "x", 3 + place);
    EXPECT_TRUE(opened->file->close().ok());
    comm.barrier();
    rank.look();
    EXPECT_EQ(real("a.h5"), std::string("012x\0x", 6));
    rank.session.finish();
    comm.barrier();
    EXPECT_EQ(real("a.h5"), std::string("012x\0x", 6));
  });
}

TEST_F(RanksTest, AFileThatMovesToItsNameIsFoundThereByWhoOpensItThen) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) {
      auto opened = rank.session.open(name("a.h5"), create_or_open());
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      write_at(*opened, "0", 0);
      comm.barrier();
      comm.barrier();  // rank 1 has closed it
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(opened->routed->flush_hint().ok());
      EXPECT_EQ(real("a.h5"), "01");
      EXPECT_TRUE(opened->file->close().ok());
      comm.barrier();
    } else {
      comm.barrier();
      write_second(rank.session, "1", 1);
      comm.barrier();
      comm.barrier();
      EXPECT_EQ(read(rank.session, "a.h5"), "01");
      write_second(rank.session, "2", 2);
    }
    comm.barrier();
    rank.look();
    EXPECT_EQ(real("a.h5"), "012");
    rank.session.finish();
  });
}

// --- files that ranks open together

SharedOpen shared(const std::string& name) {
  SharedOpen how;
  how.name = name;
  return how;
}

TEST_F(RanksTest, ARankThatCannotLookAtAFileThatAllReadFailsTheOpenForAll) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    FaultyFileSystem faulty(real_file_system(), {});
    Rank rank(comm, {}, comm.rank() == 1 ? static_cast<FileSystem&>(faulty) : file_system());
    if (comm.rank() == 0) write(rank.session, "a.h5", "one");
    comm.barrier();
    // How many times a rank looks at files when it opens this one; the last is at the open file.
    FaultPlan plan;
    plan.operations = FaultPlan::bit(Operation::kInfo);
    faulty.reset(plan);
    EXPECT_EQ(read(rank.session, "a.h5"), "one");
    plan.action = FaultPlan::Action::kFail;
    plan.n = std::max<std::uint64_t>(faulty.operations(), 1);
    faulty.reset(plan);
    const std::shared_ptr<Communicator> file_comm = comm.duplicate();
    auto opened = rank.session.open_shared(file_comm, shared(name("a.h5")));
    EXPECT_FALSE(opened.ok());
    EXPECT_EQ(faulty.hits(), comm.rank() == 1 ? 1U : 0U);
    rank.session.finish();
  });
}

TEST_F(RanksTest, WhereFilesCannotBeSharedMpiNeverOpensAMarker) {
  set("SCR_SERVICE_INTERFACE", "no-such-interface");
  set("SCR_FLUSH", "0");
  InProcessWorld::run(2, [&](Communicator& comm) {
    const std::string cache = directory_ / "cache";
    Rank rank(comm, {"STORE=" + cache + " GROUP=WORLD"}, file_system(),
              "node" + std::to_string(comm.rank()));
    if (comm.rank() == 0) write(rank.session, "a.h5", "one");
    comm.barrier();
    EXPECT_EQ(real("a.h5"), "marker");
    SharedOpen how = shared(name("a.h5"));
    const std::shared_ptr<Communicator> both = comm.duplicate();
    auto opened = rank.session.open_shared(both, how);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("cannot be opened: its data is"));
    how.write = true;
    EXPECT_FALSE(rank.session.open_shared(both, how).ok());
    how = shared(name("new.h5"));
    how.write = how.create = true;
    opened = rank.session.open_shared(both, how);
    EXPECT_TRUE(opened.ok() && *opened == nullptr);
    // A process by itself can read what it can reach.
    const std::shared_ptr<Communicator> self = comm.split(comm.rank(), 0);
    opened = rank.session.open_shared(self, shared(name("a.h5")));
    EXPECT_TRUE(comm.rank() != 0 || (opened.ok() && *opened != nullptr));
    if (opened.ok() && *opened) {
      EXPECT_TRUE((*opened)->close().ok());
    }
    comm.barrier();
    rank.session.finish();
    opened = rank.session.open_shared(both, shared(name("a.h5")));
    EXPECT_FALSE(opened.ok());  // h5scr has ended, and the marker is still there
  });
}

TEST_F(RanksTest, ARunThatCannotReadTheirPartsKeepsFilesOfSeveralInTheCache) {
  set("SCR_FLUSH", "0");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    SharedOpen how = shared(name("a.h5"));
    how.write = how.create = true;
    const std::shared_ptr<Communicator> both = comm.duplicate();
    auto opened = rank.session.open_shared(both, how);
    ASSERT_TRUE(opened.ok() && *opened);
    const shared_file::Range range{static_cast<std::uint64_t>(comm.rank()), 1};
    EXPECT_TRUE((*opened)->write(std::span(&range, 1), bytes_of("x")).ok());
    EXPECT_TRUE((*opened)->close().ok());
    rank.look();
    rank.session.finish();
  });
  set("SCR_FLUSH", "1");
  ::testing::internal::CaptureStderr();
  InProcessWorld::run(2, [&](Communicator& comm) {
    auto runtime = Runtime::start(file_system(), comm.duplicate(), "node0",
                                  {.calls = {}, .mode = config::Mode::kTransparent});
    ASSERT_TRUE(runtime.ok());
    (void)(*runtime)->have_restart();
    (*runtime)->resume_flushes();
    (void)(*runtime)->finalize();
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("it stays in the cache"));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    EXPECT_EQ(read(rank.session, "a.h5"), "xx");
    rank.session.finish();
  });
  EXPECT_EQ(real("a.h5"), "xx");
}

TEST_F(RanksTest, WhereADatasetHasNoIdsLeftFilesOfSeveralArePassedOn) {
  constexpr int kIds = 4096;
  ::testing::internal::CaptureStderr();
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, "own." + std::to_string(comm.rank()), "own");
    if (comm.rank() == 0) {
      for (int i = 1; i < kIds; ++i) {
        auto opened = rank.session.open(name("gone"), OpenOptions::create_truncate());
        ASSERT_TRUE(opened.ok() && rank.session.remove(name("gone")).ok());
      }
    }
    const std::shared_ptr<Communicator> file_comm = comm.duplicate();
    SharedOpen how = shared(name("a.h5"));
    how.write = how.create = true;
    for (int i = 0; i < 2; ++i) {  // the name is free again after the first
      auto opened = rank.session.open_shared(file_comm, how);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      EXPECT_EQ(*opened, nullptr);
    }
    // What is in the cache only cannot be left to MPI.
    SharedOpen old = how;
    old.name = name("own.0");
    auto cached = rank.session.open_shared(file_comm, old);
    EXPECT_THAT(std::string(cached.status().message()), HasSubstr("not at its name"));
    comm.barrier();
    rank.look();
    auto opened = rank.session.open_shared(file_comm, how);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_NE(*opened, nullptr);
    EXPECT_TRUE((*opened)->close().ok());
    rank.session.finish();
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("can have 4096"));
}

TEST_F(RanksTest, MarkersCanBeKeptOutOfTheWay) {
  set("SCR_MARKERS", "off");
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) write(rank.session, "c.h5", "c");
    comm.barrier();
    EXPECT_EQ(real("c.h5"), "missing");
    EXPECT_EQ(read(rank.session, "c.h5"), "c");
    rank.look();
    EXPECT_EQ(read(rank.session, "c.h5"), "c");
    comm.barrier();
  });
}

TEST_F(RanksTest, MarkersCanWaitForTheNextStart) {
  std::ofstream(name(".scrconf")) << "ROUTE=*.h5 TYPE=CKPT\n";
  set("SCR_MARKERS", "init");
  set("SCR_FLUSH", "100");  // it stays in the cache
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank killed(comm);
    if (comm.rank() == 0) write(killed.session, "c.h5", "c");
    killed.look();
    EXPECT_EQ(real("c.h5"), "missing");
    comm.barrier();
  });
  EXPECT_EQ(real("c.h5"), "missing");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank next(comm);
    comm.barrier();
    EXPECT_EQ(real("c.h5"), "marker");
    EXPECT_EQ(read(next.session, "c.h5"), "c");
    comm.barrier();
  });
}

TEST_F(RanksTest, ARealFileThatAppearsWhileAWindowIsOpenIsOlderThanWhatIsWrittenLater) {
  set("SCR_FLUSH_ASYNC", "1");
  set("SCR_FLUSH_ASYNC_BW", "1");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) {
      std::ofstream(name("restart.h5")) << "old";
      write(rank.session, "restart.h5", "new");
    }
    rank.look();
    EXPECT_EQ(real("restart.h5"), "old");
    EXPECT_EQ(read(rank.session, "restart.h5"), "new");
    comm.barrier();
  });
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
