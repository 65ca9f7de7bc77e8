// What somebody at a terminal sees of a flush, a fetch and a rebuild that take a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/node_storage.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::NodeStorage;
using ::testing::Not;
using testing::Runs;

// The first write to a file with a given name takes longer than progress stays unseen.
class SlowNode final : public testing::ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::open(at, options));
    if (at.path.find(part) != std::string::npos)
      file = std::make_unique<SlowFile>(std::move(file), slow);
    return file;
  }
  std::string part;
  std::atomic<bool> slow = false;

 private:
  class SlowFile final : public testing::ForwardingFile {
   public:
    SlowFile(std::unique_ptr<File> inner, std::atomic<bool>& slow)
        : ForwardingFile(std::move(inner)), slow_(slow) {}
    Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
      if (slow_.exchange(false)) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      return ForwardingFile::write_some(data, offset);
    }

   private:
    std::atomic<bool>& slow_;
  };
};

// Standard error is the terminal, or the pipe, whose other end it reads.
class StandardError {
 public:
  explicit StandardError(bool terminal) : saved_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    const int made =
        terminal ? ::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) : ::pipe(ends.data());
    EXPECT_EQ(made, 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    reader_ = std::thread([this, end = ends[0]] {
      std::array<char, 1024> buffer{};
      for (ssize_t n = 0; (n = ::read(end, buffer.data(), buffer.size())) > 0;)
        text_.append(buffer.data(), static_cast<std::size_t>(n));
      ::close(end);
    });
  }
  ~StandardError() { text(); }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  // Ends it: all that was written.
  std::string text() {
    if (reader_.joinable()) {
      ::dup2(saved_, STDERR_FILENO);  // the last that had the other end open
      ::close(saved_);
      reader_.join();
    }
    return text_;
  }

 private:
  int saved_;
  std::string text_;
  std::thread reader_;
};

struct Watched : ::testing::Test {
  Watched() { job.nodes = {&slow0, &node1}; }

  void write(Runtime& runtime) const {
    ASSERT_TRUE(runtime.start_dataset("first", kFlagCheckpoint).ok());
    const auto path =
        runtime.route_file(fmt::format("{}/data.{}", job.prefix(), runtime.context().rank()));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << std::string(600'000, 'x');
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
  }

  // A run in which rank 0 is slow to write a file with `part` in its name; what was to be seen.
  std::string watch(const std::string& part, bool terminal,
                    const std::function<void(Runtime&)>& body) {
    slow0.part = part;
    slow0.slow = true;
    StandardError error(terminal);
    job.run({"SCR_COPY_TYPE=XOR", "SCR_FILE_BUF_SIZE=100KB", "SCR_FLUSH=1"}, body);
    EXPECT_FALSE(slow0.slow) << "nothing was slow";
    return error.text();
  }
  std::string watch_restart(const std::string& part, bool terminal) {
    return watch(part, terminal, [](Runtime& runtime) {
      EXPECT_EQ(runtime.have_restart()->value_or(""), "first");
    });
  }
  void lose(std::initializer_list<int> nodes) const {
    for (const int node : nodes) {
      for (const char* name : {"control", "cache"}) {
        const auto path = fmt::format("{}/{}.node{}", job.root(), name, node);
        std::filesystem::remove_all(path);
        std::filesystem::create_directory(path);
      }
    }
  }

  // The three in turn.
  std::vector<std::string> watch_all(bool terminal) {
    std::vector<std::string> seen;
    seen.push_back(watch("data.0", terminal, [&](Runtime& runtime) { write(runtime); }));
    lose({0});
    seen.push_back(watch_restart(".rebuild.", terminal));
    lose({0, 1});
    seen.push_back(watch_restart("data.0", terminal));
    return seen;
  }

  Runs job;
  NodeStorage node0{job.root(), 0};
  NodeStorage node1{job.root(), 1};
  SlowNode slow0{node0};
};

TEST_F(Watched, OnATerminalShowsBytesRateAndTimeLeftOnOneLine) {
  const auto seen = watch_all(true);
  const std::vector<std::string> names = {"flush", "rebuild", "fetch"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string line = names[i] + " of dataset 1[^\r\n]*: ";
    EXPECT_THAT(seen[i], ContainsRegex("\r" + line + "[0-9.]+ [kM]?B of [0-9.]+ [kM]B " +
                                       "\\([0-9]+%\\), [0-9.]+ [kM]?B/s, [0-9]+ s left\x1b\\[K\r"));
    EXPECT_THAT(seen[i],
                ContainsRegex("\r" + line + "[^\r]*\\(100%\\)[^\r]* s in all\x1b\\[K\r?\n"));
  }
}

TEST_F(Watched, ElsewhereShowsNothing) {
  for (const std::string& text : watch_all(false)) EXPECT_THAT(text, Not(HasSubstr("/s")));
}

}  // namespace
}  // namespace scr
