// Files that stay open and are kept at each flush, in a process by itself. With MPI and HDF5:
// tests/clients/versions.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/routing/session.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/session_fixture.hpp"

namespace scr::routing {
namespace {

using ::testing::HasSubstr;

class SnapshotTest : public SessionTest {
 protected:
  SnapshotTest() { std::ofstream(name(".scrconf")) << "ROUTE=*.h5 TYPE=OUTPUT SNAPSHOT=1\n"; }

  Session::Opened make(Session& session, const std::string& file) {
    auto opened = session.open(name(file), OpenOptions::create_truncate());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(*opened);
  }
};

TEST_F(SnapshotTest, EachFlushIsAVersionAndTheCloseIsTheLast) {
  Session session(file_system());
  Session::Opened opened = make(session, "a.h5");
  fill(opened, "one");
  EXPECT_EQ(real("a.h5"), "missing");
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  EXPECT_EQ(real("a.h5"), "one");
  fill(opened, "two");
  EXPECT_EQ(real("a.h5"), "one");
  EXPECT_EQ(read(session, "a.h5"), "two");  // the process itself reads what it writes
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  EXPECT_EQ(real("a.h5"), "two");
  fill(opened, "three");
  ASSERT_TRUE(opened.file->close().ok());
  EXPECT_EQ(real("a.h5"), "three");
  session.finish();
  EXPECT_EQ(real("a.h5"), "three");
}

TEST_F(SnapshotTest, AFileThatIsOpenAtTheEndGoesToItsName) {
  Session session(file_system());
  Session::Opened opened = make(session, "a.h5");
  fill(opened, "one");
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  fill(opened, "two");
  session.finish();
  EXPECT_EQ(real("a.h5"), "two");
  fill(opened, "six");
  ASSERT_TRUE(opened.file->close().ok());
  EXPECT_EQ(real("a.h5"), "six");
}

TEST_F(SnapshotTest, AllWhoHaveItOpenWriteOneFile) {
  Session session(file_system());
  Session::Opened opened = make(session, "a.h5");
  fill(opened, "one...");
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  auto second = session.open(name("a.h5"), OpenOptions::read_write());
  ASSERT_TRUE(second.ok()) << second.status().message();
  ASSERT_TRUE(second->file->write_all(bytes_of("two"), 3).ok());
  fill(opened, "uno");
  ASSERT_TRUE(second->file->close().ok());
  ASSERT_TRUE(opened.file->close().ok());
  session.finish();
  EXPECT_EQ(real("a.h5"), "unotwo");
}

TEST_F(SnapshotTest, WhileItIsOpenItCanBeDeletedButNotRenamed) {
  Session session(file_system());
  Session::Opened opened = make(session, "a.h5");
  fill(opened, "one");
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  EXPECT_EQ(session.renamed(name("a.h5"), name("b.h5")).status().errno_value(), EBUSY);
  EXPECT_EQ(session.truncated(name("a.h5"), 0).status().errno_value(), EBUSY);
  ASSERT_TRUE(session.remove(name("a.h5")).ok());
  fill(opened, "two");
  ASSERT_TRUE(opened.routed->flush_hint().ok());
  ASSERT_TRUE(opened.file->close().ok());
  session.finish();
  EXPECT_EQ(real("a.h5"), "missing");
}

// Not every snapshot can be written.
class FullAfter : public testing::ForwardingFileSystem {
 public:
  explicit FullAfter(int snapshots) : left_(snapshots) {}
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    if (at.display().ends_with(".scr-snapshot") && left_-- == 0)
      return errno_status(ENOSPC, "open", at.display());
    return ForwardingFileSystem::open(at, options);
  }

 private:
  int left_;
};

TEST_F(SnapshotTest, WhereThereIsNoRoomForOneTheFileGoesToItsName) {
  for (const int snapshots : {0, 1}) {
    const std::string file = "a" + std::to_string(snapshots) + ".h5";
    FullAfter fs(snapshots);
    Session session(fs);
    ::testing::internal::CaptureStderr();
    Session::Opened opened = make(session, file);
    fill(opened, "one");
    ASSERT_TRUE(opened.routed->flush_hint().ok());
    fill(opened, "two");
    ASSERT_TRUE(opened.routed->flush_hint().ok());
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("cannot be kept at each flush"));
    EXPECT_EQ(real(file), "two");
    fill(opened, "six");
    EXPECT_EQ(real(file), "six");
    ASSERT_TRUE(opened.file->close().ok());
    session.finish();
    EXPECT_EQ(real(file), "six");
  }
}

}  // namespace
}  // namespace scr::routing
