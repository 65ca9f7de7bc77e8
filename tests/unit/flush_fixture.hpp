// A run of four ranks on two nodes as threads: datasets are written to caches, flushed, lost,
// fetched.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/faulty_filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "tests/unit/redundancy_fixture.hpp"

namespace scr::flush::testing {

using redundancy::testing::crc_of;
using redundancy::testing::random_bytes;
using redundancy::testing::read_bytes;
using redundancy::testing::write_bytes;

inline FlushOptions plain_files() {
  FlushOptions options;
  options.copy.buffer = 64;
  return options;
}

// The stream of the sizes below has 1123 bytes: five containers.
inline FlushOptions containers(std::uint64_t parity = 0) {
  FlushOptions options = plain_files();
  options.containers = true;
  options.container_size = 250;
  options.container_parity = parity;
  return options;
}

class TestRun {
 public:
  static constexpr int kRanks = 4;
  static constexpr int kRanksPerNode = 2;

  // Which file system a rank uses.
  using Faults = std::function<FileSystem&(int rank)>;
  static FileSystem& no_faults(int) { return real_file_system(); }
  static Faults only(int faulty_rank, FileSystem& faulty) {
    return [faulty_rank, &faulty](int rank) -> FileSystem& {
      return rank == faulty_rank ? faulty : real_file_system();
    };
  }

  TestRun() { std::filesystem::create_directories(prefix() + "/.scr"); }

  std::string prefix() const { return root_ / prefix_name_; }
  // The user moves the whole directory.
  void move_prefix(const std::string& name) {
    const std::string before = prefix();
    prefix_name_ = name;
    std::filesystem::rename(before, prefix());
  }
  std::string cache(int rank, int id) const {
    return root_ / fmt::format("cache/node{}/dataset.{}", rank / kRanksPerNode, id);
  }

  // Every rank writes files of different sizes, one of them empty, one deep below.
  DatasetDescriptor write_dataset(int id) {
    DatasetDescriptor dataset;
    dataset.id = id;
    dataset.name = fmt::format("ckpt {}", id);
    dataset.created = 1700000000000000 + id;
    dataset.checkpoint = id;
    dataset.ranks = kRanks;
    dataset.complete = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::filesystem::create_directories(cache(rank, id));
      std::vector<FileMeta>& metas = metas_[id][rank];
      for (const auto& [name, size] : files_of(rank, same_names_ ? 0 : id)) {
        const std::string bytes = random_bytes(size, static_cast<unsigned>(id * 100 + rank * 10) +
                                                         static_cast<unsigned>(metas.size()));
        write_bytes(cache(rank, id) + "/" + name, bytes);
        FileMeta meta;
        meta.file = name;
        meta.complete = true;
        meta.size = size;
        meta.crc = crc_of(bytes);
        meta.mtime_ns = real_file_system().info(cache(rank, id) + "/" + name)->mtime_ns;
        metas.push_back(meta);
        bytes_[id][rank][name] = bytes;
        dataset.size += size;
        dataset.files += 1;
      }
    }
    datasets_[id] = dataset;
    return dataset;
  }

  const DatasetDescriptor& dataset(int id) const { return datasets_.at(id); }
  void set_created(int id, std::int64_t created) { datasets_.at(id).created = created; }
  void leave_out_files(int id, int rank) {
    metas_.at(id).at(rank).clear();
    bytes_.at(id).at(rank).clear();
  }
  // From here on every dataset has the same file names, as of a program that writes restart.h5
  // anew.
  void use_same_names() { same_names_ = true; }

  // How far a flush goes, as if the program were killed there.
  enum class Until { kPrepared, kCopied, kEnd };

  std::vector<Status> flush(int id, const FlushOptions& options, const Faults& faults = no_faults,
                            Until until = Until::kEnd) {
    std::vector<Status> result(kRanks);
    InProcessWorld::run(kRanks, [&](Communicator& world) {
      auto node = world.split(world.rank() / kRanksPerNode, world.rank());
      Status& mine = result[static_cast<std::size_t>(world.rank())];
      auto flush = Flush::prepare(world, *node, faults(world.rank()), prefix(), dataset(id),
                                  cache(world.rank(), id), metas_.at(id).at(world.rank()), options);
      mine = flush.status();
      if (!flush.ok() || until == Until::kPrepared) return;
      (*flush)->copy_in_turns(world);
      if (until == Until::kCopied) return;
      mine = (*flush)->finish(world, *node);
    });
    return result;
  }
  void flush_all(int id, const FlushOptions& options) {
    for (const Status& status : flush(id, options)) ASSERT_TRUE(status.ok()) << status.message();
  }

