// What tests of scavenges do harm with.
#pragma once

#include "core/base/hash_file.hpp"
#include "flush/rank_filemap.hpp"
#include "tests/unit/scavenge_fixture.hpp"

namespace scr::flush::testing {

inline std::vector<std::string> in_containers() {
  return {"SCR_USE_CONTAINERS=1", "SCR_CONTAINER_SIZE=700", "SCR_CONTAINER_PARITY=1"};
}

inline void flip(const std::filesystem::path& path, std::int64_t offset) {
  std::string bytes = read_bytes(path);
  ASSERT_FALSE(bytes.empty()) << path;
  const auto at = static_cast<std::size_t>(
      offset < 0 ? static_cast<std::int64_t>(bytes.size()) + offset : offset);
  bytes[at] = static_cast<char>(bytes[at] ^ 64);
  std::ofstream(path, std::ios::binary) << bytes;
}

// What is outside of prefix and caches, and must stay as it is.
class Outside {
 public:
  Outside() { std::ofstream(path() + "/precious") << "precious"; }
  std::string path() const { return root_.path().string(); }
  void expect_untouched() const {
    EXPECT_EQ(ScavengeJob::snapshot(path()),
              (std::map<std::string, std::string>{{"precious", "precious"}}));
  }

 private:
  ::scr::testing::TemporaryDirectory root_;
};

// The names of files in an entry, each replaced by another.
inline void rename_file(Hash& entry, const std::string& from, const std::string& to) {
  Hash* files = entry.get("FILE");
  ASSERT_NE(files, nullptr);
  Hash file = *files->get(from);
  file.get("META")->set_value("FILE", to);
  files->unset(from);
  files->set(to, std::move(file));
}

// Begins a scavenge and stops before it is decided; the test then changes what is in the prefix.
class Stopped {
 public:
  explicit Stopped(ScavengeJob& job) {
    SaveRequest request = job.request();
    const auto run = request.run;
    bool stop = false;
    request.run = [&](const std::vector<std::string>& nodes, const NodeCommand& command) -> Status {
      if (stop) return failed_precondition("stopped");
      const Status status = run(nodes, command);
      stop = command.kind == NodeCommand::Kind::kCopy;
      return stop ? failed_precondition("stopped") : status;
    };
    (void)save_datasets(real_file_system(), request);
    directory = job.dataset_path("scr.dataset.1");
  }
  std::string directory;

  Hash read(int rank) const {
    return read_hash_file(real_file_system(), directory + "/" + rank_filemap_name(rank)).value();
  }
  void write(int rank, const Hash& hash) const {
    ASSERT_TRUE(write_hash_file(real_file_system(), directory + "/" + rank_filemap_name(rank), hash,
                                Durability::kVolatile)
                    .ok());
  }
};

}  // namespace scr::flush::testing
