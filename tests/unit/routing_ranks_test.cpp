// Session: files of several ranks of one program, on one node.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/routing/shared_open.hpp"
#include "tests/unit/session_fixture.hpp"
#include "tests/unit/small_cache.hpp"

namespace scr::routing {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace scr::routing
