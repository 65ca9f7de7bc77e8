// Sessions: files that several ranks of a program write together.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/read_only_file.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/routing/shared_open.hpp"
#include "flush/containers.hpp"
#include "flush/index.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/session_fixture.hpp"
#include "tests/unit/small_cache.hpp"

namespace scr::routing {
namespace {

using shared_file::Range;
using shared_file::SharedFile;
using ::testing::HasSubstr;
using ::testing::Not;

class SharedSessionTest : public SessionTest {
 protected:
  using Hints = std::map<std::string, std::string>;

  Result<std::unique_ptr<SharedFile>> open_together(Rank& rank, const std::string& file,
                                                    const Hints& hints = {}) {
    SharedOpen how;
    how.name = name(file);
    how.write = how.create = true;
    how.hints = hints;
    return rank.session.open_shared(rank.world.duplicate(), how);
  }

  // Each rank has one byte of the file.
  static void put(const Rank& rank, SharedFile& file, char value) {
    const Range range{static_cast<std::uint64_t>(rank.world.rank()), 1};
    ASSERT_TRUE(file.write(std::span(&range, 1), bytes_of(std::string(1, value))).ok());
  }

  void write_together(Rank& rank, const std::string& file, char value, const Hints& hints = {}) {
    auto opened = open_together(rank, file, hints);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_NE(*opened, nullptr);
    put(rank, **opened, value);
    const Status closed = (*opened)->close();
    ASSERT_TRUE(closed.ok()) << closed.message();
  }
};

// --- restart

const std::vector<std::string> kCheckpoints = {"ROUTE=*.h5 TYPE=CKPT"};

TEST_F(SharedSessionTest, AfterAKillTheNewestOfTwoCachedVersionsIsRead) {
  set("SCR_CACHE_SIZE", "2");
  set("SCR_FLUSH", "10");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank killed(comm, kCheckpoints);
    for (const char value : {'a', 'b'}) {
      write_together(killed, "restart.h5", value);
      killed.look();
    }
    comm.barrier();
  });
  ASSERT_EQ(real("restart.h5"), "marker");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    EXPECT_EQ(read(rank.session, "restart.h5"), "bb");
    comm.barrier();
  });
}

TEST_F(SharedSessionTest, AfterAKillAFlushedVersionIsNotHiddenByAnOlderOneInTheCache) {
  set("SCR_CACHE_SIZE", "2");
  set("SCR_FLUSH", "2");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank killed(comm, kCheckpoints);
    for (const char value : {'a', 'b'}) {
      write_together(killed, "restart.h5", value);
      killed.look();
    }
    comm.barrier();
  });
  ASSERT_EQ(real("restart.h5"), "bb");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    EXPECT_EQ(read(rank.session, "restart.h5"), "bb");
    comm.barrier();
  });
}

// Another process has the older version, so none can tell by its own files alone.
TEST_F(SharedSessionTest, AfterAKillTheNewestVersionIsReadAlsoIfOthersWroteTheOlderOne) {
  set("SCR_CACHE_SIZE", "3");
  set("SCR_FLUSH", "10");
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank killed(comm, kCheckpoints);
    if (comm.rank() == 0) write(killed.session, "restart.h5", "old");
    killed.look();
    const auto others = comm.split(comm.rank() == 0 ? 0 : 1, comm.rank());
    SharedOpen how;
    how.name = name("restart.h5");
    how.write = how.create = true;
    if (comm.rank() != 0) {
      auto opened = killed.session.open_shared(others->duplicate(), how);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      put(killed, **opened, 'b');
      ASSERT_TRUE((*opened)->close().ok());
    }
    killed.look();
    comm.barrier();
  });
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    EXPECT_EQ(read(rank.session, "restart.h5"), "obb");
    comm.barrier();
  });
}

