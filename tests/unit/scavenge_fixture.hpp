// A job of four nodes with two ranks each, as threads: every node has its own directory under one
// name, so that the runtime writes real filemaps, caches and redundancy files there. Then nodes are
// lost, and what is left is scavenged.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/mpi/in_process_communicator.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/fetch.hpp"
#include "flush/index.hpp"
#include "flush/save.hpp"
#include "tests/unit/forwarding_filesystem.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::flush::testing {

using redundancy::testing::random_bytes;
using redundancy::testing::read_bytes;

// One name, another directory on each node.
class NodeFileSystem final : public ::scr::testing::ForwardingFileSystem {
 public:
  NodeFileSystem(std::string name, std::string real)
      : name_(std::move(name)), real_(std::move(real)) {}

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    return inner_.open(here(at), options);
  }
  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override {
    return inner_.open_directory(here(at), no_follow);
  }
  Result<FileInfo> info(const At& at, bool follow) override {
    return inner_.info(here(at), follow);
  }
  Status make_directory(const At& at, mode_t mode) override {
    return inner_.make_directory(here(at), mode);
  }
  Status remove_directory(const At& at) override { return inner_.remove_directory(here(at)); }
  Status remove(const At& at) override { return inner_.remove(here(at)); }
  Status rename(const At& from, const At& to, bool exclusive) override {
    return inner_.rename(here(from), here(to), exclusive);
  }
  Result<std::vector<DirectoryEntry>> list(const At& at) override { return inner_.list(here(at)); }
  Status sync_directory(const At& at) override { return inner_.sync_directory(here(at)); }
  Result<SpaceInfo> space(const At& at) override { return inner_.space(here(at)); }

 private:
  At here(const At& at) const {
    if (at.directory != nullptr || !at.path.starts_with(name_)) return at;
    return {real_ + at.path.substr(name_.size())};
  }
  std::string name_;
  std::string real_;
};

class ScavengeJob {
 public:
  static constexpr int kNodes = 4;
  static constexpr int kRanksPerNode = 2;
  static constexpr int kRanks = kNodes * kRanksPerNode;

  // Further settings like "SCR_COPY_TYPE=XOR".
  explicit ScavengeJob(std::vector<std::string> settings = {}) : settings_(std::move(settings)) {
    std::filesystem::create_directories(prefix());
    for (int node = 0; node < kNodes; ++node) std::filesystem::create_directories(local(node));
  }

  std::string prefix() const { return root_ / "prefix"; }
  std::string dataset_path(const std::string& name) const { return prefix() + "/.scr/" + name; }
  std::string local(int node) const { return root_ / fmt::format("node{}", node); }
  NodeJob job(int node) const { return {local(node) + "/someone/scr.7", prefix()}; }
  static std::string host(int node) { return fmt::format("node{}", node); }

  static std::string file_name(int step, int rank, int file) {
    if (file == 0) return fmt::format("ckpt.{}/rank_{}.h5", step, rank);
    return fmt::format("ckpt.{}/deep/er/rank_{}.{}", step, rank, file);
  }
  // Sizes differ; some files are empty, and rank 5 has none.
  static std::map<std::string, std::string> files_of(int step, int rank) {
    std::map<std::string, std::string> files;
    if (rank == 5) return files;
    const std::array<std::size_t, 3> sizes = {300U + 37U * static_cast<std::size_t>(rank),
                                              rank % 2 == 0 ? 0U : 1U,
                                              1000U / (1U + static_cast<std::size_t>(rank))};
    for (int file = 0; file < 3; ++file) {
      files[file_name(step, rank, file)] =
          random_bytes(sizes[static_cast<std::size_t>(file)],
                       static_cast<unsigned>(step * 100 + rank * 10 + file));
    }
    return files;
  }

  // Runs the program, which writes these checkpoints (a negative number: an output) and ends as if
  // it were killed.
  void write(const std::vector<int>& steps, const std::vector<std::string>& more = {}) {
    std::vector<std::string> calls = settings_;
    for (const std::string& text :
         {"SCR_PREFIX=" + prefix(), "SCR_CNTL_BASE=" + (root_ / "local"),
          "SCR_CACHE_BASE=" + (root_ / "local"), std::string("SCR_JOB_ID=7"),
          std::string("SCR_USER_NAME=someone"), std::string("SCR_FLUSH=0"),
          std::string("SCR_FETCH=0")})
      calls.push_back(text);
    calls.insert(calls.end(), more.begin(), more.end());
    InProcessWorld::run(kRanks, [&](Communicator& comm) {
      const int node = comm.rank() / kRanksPerNode;
      NodeFileSystem files(root_ / "local", local(node));
      auto runtime = Runtime::start(files, comm.duplicate(), host(node), {.calls = calls});
      ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
      for (const int step : steps) write_step(**runtime, step, comm.rank());
      comm.barrier();
    });
  }

  void lose(int node) {
    std::filesystem::remove_all(local(node));
    lost_.insert(node);
  }

  // The file system of each node's scr_copy, and of scr_scavenge itself.
  std::map<int, FileSystem*> node_fs = {};
  FileSystem* fs = &real_file_system();
  bool down_is_known = true;
  std::vector<NodeCommand> commands = {};  // that were run

