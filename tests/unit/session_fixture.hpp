// Sessions of programs that do not know of h5scr, in a prefix directory and a cache of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "core/routing/session.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::routing {

using testing::TemporaryDirectory;

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    std::filesystem::create_directories(prefix());
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
      ::unsetenv(name);
    set("SCR_PREFIX", prefix());
    set("SCR_CNTL_BASE", directory_ / "control");
    set("SCR_CACHE_BASE", directory_ / "cache");
    set("SCR_JOB_ID", "7");
    set("SCR_FLUSH_ASYNC", "0");
    std::filesystem::create_directories(directory_ / "control");
    std::filesystem::create_directories(directory_ / "cache");
  }
  ~SessionTest() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  std::string prefix() const { return directory_ / "prefix"; }
  std::string name(const std::string& file) const { return prefix() + "/" + file; }

  static void fill(Session::Opened& opened, const std::string& text) {
    ASSERT_TRUE(opened.file->write_all(bytes_of(text), 0).ok());
  }

  void write(Session& session, const std::string& file, const std::string& text) {
    auto opened = session.open(name(file), OpenOptions::create_truncate());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    fill(*opened, text);
    ASSERT_TRUE(opened->file->close().ok());
  }

  void write_second(Session& session, const std::string& text, std::uint64_t offset) {
    auto opened = session.open(name("a.h5"), OpenOptions::read_write());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_TRUE(opened->file->write_all(bytes_of(text), offset).ok());
    ASSERT_TRUE(opened->file->close().ok());
  }

  // What a reader gets; the message if it gets nothing.
  std::string read(Session& session, const std::string& file) {
    auto opened = session.open(name(file), OpenOptions::read());
    if (!opened.ok()) return std::string(opened.status().message());
    auto info = opened->file->info();
    std::string text(info.ok() ? info->size : 0, '\0');
    auto status = opened->file->read_exactly(std::as_writable_bytes(std::span(text)), 0);
    return status.ok() ? text : std::string(status.message());
  }

  // What is at the name for programs without h5scr.
  std::string real(const std::string& file) const {
    std::ifstream stream(name(file), std::ios::binary);
    if (!stream) return "missing";
    std::string text((std::istreambuf_iterator<char>(stream)), {});
    return has_marker_head(bytes_of(text)) ? "marker" : text;
  }

  // The file in the newest dataset of any cache, for damage.
  std::string cached_path(const std::string& file) const {
    std::string newest;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory_.path() / "cache")) {
      if (entry.path().filename() == file && entry.path().string() > newest)
        newest = entry.path().string();
    }
    return newest;
  }

  TemporaryDirectory directory_;

 private:
  std::vector<std::string> set_;
};

// A rank of a program.
struct Rank {
  Session session;
  Communicator& world;

  explicit Rank(Communicator& comm, const std::vector<std::string>& calls = {},
                FileSystem& fs = file_system(), const std::string& host = "node0")
      : session(fs), world(comm) {
    auto runtime = Runtime::start(fs, comm.duplicate(), host,
                                  {.calls = calls, .mode = config::Mode::kTransparent});
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    session.attach(std::move(*runtime), calls);
  }
  // A collective call of the program.
  void look() {
    Session::Vote votes = session.vote();
    world.all_reduce(votes, ReduceOp::kMax);
    session.decide(votes);
  }
};

}  // namespace scr::routing