// A program that calls SCR_* itself, on another number of ranks, reads it where it is.
TEST_F(SharedSessionTest, ALostContainerIsRepairedForANativeRestartOnAnotherNumberOfRanks) {
  set("SCR_FLUSH", "1");
  set("SCR_USE_CONTAINERS", "1");
  set("SCR_CONTAINER_PARITY", "1");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_together(rank, "restart.h5", 'a');
    rank.look();
    rank.session.finish();
  });
  std::filesystem::remove_all(directory_ / "cache");
  std::filesystem::remove_all(directory_ / "control");
  const std::string container = prefix() + "/.scr/scr.dataset.1/" + flush::container_name(0);
  ASSERT_TRUE(std::filesystem::remove(container));
  for (const char* folder : {"cache", "control"})
    std::filesystem::create_directory(directory_ / folder);
  InProcessWorld::run(3, [&](Communicator& comm) {
    auto runtime = Runtime::start(real_file_system(), comm.duplicate(), "node0", {});
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const auto found = (*runtime)->have_restart();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_TRUE(found->has_value());
  });
  EXPECT_TRUE(std::filesystem::exists(container));
  const auto index = flush::read_index(real_file_system(), prefix());
  EXPECT_TRUE(index->entries().front().failed.empty());
}

// --- long names

TEST_F(SharedSessionTest, AFileWhoseNameIsTooLongForLogsIsOpenedByMpi) {
  set("SCR_FLUSH", "1");
  const std::string longest(241, 'n');
  ::testing::internal::CaptureStderr();
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    for (const std::size_t length : {242U, 245U, 255U}) {
      auto opened = open_together(rank, std::string(length, 'n'));
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      EXPECT_EQ(*opened, nullptr);
    }
    write_together(rank, longest, 'a');
    rank.look();
    rank.session.finish();
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("too long for that of a log"));
  EXPECT_EQ(real(longest), "aa");
}

// --- deleted files in containers

TEST_F(SharedSessionTest, ADeletedFileOfAContainerIsNotFoundAgain) {
  set("SCR_FLUSH", "1");
  set("SCR_USE_CONTAINERS", "1");
  const auto in_a_run = [&](const std::function<void(Rank&)>& body) {
    InProcessWorld::run(2, [&](Communicator& comm) {
      Rank rank(comm);
      body(rank);
      comm.barrier();
      rank.look();
      rank.session.finish();
    });
  };
  const auto exists = [&](Rank& rank, const std::string& file) {
    return rank.session.open(name(file), OpenOptions::read()).ok();
  };
  in_a_run([&](Rank& rank) {
    write_together(rank, "together.h5", 'a');
    if (rank.world.rank() == 0) write(rank.session, "single.h5", "text");
    rank.look();
    if (rank.world.rank() == 0) {
      for (const char* file : {"together.h5", "single.h5"}) {
        ASSERT_TRUE(exists(rank, file)) << file;
        ASSERT_TRUE(rank.session.remove(name(file)).ok());
        EXPECT_FALSE(exists(rank, file)) << file;
      }
    }
    rank.world.barrier();
    for (const char* file : {"together.h5", "single.h5"}) EXPECT_FALSE(exists(rank, file)) << file;
  });
  in_a_run([&](Rank& rank) {
    for (const char* file : {"together.h5", "single.h5"}) EXPECT_FALSE(exists(rank, file)) << file;
  });
}

// Deleted while they are only in the cache: the flush brings their bytes to a container, and there
// nobody finds them, neither the rest of the run, nor those that come later, with or without
// caches.
class DeletedBeforeItsFlush : public SharedSessionTest {
 protected:
  static inline const std::vector<std::string> kDeleted = {"together.h5", "single.h5", "mine.1.h5"};

  DeletedBeforeItsFlush() {
    set("SCR_FLUSH", "10");  // at the end
    set("SCR_USE_CONTAINERS", "1");
  }

