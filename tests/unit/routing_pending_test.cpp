// Session: names of files whose flush has not ended, and what the program, its commands and others
// do to them meanwhile.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/routing/marker_store.hpp"
#include "tests/unit/session_fixture.hpp"

namespace scr::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace scr::routing
