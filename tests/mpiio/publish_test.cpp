// What MPI-IO makes visible, when, and what it says if that fails; over files that only note what
// is done to them. For one process.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/mpiio/file_calls.h"
#include "core/mpiio/open_files.hpp"

namespace scr::mpiio {
namespace {

using shared_file::Range;

std::vector<std::string> events;

class NotingFile final : public shared_file::SharedFile {
 public:
  explicit NotingFile(std::string name) : name_(std::move(name)) {}

  bool fails = false;  // to publish

  Status write(std::span<const Range>, std::span<const std::byte>) override {
    note("write");
    unpublished_ = true;
    return {};
  }
  Result<std::uint64_t> read(std::span<const Range>, std::span<std::byte> data) override {
    note("read");
    return data.size();
  }
  Status publish() override {
    if (!unpublished_) return {};
    if (fails) return internal_error("the home cannot be reached");
    note("publish");
    unpublished_ = false;
    return {};
  }
  bool has_unpublished() const override { return unpublished_; }
  Result<std::uint64_t> size() override {
    note("size");
    return std::uint64_t{0};
  }
  Status set_size(std::uint64_t) override { return publish(); }
  Status reserve(std::uint64_t) override { return publish(); }
  Status sync() override { return publish(); }
  Result<std::uint64_t> advance_pointer(std::uint64_t) override {
    note("pointer");
    return std::uint64_t{0};
  }
  Status set_pointer(std::uint64_t) override { return {}; }
  Status lock() override {
    note("lock");
    return {};
  }
  Status unlock() override {
    note("unlock");
    return {};
  }
  Status close() override { return publish(); }

 private:
  void note(const char* what) { events.push_back(name_ + " " + what); }
  std::string name_;
  bool unpublished_ = false;
};

// A file as MPI_File_open makes it.
class Opened {
 public:
  explicit Opened(const std::string& name) {
    auto noting = std::make_unique<NotingFile>(name);
    bytes_ = noting.get();
    file_ = std::make_shared<OpenFile>(
        OpenFile::Parts{.file = std::move(noting),
                        .comm = MpiCommunicator::duplicate_of(MPI_COMM_SELF),
                        .amode = MPI_MODE_RDWR,
                        .hints = {}});
    EXPECT_EQ(file_->start(MPI_INFO_NULL), MPI_SUCCESS);
    OpenFiles::process().add(file_);
  }
  ~Opened() {
    (void)OpenFiles::process().remove(*file_);
    (void)file_->close();
    MPI_File handle = file_->handle();
    PMPI_File_close(&handle);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  OpenFile* operator->() const { return file_.get(); }
  NotingFile& bytes() const { return *bytes_; }

  int transfer(int way) const {
    char byte = 0;
    std::uint64_t moved = 0;
    return file_->transfer({way, 0, &byte, 1, MPI_BYTE}, moved);
  }

 private:
  std::shared_ptr<OpenFile> file_;
  NotingFile* bytes_;
};

using Events = std::vector<std::string>;

// Of two writes of a rank, nobody may see the second and not the first.
TEST(Publish, ComesBeforeWhateverTellsOthersOfALaterWriteToAnotherFile) {
  const Opened a("a");
  const Opened b("b");
  const auto after_write_to_a = [&](const auto& act) {
    EXPECT_EQ(a.transfer(SCR_WRITE | SCR_EXPLICIT), MPI_SUCCESS);
    events.clear();
    act();
    return events;
  };
  EXPECT_EQ(after_write_to_a([&] { EXPECT_EQ(b.transfer(SCR_WRITE | SCR_SHARED), MPI_SUCCESS); }),
            (Events{"a publish", "b pointer", "b write"}));
  EXPECT_EQ(OpenFiles::process().publish(), MPI_SUCCESS);
  EXPECT_EQ(after_write_to_a([&] { EXPECT_EQ(b.transfer(SCR_READ | SCR_EXPLICIT), MPI_SUCCESS); }),
            (Events{"a publish", "b read"}));
  EXPECT_EQ(after_write_to_a([&] {
              MPI_Offset size = 0;
              EXPECT_EQ(b->get_size(size), MPI_SUCCESS);
            }),
            (Events{"a publish", "b size"}));
  EXPECT_EQ(b->set_atomicity(true), MPI_SUCCESS);
  EXPECT_EQ(after_write_to_a([&] { EXPECT_EQ(b.transfer(SCR_WRITE | SCR_EXPLICIT), MPI_SUCCESS); }),
            (Events{"a publish", "b lock", "b write", "b publish", "b unlock"}));
}

TEST(Publish, ThatFailsFailsTheCollectiveWrite) {
  const Opened a("a");
  a.bytes().fails = true;
  EXPECT_EQ(a.transfer(SCR_WRITE | SCR_EXPLICIT | SCR_COLLECTIVE), MPI_ERR_IO);
  // It is tried again, and not forgotten.
  EXPECT_EQ(a.transfer(SCR_READ | SCR_EXPLICIT), MPI_ERR_IO);
  a.bytes().fails = false;
  EXPECT_EQ(a.transfer(SCR_READ | SCR_EXPLICIT), MPI_SUCCESS);
}

int errors_told = 0;

// Every collective call of a program tries again: a run of hours would print as many lines.
TEST(Publish, ThatFailsIsToldOnceUntilItSucceeds) {
  log::set_sink([](log::Level, std::string_view) { ++errors_told; });
  const Opened a("a");
  for (const int told_after : {1, 2}) {
    a.bytes().fails = true;
    EXPECT_EQ(a.transfer(SCR_WRITE | SCR_EXPLICIT), MPI_SUCCESS);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(a->publish(), MPI_ERR_IO);
      EXPECT_EQ(errors_told, told_after);
    }
    a.bytes().fails = false;
    EXPECT_EQ(a->publish(), MPI_SUCCESS);
  }
  log::set_sink(nullptr);
}

}  // namespace
}  // namespace scr::mpiio

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