  // All are sealed in one dataset; then rank 0 deletes.
  void write_and_delete(Rank& rank) {
    const int own = rank.world.rank();
    write_together(rank, "together.h5", 'a');
    write_together(rank, "kept together.h5", 'k');
    if (own == 0) write(rank.session, "single.h5", "text");
    write(rank.session, "mine." + std::to_string(own) + ".h5", "text");
    rank.look();
    ASSERT_FALSE(std::filesystem::exists(prefix() + "/.scr/scr.dataset.1"));
    if (own == 0) {
      for (const std::string& file : kDeleted) ASSERT_TRUE(rank.session.remove(name(file)).ok());
    }
    rank.world.barrier();
    expect_gone(rank.session);
  }
  void expect_gone(Session& session) {
    for (const std::string& file : kDeleted) {
      EXPECT_FALSE(session.open(name(file), OpenOptions::read()).ok()) << file;
      EXPECT_EQ(real(file), "missing") << file;
    }
    EXPECT_EQ(read(session, "kept together.h5"), "kk");
    EXPECT_EQ(read(session, "mine.0.h5"), "text");
  }
  void expect_gone_in_a_run() {
    InProcessWorld::run(2, [&](Communicator& comm) {
      Rank rank(comm, kCheckpoints);
      expect_gone(rank.session);
      comm.barrier();
      rank.session.finish();
    });
  }
  void expect_gone_for_all_that_come() {
    ASSERT_TRUE(std::filesystem::exists(prefix() + "/.scr/scr.dataset.1/ctr.0.scr"));
    expect_gone_in_a_run();
    Session tool(real_file_system());  // like h5dump
    expect_gone(tool);
    for (const char* folder : {"cache", "control"}) {
      std::filesystem::remove_all(directory_ / folder);
      std::filesystem::create_directory(directory_ / folder);
    }
    expect_gone_in_a_run();
  }
};

TEST_F(DeletedBeforeItsFlush, DoesNotComeBackFromAContainer) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_and_delete(rank);
    comm.barrier();
    rank.session.finish();
  });
  expect_gone_for_all_that_come();
}

TEST_F(DeletedBeforeItsFlush, DoesNotComeBackFromAContainerThatTheNextRunWrites) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank killed(comm, kCheckpoints);
    write_and_delete(killed);
    comm.barrier();
  });
  expect_gone_in_a_run();  // and flushes
  expect_gone_for_all_that_come();
}

// --- the end of the run

// Python closes files after MPI_Finalize, and may read from them until then.
TEST_F(SharedSessionTest, AFileThatIsReadAfterTheEndComesFromWhereItWasFlushedTo) {
  set("SCR_FLUSH", "10");  // at the end
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    auto file = open_together(rank, "f.h5");
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto put_far = [&](std::uint64_t at, const std::string& text) {
      const Range range{at, text.size()};
      ASSERT_TRUE((*file)->write(std::span(&range, 1), bytes_of(text)).ok());
    };
    // Other stripes, which a reader has not heard of yet.
    put(rank, **file, 'a');
    if (comm.rank() == 1) put_far(shared_file::kStripeSize, "far");
    ASSERT_TRUE((*file)->close().ok());
    rank.look();
    auto opened = rank.session.open(name("f.h5"), OpenOptions::read());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto three = [&](std::uint64_t at) {
      std::string text(3, '\0');
      const Status status = opened->file->read_exactly(std::as_writable_bytes(std::span(text)), at);
      return status.ok() ? text : std::string(status.message());
    };
    EXPECT_EQ(three(0), std::string("aa\0", 3));
    rank.session.finish();
    EXPECT_EQ(three(0), std::string("aa\0", 3));
    EXPECT_EQ(three(shared_file::kStripeSize), "far");
    EXPECT_EQ(opened->file->info()->size, shared_file::kStripeSize + 3);
    ASSERT_TRUE(opened->file->close().ok());
  });
}

TEST_F(SharedSessionTest, AFileThatIsReadAfterTheEndAndWasNotFlushedSaysSo) {
  set("SCR_FLUSH", "0");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_together(rank, "f.h5", 'a');
    rank.look();
    auto opened = rank.session.open(name("f.h5"), OpenOptions::read());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    rank.session.finish();
    EXPECT_THAT(opened->file->info().status().message(), HasSubstr("the run has ended"));
    ASSERT_TRUE(opened->file->close().ok());
  });
}

// --- files that stay open

TEST_F(SharedSessionTest, ASnapshotRuleOnAFileOfSeveralIsWarnedOfOnceAndTheFileGoesToItsName) {
  ::testing::internal::CaptureStderr();
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, {"ROUTE=*.h5 TYPE=OUTPUT SNAPSHOT=1"});
    for (const char* last : {"d", "h"}) {  // the second time it is opened again
      auto file = open_together(rank, "history.h5");
      ASSERT_TRUE(file.ok()) << file.status().message();
      for (char value = static_cast<char>(*last - 3); value <= *last; ++value) {
        put(rank, **file, value);
        ASSERT_TRUE((*file)->sync().ok());
      }
      comm.barrier();
      EXPECT_EQ(real("history.h5"), std::string(2, *last));
      ASSERT_TRUE((*file)->close().ok());
      rank.look();
    }
    rank.session.finish();
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string warning =
      "WARNING: '" + name("history.h5") + "' is not kept at each flush: SNAPSHOT=1 of ROUTE=*.h5";
  const std::size_t first = said.find(warning);
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("SNAPSHOT", first + warning.size()), std::string::npos) << said;
}

