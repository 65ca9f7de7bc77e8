// A job of four nodes with two ranks each, as threads: every node has its own directory under one
// name, so that the runtime writes real filemaps, caches and redundancy files there. Then nodes are
// lost, and what is left is scavenged.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "core/mpi/in_process_communicator.hpp"
#include "core/runtime/runtime.hpp"
#include "core/shared_file/log.hpp"
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

  // Files that several ranks write together, if the program has such: ranks in turns write pieces
  // of them, some pieces nobody. The first of them lists the file.
  bool shared = false;
  struct SharedContent {
    std::vector<int> ranks;
    std::string bytes;
  };
  static std::map<std::string, SharedContent> shared_files_of(int step) {
    std::map<std::string, SharedContent> files;
    files[fmt::format("ckpt.{}/all.h5", step)] = {{0, 1, 2, 3, 4, 5, 6, 7}, {}};
    files[fmt::format("ckpt.{}/some.h5", step)] = {{2, 3, 6}, {}};
    files[fmt::format("ckpt.{}/own.h5", step)] = {{5}, {}};
    unsigned seed = static_cast<unsigned>(step) * 1000;
    for (auto& [name, file] : files) {
      file.bytes = random_bytes(40 * kPiece + 77 * file.ranks.size(), ++seed);
      for (std::size_t hole = 3; hole * kPiece < file.bytes.size(); hole += 7) {
        const std::size_t length = std::min(kPiece, file.bytes.size() - hole * kPiece);
        file.bytes.replace(hole * kPiece, length, length, '\0');
      }
      file.bytes.append(19, '\0');  // it ends with a hole
    }
    files[fmt::format("ckpt.{}/void.h5", step)] = {{1, 4}, {}};
    return files;
  }

  // What a rank lists in the prefix directory.
  std::map<std::string, std::string> listed_by(int step, int rank) const {
    auto files = files_of(step, rank);
    if (!shared) return files;
    for (const auto& [name, file] : shared_files_of(step)) {
      if (file.ranks.front() == rank) files[name] = file.bytes;
    }
    return files;
  }

  // Runs the program, which writes these checkpoints (a negative number: an output) and ends as if
  // it were killed; in the middle of the last one if it is `cut`.
  void write(const std::vector<int>& steps, const std::vector<std::string>& more = {},
             bool cut = false) {
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
      (*runtime)->use_shared_logs({[this](int dataset) { return log_opener(dataset); }, node});
      for (const int step : steps)
        write_step(**runtime, step, comm.rank(), cut && step == steps.back());
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
  int spares = 0;  // nodes of the allocation that the program did not use
  // Names of nodes in the list of scr_scavenge, which nodes need not know themselves by.
  std::function<std::string(int node)> listed = host;
  std::vector<NodeCommand> commands = {};  // that were run

  SaveRequest request() {
    SaveRequest request;
    request.job = {"", prefix()};
    std::map<std::string, int> numbers;
    for (int node = 0; node < kNodes + spares; ++node) {
      numbers[listed(node)] = node;
      if (!lost_.contains(node)) request.nodes.push_back(listed(node));
      if (lost_.contains(node) && down_is_known) request.down.insert(listed(node));
    }
    request.copy.buffer = 64;
    request.run = [this, numbers](const std::vector<std::string>& nodes,
                                  NodeCommand command) -> Status {
      commands.push_back(command);
      for (const std::string& name : nodes) {
        const int node = numbers.at(name);
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
    auto ranks = read_rank2file_block(real_file_system(), dataset_path(directory), 0);
    ASSERT_TRUE(ranks.ok()) << ranks.status().to_string();
    ASSERT_EQ(ranks->size(), static_cast<std::size_t>(kRanks));
    for (auto& [rank, files] : *ranks) {
      std::erase_if(files, [](const StoredFile& file) { return !file.fetch; });
      for (StoredFile& file : files) {
        EXPECT_EQ(file.shared, shared_files_of(step).contains(file.file)) << file.file;
        file.shared = false;  // or it would not be brought anywhere
      }
      const std::string target = root_ / fmt::format("fetched/{}", rank);
      std::filesystem::remove_all(target);
      std::filesystem::create_directories(target);
      const Status status = fetch_files(real_file_system(), prefix(), directory, files, target, 64);
      ASSERT_TRUE(status.ok()) << status.to_string();
      std::map<std::string, std::string> found;
      for (const StoredFile& file : files) found[file.file] = read_bytes(target + "/" + file.file);
      EXPECT_EQ(found, listed_by(step, rank)) << "rank " << rank;
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

  // Whether the lists of the dataset beside it have that redundancy file.
  static bool is_listed(const std::filesystem::path& file) {
    const auto ranks = read_rank2file_block(real_file_system(), file.parent_path(), 0);
    if (!ranks.ok()) return false;
    for (const auto& [rank, files] : *ranks) {
      for (const StoredFile& stored : files) {
        if (!stored.fetch && stored.file == file.filename()) return true;
      }
    }
    return false;
  }

  // Files below the prefix that only a flush or scavenge that is not over has.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix())) {
      const std::string name = entry.path().filename().string();
      const bool ours =
          name.find(".tmp") != std::string::npos || name == "flush.scr" ||
          name.ends_with(".scrfilemap") || name.ends_with(".partner") ||
          ((name.ends_with(".xor") || name.ends_with(".rs")) && !is_listed(entry.path())) ||
          name.ends_with(".scrlog") || name.starts_with("scavenge.");
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
  static constexpr std::size_t kPiece = 13;

  // The pieces that are this rank's turn and no hole.
  static void write_log(Runtime& runtime, const std::string& name, const SharedContent& file,
                        int rank) {
    const auto turn = std::ranges::find(file.ranks, rank);
    if (turn == file.ranks.end()) return;
    const auto path = runtime.route_log(name);
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    auto log = shared_file::Log::create(real_file_system(), *path);
    ASSERT_TRUE(log.ok()) << log.status().to_string();
    std::vector<shared_file::Extent> entered;
    for (auto piece = static_cast<std::size_t>(turn - file.ranks.begin());
         piece * kPiece < file.bytes.size(); piece += file.ranks.size()) {
      if (piece % 7 == 3) continue;
      const std::string part = file.bytes.substr(piece * kPiece, kPiece);
      const shared_file::Range range{piece * kPiece, part.size()};
      ASSERT_TRUE((*log)->write({&range, 1}, std::as_bytes(std::span(part)), entered).ok());
    }
    shared_file::LogTable table;
    table.rank = static_cast<std::uint32_t>(rank);
    table.first_rank = static_cast<std::uint32_t>(file.ranks.front());
    table.size = file.bytes.size();
    table.written = 1'700'000'000'000'000'000;
    std::ranges::sort(entered, {}, &shared_file::Extent::offset);
    ASSERT_TRUE((*log)->finish(table, entered).ok());
  }

  // Any process of the flush reads any log.
  OpenSharedLog log_opener(int dataset) const {
    return [this, dataset](const std::string& file, const shared_file::LogPlace& place) {
      const int rank = static_cast<int>(place.rank);
      const std::string name =
          fmt::format("index.0/dataset.{}/{}", dataset, shared_file::log_name(file, rank));
      return real_file_system().open(
          fmt::format("{}/someone/scr.7/{}", local(rank / kRanksPerNode), name),
          OpenOptions::read());
    };
  }

  void write_step(Runtime& runtime, int step, int rank, bool cut) {
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
    if (shared) {
      for (const auto& [name, file] : shared_files_of(number)) write_log(runtime, name, file, rank);
    }
    if (cut) return;
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
