// Two complete datasets with one id in the cache: nodes that were away while the id was written
// anew come back. The older one goes only when the newer one is known to be usable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/faulty_filesystem.hpp"
#include "tests/unit/node_storage.hpp"
#include "tests/unit/runtime_runs.hpp"

namespace scr {
namespace {

using ::scr::testing::NodeStorage;
using ::scr::testing::Runs;
using ::testing::HasSubstr;

class DatasetsWithOneId : public ::testing::Test {
 protected:
  // Rank 0 and rank 1 of the run, on a node each.
  void use(FileSystem& first, FileSystem& second) { runs.nodes = {&first, &second}; }
  // Both ranks on one node.
  void use(FileSystem& only) {
    runs.nodes.clear();
    runs.fs = &only;
  }
  std::filesystem::path newer_file(int rank) const { return runs.cached_file("newer", rank); }
  bool has_older() const { return !runs.cached_file("older", 0).empty(); }

  Runs runs;
  NodeStorage a{runs.root(), 0}, b{runs.root(), 1}, c{runs.root(), 2}, d{runs.root(), 3};
};

TEST_F(DatasetsWithOneId, OlderOneIsUsedIfANodeOfTheNewerOneIsLost) {
  use(a);
  runs.write("older");
  use(b, c);
  runs.write("newer");
  use(a, b);
  runs.expect_restart("older");
  runs.expect_restart("older");
}

TEST_F(DatasetsWithOneId, OlderOneIsUsedIfAFileOfTheNewerOneIsDamaged) {
  use(a);
  runs.write("older");
  use(b);
  runs.write("newer");
  std::ofstream(newer_file(1), std::ios::in) << "N";
  use(a, b);
  runs.expect_restart("older");
}

TEST_F(DatasetsWithOneId, NewerOneIsUsedIfItIsWholeAndTheOlderOneGoes) {
  use(a);
  runs.write("older");
  use(b);
  runs.write("newer");
  use(a, b);
  runs.expect_restart("newer");
  EXPECT_FALSE(has_older());
}

TEST_F(DatasetsWithOneId, NewerOneIsUsedIfItCanBeRebuilt) {
  use(a);
  runs.write("older");
  use(b, c);
  runs.write("newer", {"SCR_COPY_TYPE=PARTNER"});
  use(a, b);
  runs.expect_restart("newer");
  EXPECT_FALSE(has_older());
}

TEST_F(DatasetsWithOneId, BothStayIfNeitherCanBeRebuilt) {
  use(a, d);
  runs.write("older");
  use(b, c);
  runs.write("newer");
  use(a, b);
  runs.expect_restart("");
  use(a, d);
  runs.expect_restart("older");
  use(b, c);
  runs.expect_restart("newer");
}

TEST_F(DatasetsWithOneId, BothStayIfTheNewerOneCannotBeReadNow) {
  use(a);
  runs.write("older");
  use(b);
  runs.write("newer");
  FaultPlan plan = FaultPlan::fail_at(1, EIO, FaultPlan::kForever);
  plan.operations = FaultPlan::bit(Operation::kRead);
  plan.path = "*newer/data.1";
  FaultyFileSystem faulty(b, plan);
  use(a, faulty);
  runs.start({}, [](auto runtime) {
    ASSERT_FALSE(runtime.ok());
    EXPECT_THAT(std::string(runtime.status().message()), HasSubstr("Input/output error"));
  });
  EXPECT_TRUE(has_older());
  use(a, b);
  runs.expect_restart("newer");
}

}  // namespace
}  // namespace scr