// --- names of files that are open

TEST_F(SharedSessionTest, AFileThatIsDeletedWhileItIsOpenIsGoneAndOthersAreSealed) {
  for (const int who : {0, 1}) {
    const std::string gone = "gone" + std::to_string(who) + ".h5";
    const std::string kept = "kept" + std::to_string(who) + ".h5";
    InProcessWorld::run(2, [&](Communicator& comm) {
      Rank rank(comm);
      const auto is_missing = [&] {
        return real(gone) == "missing" && !rank.session.open(name(gone), OpenOptions::read()).ok();
      };
      write_together(rank, gone, 'o');
      rank.look();
      auto file = open_together(rank, gone);
      ASSERT_TRUE(file.ok()) << file.status().message();
      put(rank, **file, 'a');
      ASSERT_TRUE((*file)->sync().ok());
      if (comm.rank() == who) {
        EXPECT_TRUE(rank.session.remove(name(gone)).ok());
      }
      comm.barrier();
      put(rank, **file, 'b');
      ASSERT_TRUE((*file)->close().ok());
      EXPECT_TRUE(is_missing());
      comm.barrier();
      write_together(rank, kept, 'c');
      rank.look();
      EXPECT_EQ(real(kept), "cc");
      EXPECT_TRUE(is_missing());
      comm.barrier();
      rank.session.finish();
    });
  }
}

TEST_F(SharedSessionTest, AFileThatOneRankDeletedIsMadeAnewInTheSameWindow) {
  for (const int who : {0, 1}) {
    for (const bool open : {false, true}) {
      const std::string again = "again" + std::to_string(who) + (open ? "o" : "c") + ".h5";
      InProcessWorld::run(2, [&](Communicator& comm) {
        Rank rank(comm);
        auto file = open_together(rank, again);
        ASSERT_TRUE(file.ok()) << file.status().message();
        put(rank, **file, 'a');
        if (!open) {
          ASSERT_TRUE((*file)->close().ok());
        }
        comm.barrier();
        if (comm.rank() == who) {
          EXPECT_TRUE(rank.session.remove(name(again)).ok());
        }
        comm.barrier();
        if (open) {
          ASSERT_TRUE((*file)->close().ok());
        }
        write_together(rank, again, 'n');
        rank.look();
        EXPECT_EQ(real(again), "nn");
        rank.session.finish();
      });
    }
  }
}

TEST_F(SharedSessionTest, AFileThatWasDeletedAndIsNeverClosedIsGoneAtTheEnd) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    auto file = open_together(rank, "f.h5");
    ASSERT_TRUE(file.ok()) << file.status().message();
    put(rank, **file, 'a');
    comm.barrier();
    if (comm.rank() == 0) {
      EXPECT_TRUE(rank.session.remove(name("f.h5")).ok());
    }
    rank.session.finish();
    comm.barrier();
    EXPECT_EQ(real("f.h5"), "missing");
    ASSERT_TRUE((*file)->close().ok());
  });
}

