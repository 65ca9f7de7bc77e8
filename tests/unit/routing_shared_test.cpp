// Sessions: files that several ranks of a program write together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/mpi/in_process_communicator.hpp"
#include "core/routing/shared_open.hpp"
#include "tests/unit/session_fixture.hpp"

namespace scr::routing {
namespace {

using shared_file::Range;
using shared_file::SharedFile;
using ::testing::HasSubstr;

class SharedSessionTest : public SessionTest {
 protected:
  Result<std::unique_ptr<SharedFile>> open_together(Rank& rank, const std::string& file) {
    SharedOpen how;
    how.name = name(file);
    how.write = how.create = true;
    return rank.session.open_shared(rank.world.duplicate(), how);
  }

  // Each rank has one byte of the file.
  static void put(const Rank& rank, SharedFile& file, char value) {
    const Range range{static_cast<std::uint64_t>(rank.world.rank()), 1};
    ASSERT_TRUE(file.write(std::span(&range, 1), bytes_of(std::string(1, value))).ok());
  }

  void write_together(Rank& rank, const std::string& file, char value) {
    auto opened = open_together(rank, file);
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

}  // namespace
}  // namespace scr::routing
