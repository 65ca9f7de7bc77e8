// Files of ranks that have changed their nodes between two runs: in which pieces they travel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/node_storage.hpp"
#include "tests/unit/recording_filesystem.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::testing::ElementsAreArray;
using testing::NodeStorage;
using testing::RecordingFileSystem;
using testing::Runs;

// No two bytes in a row are alike, and no two pieces of the sizes below.
std::string bytes_of(int rank, std::uint64_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(i % 251 + static_cast<std::size_t>(rank));
  return bytes;
}

struct MovedFiles : ::testing::Test {
  MovedFiles() {
    job.nodes = {&node0, &node1};
    job.run({}, [&](Runtime& runtime) {
      ASSERT_TRUE(runtime.start_dataset("first", kFlagCheckpoint).ok());
      for (const std::uint64_t size : sizes) {
        const auto path = runtime.route_file(name(runtime, size));
        ASSERT_TRUE(path.ok()) << path.status().to_string();
        std::ofstream(*path) << bytes_of(runtime.context().rank(), size);
      }
      ASSERT_TRUE(runtime.complete_dataset(true).ok());
    });
    // Each rank starts again on the node of the other.
    job.nodes = {&recorder1, &recorder0};
    job.first_node = 1;
  }

  std::string name(const Runtime& runtime, std::uint64_t size) const {
    return fmt::format("{}/size{}.{}", job.prefix(), size, runtime.context().rank());
  }
  void expect_all_bytes(Runtime& runtime) {
    EXPECT_EQ(runtime.have_restart()->value_or(""), "first");
    for (const std::uint64_t size : sizes) {
      const auto path = runtime.route_file(name(runtime, size));
      ASSERT_TRUE(path.ok()) << path.status().to_string();
      std::ostringstream text;
      text << std::ifstream(*path).rdbuf();
      EXPECT_TRUE(text.str() == bytes_of(runtime.context().rank(), size)) << size;
    }
  }
  // What arrived at a node, in the order of the files and of the bytes in them.
  static std::vector<std::uint64_t> pieces(const RecordingFileSystem& node) {
    std::vector<std::uint64_t> lengths;
    for (const auto& write : node.writes()) lengths.push_back(write.length);
    return lengths;
  }

  const std::vector<std::uint64_t> sizes = {0, 1, 4096, 4097, 10000};
  Runs job;
  NodeStorage node0{job.root(), 0};
  NodeStorage node1{job.root(), 1};
  RecordingFileSystem recorder0{".moving.", node0};
  RecordingFileSystem recorder1{".moving.", node1};
};

TEST_F(MovedFiles, TravelInPiecesOfTheSizeThatWasAskedFor) {
  job.run({"SCR_MPI_BUF_SIZE=4097"}, [&](Runtime& runtime) { expect_all_bytes(runtime); });
  const std::vector<std::uint64_t> expected = {1, 4096, 4097, 4097, 4097, 1806};
  EXPECT_THAT(pieces(recorder0), ElementsAreArray(expected));
  EXPECT_THAT(pieces(recorder1), ElementsAreArray(expected));
}

TEST_F(MovedFiles, TravelWholeIfTheyAreSmallerThanAPiece) {
  job.run({"SCR_MPI_BUF_SIZE=1MB"}, [&](Runtime& runtime) { expect_all_bytes(runtime); });
  EXPECT_THAT(pieces(recorder0), ElementsAreArray({1, 4096, 4097, 10000}));
  EXPECT_THAT(pieces(recorder1), ElementsAreArray({1, 4096, 4097, 10000}));
}

}  // namespace
}  // namespace scr