  // Every rank reads its files from a dataset directory of the prefix to an empty cache. Bytes that
  // differ from those written fail the test.
  std::vector<Status> fetch(const std::string& directory_name, const Faults& faults = no_faults) {
    std::filesystem::remove_all(root_ / "fetched");
    std::vector<Status> result(kRanks);
    InProcessWorld::run(kRanks, [&](Communicator& world) {
      result[static_cast<std::size_t>(world.rank())] =
          fetch_one(world, directory_name, faults(world.rank()));
    });
    return result;
  }
  bool fetches(const std::string& directory_name) {
    for (const Status& status : fetch(directory_name)) {
      if (!status.ok()) return false;
    }
    return true;
  }

  Index index() {
    auto index = read_index(real_file_system(), prefix());
    EXPECT_TRUE(index.ok()) << index.status().message();
    return index.ok() ? *index : Index();
  }
  std::set<std::string> indexed() {
    std::set<std::string> names;
    const Index now = index();
    for (const IndexEntry& entry : now.entries()) {
      if (entry.complete) names.insert(entry.directory);
    }
    return names;
  }
  // What the index calls complete can be fetched, byte by byte.
  void expect_index_tells_the_truth() {
    for (const std::string& name : indexed()) EXPECT_TRUE(fetches(name)) << name;
  }

  // All files below the prefix, but locks.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix())) {
      if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
      files[entry.path().lexically_relative(prefix()).string()] = read_bytes(entry.path());
    }
    return files;
  }
  std::vector<std::string> temporaries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix())) {
      const std::string name = entry.path().filename().string();
      if (name.find(".tmp") != std::string::npos) names.push_back(entry.path().string());
    }
    return names;
  }
  void wipe_caches() { std::filesystem::remove_all(root_ / "cache"); }
  void clear_prefix() {
    std::filesystem::remove_all(prefix());
    std::filesystem::create_directories(prefix() + "/.scr");
  }

 private:
  static std::vector<std::pair<std::string, std::size_t>> files_of(int rank, int id) {
    switch (rank) {
      case 0:
        return {{fmt::format("ckpt.{}/rank_0.h5", id), 300}, {fmt::format("top.{}", id), 1}};
      case 1:
        return {{fmt::format("ckpt.{}/deep/er/rank_1.h5", id), 517}};
      case 2:
        return {};
      default:
        return {{fmt::format("ckpt.{}/rank_3.h5", id), 64},
                {fmt::format("ckpt.{}/empty", id), 0},
                {fmt::format("ckpt.{}/last", id), 241}};
    }
  }

  Status fetch_one(Communicator& world, const std::string& directory_name, FileSystem& fs) {
    const std::string directory = prefix() + "/.scr/" + directory_name;
    Status status;
    std::int64_t id = 0;
    if (world.rank() == 0) {
      auto summary = read_summary(fs, directory);
      status = summary.status();
      if (summary.ok()) id = summary->dataset.id;
    }
    if (!world.all_true(status.ok())) return status.ok() ? internal_error("elsewhere") : status;
    id = world.all_reduce(id, ReduceOp::kMax);
    auto files = read_rank2file(world, fs, directory);
    const bool listed = world.all_true(files.ok());
    if (!files.ok()) return files.status();
    if (!listed) return internal_error("elsewhere");
    const std::string target = root_ / fmt::format("fetched/{}", world.rank());
    std::filesystem::create_directories(target);
    status = fetch_files(fs, prefix(), directory_name, *files, target, 64);
    if (status.ok()) {
      std::map<std::string, std::string> found;
      for (const StoredFile& file : *files) found[file.file] = read_bytes(target + "/" + file.file);
      const auto& written = std::as_const(bytes_).at(static_cast<int>(id));  // by several threads
      const auto mine = written.find(world.rank());
      EXPECT_TRUE(mine == written.end() ? found.empty() : found == mine->second)
          << "wrong bytes accepted from " << directory_name;
    }
    if (!world.all_true(status.ok()) && status.ok()) return internal_error("elsewhere");
    return status;
  }

  // To sync a disk takes most of the time of such a test, and what it is for no test can see.
  static bool use_memory() {
    return std::filesystem::is_directory("/dev/shm") && ::setenv("TMPDIR", "/dev/shm", 1) == 0;
  }

  bool in_memory_ = use_memory();
  ::scr::testing::TemporaryDirectory root_;
  std::string prefix_name_ = "prefix";
  bool same_names_ = false;
  std::map<int, DatasetDescriptor> datasets_;
  std::map<int, std::map<int, std::vector<FileMeta>>> metas_;  // dataset, rank
  std::map<int, std::map<int, std::map<std::string, std::string>>> bytes_;
};

}  // namespace scr::flush::testing
