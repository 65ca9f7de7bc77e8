// Runs of a job on one node, in this process: what tests of the runtime share.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "core/mpi/in_process_communicator.hpp"
#include "core/mpi/single_communicator.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/index.hpp"
#include "tests/unit/run_settings.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::testing {

// Without redundancy. Every dataset has one file a rank, whose bytes say of which it is.
class Runs {
 public:
  static constexpr int kRanks = 2;
  FileSystem* fs = &real_file_system();  // of all ranks
  std::vector<FileSystem*> nodes;        // if given, each rank is on a node of its own, with this
  std::size_t first_node = 0;            // the number of that of rank 0

  Runs() {
    for (const char* name : {"prefix", "control", "cache"}) {
      std::filesystem::create_directory(root_ / name);
    }
  }

  std::string root() const { return root_.path().string(); }
  std::string prefix() const { return root_ / where_; }
  // The runs from here on have another prefix directory.
  void move_to(const std::string& name) {
    where_ = name;
    std::filesystem::create_directory(prefix());
  }

  // One run of the program `body`.
  void run(const std::vector<std::string>& settings, const std::function<void(Runtime&)>& body) {
    start(settings, [&](Result<std::unique_ptr<Runtime>> runtime) {
      ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
      body(**runtime);
    });
  }
  // One that may not begin.
  using Started = std::function<void(Result<std::unique_ptr<Runtime>>)>;
  void start(const std::vector<std::string>& settings, const Started& body) {
    const RunOptions options{.calls = calls(settings)};
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      body(nodes.empty()
               ? Runtime::start(*fs, comm.duplicate(), "node0", options)
               : Runtime::start(*nodes.at(rank), comm.duplicate(),
                                fmt::format("node{}", (rank + first_node) % kRanks), options));
    });
  }
  // A process by itself, of which several may be there at the same time.
  std::unique_ptr<Runtime> start_alone(const std::vector<std::string>& settings = {}) const {
    auto runtime = Runtime::start(*fs, std::make_unique<SingleCommunicator>(), "node0",
                                  {.calls = calls(settings), .alone = true});
    EXPECT_TRUE(runtime.ok()) << runtime.status().to_string();
    return runtime.ok() ? std::move(*runtime) : nullptr;
  }

  void write(Runtime& runtime, const std::string& name, int flags = kFlagCheckpoint) const {
    ASSERT_TRUE(runtime.start_dataset(name, flags).ok());
    const auto path = runtime.route_file(file_of(runtime, name));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    std::ofstream(*path) << name << " of rank " << runtime.context().rank();
    ASSERT_TRUE(runtime.complete_dataset(true).ok());
  }
  void write(const std::string& name, const std::vector<std::string>& settings = {}) {
    run(settings, [&](Runtime& runtime) { write(runtime, name); });
  }

  // Reads what it restarts from, and returns its name; empty if there is nothing.
  std::string restart(Runtime& runtime) const {
    const auto name = runtime.have_restart();
    EXPECT_TRUE(name.ok()) << name.status().to_string();
    if (!name.ok() || !*name) return {};
    const auto path = runtime.route_file(file_of(runtime, **name));
    EXPECT_TRUE(path.ok()) << path.status().to_string();
    std::ostringstream text;
    if (path.ok()) text << std::ifstream(*path).rdbuf();
    EXPECT_EQ(text.str(), fmt::format("{} of rank {}", **name, runtime.context().rank()));
    return **name;
  }
  std::string start_restart(Runtime& runtime) const {
    const auto name = runtime.start_restart();
    return name.ok() ? *name : name.status().to_string();
  }
  void expect_restart(const std::string& name, const std::vector<std::string>& settings = {}) {
    run(settings, [&](Runtime& runtime) { EXPECT_EQ(restart(runtime), name); });
  }

  // The bytes of a rank's file in the prefix directory.
  std::string flushed_text(const std::string& name, int rank) const {
    std::ostringstream text;
    text << std::ifstream(fmt::format("{}/deep/{}/data.{}", prefix(), name, rank)).rdbuf();
    return text.str();
  }
  // Where the only cached copy of a rank's file is; empty if there is none.
  std::filesystem::path cached_file(const std::string& name, int rank) const {
    const std::string end = fmt::format("deep/{}/data.{}", name, rank);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root())) {
      const std::string path = entry.path().string();
      if (path.ends_with(end) && !path.starts_with(prefix() + "/")) return entry.path();
    }
    return {};
  }

  std::vector<std::string> names_in_index() const {
    std::vector<std::string> names;
    const auto index = flush::read_index(real_file_system(), prefix());
    for (const auto& entry : index->entries()) names.push_back(entry.dataset.name);
    return names;
  }

 private:
  std::vector<std::string> calls(const std::vector<std::string>& settings) const {
    return scr::testing::run_settings(root_, prefix(), settings);
  }

  std::string file_of(const Runtime& runtime, const std::string& name) const {
    return fmt::format("{}/deep/{}/data.{}", prefix(), name, runtime.context().rank());
  }

  TemporaryDirectory root_;
  std::string where_ = "prefix";
};

}  // namespace scr::testing