  SaveRequest request() {
    SaveRequest request;
    request.job = {"", prefix()};
    for (int node = 0; node < kNodes; ++node) {
      if (!lost_.contains(node)) request.nodes.push_back(host(node));
      if (lost_.contains(node) && down_is_known) request.down.insert(host(node));
    }
    request.copy.buffer = 64;
    request.run = [this](const std::vector<std::string>& nodes, NodeCommand command) -> Status {
      commands.push_back(command);
      for (const std::string& name : nodes) {
        const int node = std::stoi(name.substr(4));
        command.job = job(node);
        const auto found = node_fs.find(node);
        FileSystem& node_files = found == node_fs.end() ? real_file_system() : *found->second;
        (void)run_node_command(node_files, name, command);
      }
      return {};
    };
    return request;
  }

  Result<SaveOutcome> save() { return save_datasets(*fs, request()); }

  // Saves, and expects that the only dataset tried is complete in the prefix directory.
  SavedDataset save_one() {
    auto outcome = save();
    EXPECT_TRUE(outcome.ok()) << outcome.status().to_string();
    if (!outcome.ok() || outcome->datasets.size() != 1) {
      ADD_FAILURE() << "not one dataset was tried";
      return {};
    }
    EXPECT_EQ(outcome->datasets[0].state, SaveState::kSaved) << outcome->datasets[0].message;
    return outcome->datasets[0];
  }

  Index index() const {
    auto index = read_index(real_file_system(), prefix());
    EXPECT_TRUE(index.ok()) << index.status().message();
    return index.ok() ? *index : Index();
  }

  // Every byte of that step's dataset can be read from the prefix directory, by its rank2file.
  void expect_bytes(const std::string& directory, int step) const {
    const auto ranks = read_rank2file_block(real_file_system(), dataset_path(directory), 0);
    ASSERT_TRUE(ranks.ok()) << ranks.status().to_string();
    ASSERT_EQ(ranks->size(), static_cast<std::size_t>(kRanks));
    for (const auto& [rank, files] : *ranks) {
      const std::string target = root_ / fmt::format("fetched/{}", rank);
      std::filesystem::remove_all(target);
      std::filesystem::create_directories(target);
      const Status status = fetch_files(real_file_system(), prefix(), directory, files, target, 64);
      ASSERT_TRUE(status.ok()) << status.to_string();
      std::map<std::string, std::string> found;
      for (const StoredFile& file : files) found[file.file] = read_bytes(target + "/" + file.file);
      EXPECT_EQ(found, files_of(step, rank)) << "rank " << rank;
    }
  }

  // Complete, current, every byte right, nothing left over.
  void expect_saved(const SavedDataset& saved, int step) {
    const Index now = index();
    const IndexEntry* entry = now.find_directory(saved.directory);
    ASSERT_NE(entry, nullptr) << saved.directory << " is not in the index";
    EXPECT_TRUE(entry->complete);
    EXPECT_EQ(now.current(), saved.directory);
    expect_bytes(saved.directory, step);
    EXPECT_THAT(leftovers(), ::testing::IsEmpty());
  }

  // Files below the prefix that only a flush or scavenge that is not over has.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix())) {
      const std::string name = entry.path().filename().string();
      const bool ours = name.find(".tmp") != std::string::npos || name == "flush.scr" ||
                        name.ends_with(".scrfilemap") || name.ends_with(".xor") ||
                        name.ends_with(".rs") || name.ends_with(".partner") ||
                        name.starts_with("scavenge.");
      if (ours) names.push_back(entry.path().string());
    }
    return names;
  }

  // All files below a directory, by their relative paths, but locks.
  static std::map<std::string, std::string> snapshot(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
      files[entry.path().lexically_relative(directory).string()] = read_bytes(entry.path());
    }
    return files;
  }

  // A file in the cache of a node.
  std::filesystem::path cached(int node, const std::string& name) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(local(node))) {
      if (entry.path().filename() == name) return entry.path();
    }
    ADD_FAILURE() << "no '" << name << "' on node " << node;
    return {};
  }

 private:
  void write_step(Runtime& runtime, int step, int rank) {
    const bool output = step < 0;
    const int number = output ? -step : step;
    ASSERT_TRUE(
        runtime
            .start_dataset(fmt::format("step {}", number), output ? kFlagOutput : kFlagCheckpoint)
            .ok());
    for (const auto& [name, bytes] : files_of(number, rank)) {
      auto path = runtime.route_file(prefix() + "/" + name);
      ASSERT_TRUE(path.ok()) << path.status().to_string();
      std::ofstream(*path, std::ios::binary) << bytes;
    }
    const Status status = runtime.complete_dataset(true);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  // To sync a disk takes most of the time of such a test, and what it is for no test can see.
  static bool use_memory() {
    return std::filesystem::is_directory("/dev/shm") && ::setenv("TMPDIR", "/dev/shm", 1) == 0;
  }

  bool in_memory_ = use_memory();
  std::vector<std::string> settings_;
  ::scr::testing::TemporaryDirectory root_;
  std::set<int> lost_;
};

}  // namespace scr::flush::testing