TEST_F(SharedSessionTest, AFileThatIsOpenIsNeitherRenamedNorChangedInSize) {
  InProcessWorld::run(3, [&](Communicator& comm) {
    Rank rank(comm);
    if (comm.rank() == 0) write(rank.session, "other.h5", "other");
    const auto two = comm.split(comm.rank() < 2 ? 0 : 1, comm.rank());
    std::unique_ptr<SharedFile> file;
    if (comm.rank() < 2) {
      SharedOpen how;
      how.name = name("f.h5");
      how.write = how.create = true;
      auto opened = rank.session.open_shared(two->duplicate(), how);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      file = std::move(*opened);
      put(rank, *file, 'a');
      ASSERT_TRUE(file->sync().ok());
    }
    comm.barrier();
    // Of those that have it open, and of others.
    if (comm.rank() != 1) {
      for (const auto& refused : {rank.session.renamed(name("f.h5"), name("g.h5")),
                                  rank.session.renamed(name("other.h5"), name("f.h5")),
                                  rank.session.truncated(name("f.h5"), 1)}) {
        EXPECT_EQ(refused.status().errno_value(), EBUSY);
        EXPECT_THAT(refused.status().message(), HasSubstr("f.h5' cannot be"));
      }
    }
    comm.barrier();
    if (file) {
      put(rank, *file, 'b');
      ASSERT_TRUE(file->close().ok());
    }
    comm.barrier();
    if (comm.rank() == 2) {
      EXPECT_TRUE(*rank.session.renamed(name("f.h5"), name("g.h5")));
    }
    rank.look();
    EXPECT_EQ(real("g.h5"), "bb");
    EXPECT_EQ(real("other.h5"), "other");
    EXPECT_EQ(real("f.h5"), "missing");
    rank.session.finish();
  });
}

TEST_F(SharedSessionTest, OneRankRenamesADirectoryWithTheFilesOfAllUnlessOneIsOpen) {
  std::filesystem::create_directories(name("cur"));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write(rank.session, fmt::format("cur/{}.h5", comm.rank()), "own");
    write_together(rank, "cur/sealed.h5", 'a');
    rank.look();
    SharedOpen how;
    how.name = name("cur/f.h5");
    how.write = how.create = true;
    auto file = rank.session.open_shared(comm.duplicate(), how);
    ASSERT_TRUE(file.ok()) << file.status().message();
    put(rank, **file, 'b');
    ASSERT_TRUE((*file)->sync().ok());
    comm.barrier();
    if (comm.rank() == 1) {
      EXPECT_EQ(rank.session.renamed(name("cur"), name("old")).status().errno_value(), EBUSY);
    }
    comm.barrier();
    ASSERT_TRUE((*file)->close().ok());
    comm.barrier();
    if (comm.rank() == 1) {
      auto renamed = rank.session.renamed(name("cur"), name("old"));
      ASSERT_TRUE(renamed.ok()) << renamed.status().message();
      ASSERT_FALSE(*renamed);
      std::filesystem::rename(name("cur"), name("old"));
    }
    comm.barrier();
    EXPECT_EQ(read(rank.session, "old/f.h5"), "bb");
    EXPECT_EQ(read(rank.session, "old/sealed.h5"), "aa");
    comm.barrier();
    rank.look();
    rank.session.finish();
  });
  for (const char* file : {"0.h5", "1.h5"}) {
    EXPECT_EQ(real(fmt::format("old/{}", file)), "own");
    EXPECT_EQ(real(fmt::format("cur/{}", file)), "missing");
  }
  EXPECT_EQ(real("old/f.h5"), "bb");
  EXPECT_EQ(real("old/sealed.h5"), "aa");
  EXPECT_EQ(real("cur/f.h5"), "missing");
}

// --- failures

// Does not open a log again while it is told not to.
class UnreopenedLogs final : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    const bool again = options.access != OpenOptions::Access::kRead && !options.create;
    if (fails && again && at.path.ends_with(".scrlog"))
      return errno_status(EMFILE, "open", at.path);
    return inner_.open(at, options);
  }
  bool fails = false;
};

TEST_F(SharedSessionTest, AClosedFileThatOneRankCannotOpenAgainStaysAsItIs) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    UnreopenedLogs fs;
    Rank rank(comm, {}, fs);
    write_together(rank, "f.h5", 'a');
    write_together(rank, "g.h5", 'a');
    fs.fails = comm.rank() == 1;
    for (const char* file : {"f.h5", "g.h5"}) {
      auto opened = open_together(rank, file);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(read(rank.session, file), "aa");
    }
    fs.fails = false;
    comm.barrier();
    write_together(rank, "g.h5", 'b');
    rank.look();
    EXPECT_EQ(real("f.h5"), "aa");
    EXPECT_EQ(real("g.h5"), "bb");
    rank.session.finish();
  });
}

// --- links

TEST_F(SharedSessionTest, WhatRanksWriteThroughALinkIsTheFileBehindIt) {
  std::filesystem::create_symlink("real.h5", name("latest.h5"));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm);
    write_together(rank, "real.h5", 'a');
    rank.look();
    write_together(rank, "latest.h5", 'b');
    rank.look();
    EXPECT_EQ(read(rank.session, "real.h5"), "bb");
    rank.session.finish();
  });
  EXPECT_EQ(real("real.h5"), "bb");
  EXPECT_TRUE(std::filesystem::is_symlink(name("latest.h5")));
}

// --- a cache with little room

class SmallSharedCache : public SharedSessionTest {
 protected:
  static constexpr std::uint64_t kPiece = 300'000;

  // Each rank has its pieces in turn; what all have written is read before each next one.
  static void put_pieces(const Rank& rank, SharedFile& file, int count) {
    const auto ranks = static_cast<std::uint64_t>(rank.world.size());
    const auto mine = static_cast<std::uint64_t>(rank.world.rank());
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
      const std::string text(kPiece, static_cast<char>('a' + i));
      // Some bytes are kept in memory first, and are not in order.
      const Range end{(i * ranks + mine + 1) * kPiece - 10, 10};
      const Range begin{(i * ranks + mine) * kPiece, kPiece - 10};
      for (const Range& range : {end, begin}) {
        const Status status =
            file.write(std::span(&range, 1), bytes_of(text.substr(0, range.length)));
        ASSERT_TRUE(status.ok()) << status.message();
      }
      ASSERT_TRUE(file.publish().ok());
      rank.world.barrier();
      std::string found((i + 1) * ranks * kPiece, '?');
      const Range all{0, found.size()};
      auto got = file.read(std::span(&all, 1), std::as_writable_bytes(std::span(found)));
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_TRUE(found == pieces(rank, static_cast<int>(i) + 1)) << i;
      rank.world.barrier();
    }
  }
  static std::string pieces(const Rank& rank, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += std::string(kPiece * static_cast<std::size_t>(rank.world.size()),
                          static_cast<char>('a' + i));
    }
    return text;
  }
  std::vector<std::string> names_in_prefix() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(prefix()))
      names.push_back(entry.path().filename().string());
    return names;
  }
};

TEST_F(SmallSharedCache, AFileThatHasNoRoomInTheCacheIsWholeAtItsName) {
  InProcessWorld::run(2, [&](Communicator& comm) {
    testing::SmallCache fs(directory_ / "cache", 1'000'000);
    Rank rank(comm, {}, fs);
    auto opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    put_pieces(rank, **opened, 4);
    const Status closed = (*opened)->close();
    ASSERT_TRUE(closed.ok()) << closed.message();
    EXPECT_TRUE(real("f.h5") == pieces(rank, 4));
    EXPECT_TRUE(read(rank.session, "f.h5") == pieces(rank, 4));
    comm.barrier();
    // The others of the window are protected nevertheless, and the next window needs more room.
    write_together(rank, "g.h5", 'g');
    rank.look();
    EXPECT_EQ(read(rank.session, "g.h5"), "gg");
    opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(*opened, nullptr) << "it should be MPI's";
    rank.session.finish();
  });
  EXPECT_THAT(names_in_prefix(),
              ::testing::UnorderedElementsAre(".scr", "scr.current", "f.h5", "g.h5"));
}

TEST_F(SmallSharedCache, AChangedFileThatHasNoRoomInTheCacheKeepsWhatWasNotChanged) {
  std::ofstream(name("f.h5")) << std::string(4 * kPiece, 'x');
  InProcessWorld::run(2, [&](Communicator& comm) {
    testing::SmallCache fs(directory_ / "cache", kPiece);
    Rank rank(comm, {}, fs);
    write_together(rank, "f.h5", 'y');
    rank.session.finish();
  });
  EXPECT_TRUE(real("f.h5") == "yy" + std::string(4 * kPiece - 2, 'x'));
  EXPECT_THAT(names_in_prefix(), ::testing::UnorderedElementsAre(".scr", "f.h5"));
}

TEST_F(SmallSharedCache, WithoutRoomForANewVersionTheOldOneComesToItsNameForMpi) {
  set("SCR_FLUSH", "10");
  InProcessWorld::run(2, [&](Communicator& comm) {
    testing::SmallCache fs(directory_ / "cache", 1'000'000);
    Rank rank(comm, kCheckpoints, fs);
    auto opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    put_pieces(rank, **opened, 1);
    ASSERT_TRUE((*opened)->close().ok());
    rank.look();
    ASSERT_NE(real("f.h5"), pieces(rank, 1));
    opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(*opened, nullptr) << "it should be MPI's";
    EXPECT_TRUE(real("f.h5") == pieces(rank, 1));
    comm.barrier();
    if (comm.rank() == 0) std::ofstream(name("f.h5")) << "newer";
    comm.barrier();
    EXPECT_EQ(read(rank.session, "f.h5"), "newer");
    rank.session.finish();
  });
  EXPECT_EQ(real("f.h5"), "newer") << "the flush at the end has brought the old one";
}

// --- hints of MPI-IO

const std::vector<std::string> kNoRuleForIt = {"ROUTE=*.other TYPE=CKPT"};
const std::map<std::string, std::string> kRoute = {{"scr_route", "1"}};

TEST_F(SharedSessionTest, WhatAHintHasRoutedIsFoundByCallsThatHaveNoHints) {
  set("SCR_FLUSH", "10");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kNoRuleForIt);
    write_together(rank, "f.h5", 'a', kRoute);
    rank.look();
    EXPECT_EQ(real("f.h5"), "marker");
    EXPECT_EQ(read(rank.session, "f.h5"), "aa");
    comm.barrier();
    write_together(rank, "f.h5", 'b');
    rank.look();
    EXPECT_EQ(real("f.h5"), "marker") << "the new version is not in the cache";
    EXPECT_EQ(read(rank.session, "f.h5"), "bb");
    comm.barrier();
  });
  // Another run knows of no hint, but of the file.
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kNoRuleForIt);
    EXPECT_EQ(read(rank.session, "f.h5"), "bb");
    comm.barrier();
    if (comm.rank() == 0) {
      auto opened = rank.session.open(name("f.h5"), OpenOptions::read_write());
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      ASSERT_TRUE(opened->file->write_all(bytes_of("c"), 1).ok());
      ASSERT_TRUE(opened->file->close().ok());
    }
    rank.look();
    EXPECT_EQ(read(rank.session, "f.h5"), "bc");
    comm.barrier();
    if (comm.rank() == 0) {
      const Status removed = rank.session.remove(name("f.h5"));
      EXPECT_TRUE(removed.ok()) << removed.message();
      EXPECT_EQ(real("f.h5"), "missing");
    }
    comm.barrier();
    EXPECT_THAT(read(rank.session, "f.h5"), HasSubstr("No such file"));
    rank.session.finish();
  });
}

TEST_F(SharedSessionTest, AHintThatRoutesNothingDoesNotGiveOutTheMarkerOfACachedFile) {
  set("SCR_FLUSH", "10");
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_together(rank, "f.h5", 'a');
    rank.look();
    ASSERT_EQ(real("f.h5"), "marker");
    auto opened = open_together(rank, "f.h5", {{"scr_route", "0"}});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_NE(*opened, nullptr) << "MPI would open the marker";
    const Range both{0, 2};
    std::string text(2, ' ');
    auto count = (*opened)->read(std::span(&both, 1), std::as_writable_bytes(std::span(text)));
    ASSERT_TRUE(count.ok()) << count.status().message();
    EXPECT_EQ(text, "aa");
    ASSERT_TRUE((*opened)->close().ok());
    // One that is at its name is MPI's.
    auto other = open_together(rank, "g.h5", {{"scr_route", "0"}});
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_EQ(*other, nullptr);
    rank.session.finish();
  });
}

TEST_F(SharedSessionTest, AMarkerIsNotLeftToMpiAlsoWhereNoRuleIsForIt) {
  set("SCR_FLUSH", "10");
  const std::string elsewhere = directory_ / "copy.h5";
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_together(rank, "f.h5", 'a');
    rank.look();
    ASSERT_EQ(real("f.h5"), "marker");
    if (comm.rank() == 0) std::filesystem::copy_file(name("f.h5"), elsewhere);
    comm.barrier();
    SharedOpen how;
    how.name = elsewhere;
    auto opened = rank.session.open_shared(comm.duplicate(), how);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("cannot be opened"));
    how.write = how.create = true;
    EXPECT_FALSE(rank.session.open_shared(comm.duplicate(), how).ok());
    rank.session.finish();
  });
}

// --- modes

TEST_F(SharedSessionTest, AFlushedFileHasTheModeOfTheFileThatItReplaces) {
  std::ofstream(name("f.h5")) << "old";
  ASSERT_EQ(::chmod(name("f.h5").c_str(), 0640), 0);
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    write_together(rank, "f.h5", 'a');
    rank.look();
    rank.session.finish();
  });
  EXPECT_EQ(real("f.h5"), "aad");
  const auto info = file_system().info(name("f.h5"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->mode, 0640U);
}

// --- what MPI refuses

TEST_F(SharedSessionTest, ADirectoryAndAFileOfNoDirectoryAreLeftToMpiWhichRefusesThem) {
  std::filesystem::create_directory(name("d.h5"));
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    for (const char* file : {"d.h5", "no/such/f.h5"}) {
      auto opened = open_together(rank, file);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      EXPECT_EQ(*opened, nullptr) << file;
    }
    rank.session.finish();
  });
  EXPECT_FALSE(std::filesystem::exists(name("no")));
}

// --- the cache is bypassed

TEST_F(SharedSessionTest, WhereTheCacheIsBypassedBySettingThatIsSaid) {
  set("SCR_CACHE_BYPASS", "1");
  ::testing::internal::CaptureStderr();
  InProcessWorld::run(2, [&](Communicator& comm) {
    Rank rank(comm, kCheckpoints);
    auto opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(*opened, nullptr);
    rank.session.finish();
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the cache is bypassed by setting"));
  EXPECT_THAT(said, Not(HasSubstr("no room")));
}

// --- file systems that cannot reserve room

class NeverReserves final : public testing::ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;
  Status allocate(std::uint64_t, std::uint64_t) override { return {}; }
};

class WithoutRoom final : public testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, inner_.open(at, options));
    return std::unique_ptr<File>(std::make_unique<NeverReserves>(std::move(file)));
  }
};

TEST_F(SharedSessionTest, WhatIsPreallocatedHasThatSizeWhereNoRoomCanBeReserved) {
  InProcessWorld::run(1, [&](Communicator& comm) {
    WithoutRoom fs;
    Rank rank(comm, {}, fs);
    auto opened = open_together(rank, "f.h5");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_TRUE((*opened)->reserve(100).ok());
    EXPECT_EQ(*(*opened)->size(), 100U);
    ASSERT_TRUE((*opened)->reserve(50).ok());
    EXPECT_EQ(*(*opened)->size(), 100U);
    ASSERT_TRUE((*opened)->close().ok());
    rank.session.finish();
  });
  EXPECT_EQ(real("f.h5"), std::string(100, '\0'));
}

// --- other nodes

TEST_F(SharedSessionTest, AFileOfAnotherNodeIsReadOnWhenItsDatasetHasLeftTheCache) {
  set("SCR_SERVICE_INTERFACE", "lo");
  set("SCR_CACHE_SIZE", "1");
  InProcessWorld::run(2, [&](Communicator& comm) {
    // Both nodes have one directory for their caches, but ask each other nevertheless.
    const std::string store = "STORE=" + (directory_ / "cache") + " GROUP=WORLD COUNT=1";
    Rank rank(comm, {store}, file_system(), "node" + std::to_string(comm.rank()));
    if (comm.rank() == 0) write(rank.session, "a.h5", "one");
    comm.barrier();
    auto opened = comm.rank() == 1 ? rank.session.open(name("a.h5"), OpenOptions::read())
                                   : Result<Session::Opened>(not_found(""));
    if (comm.rank() == 1) {
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      ASSERT_THAT(opened->file->info()->device, ::testing::Ge(kOwnDevice)) << "not remote";
    }
    rank.look();
    for (const char* next : {"b.h5", "c.h5"}) {
      if (comm.rank() == 0) write(rank.session, next, next);
      rank.look();
    }
    if (comm.rank() == 1) {
      std::string text(3, ' ');
      const Status status = opened->file->read_exactly(std::as_writable_bytes(std::span(text)), 0);
      EXPECT_EQ(text, "one") << status.message();
      EXPECT_TRUE(opened->file->close().ok());
    }
    rank.session.finish();
  });
}

}  // namespace
}  // namespace scr::routing
