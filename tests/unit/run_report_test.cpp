#include "core/routing/run_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/mpi/single_communicator.hpp"

namespace scr::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> lines;

class RunReportTest : public ::testing::Test {
 protected:
  RunReportTest() {
    lines.clear();
    log::set_sink([](log::Level, std::string_view line) { lines.emplace_back(line); });
  }
  ~RunReportTest() override { log::set_sink(nullptr); }

  void print() { report_.print(alone_, "/scratch"); }

  RunReport report_;
  SingleCommunicator alone_;
};

TEST_F(RunReportTest, SaysNothingOfARunThatHadNothingToDo) {
  print();
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(RunReportTest, SaysInOneLineWhatWasDone) {
  report_.count_routed();
  report_.count_routed();
  report_.count_bytes(1024);
  report_.count_bytes(1024);
  report_.count_dataset();
  report_.count_flushed();
  print();
  ASSERT_EQ(lines.size(), 1);
  EXPECT_THAT(lines[0], HasSubstr("2 files routed (2KB), 1 datasets protected, 1 flushed to "
                                  "'/scratch'"));
  EXPECT_THAT(lines[0], ::testing::Not(HasSubstr("not routed")));
}

TEST_F(RunReportTest, SaysWhyFilesWereNotRouted) {
  report_.count_passed(Route::Reason::kNoRule, "/scratch/a.h5");
  report_.count_passed(Route::Reason::kNoRule, "/scratch/a.h5");  // H5Fcreate
  report_.count_passed(Route::Reason::kNoRule, "/scratch/b.h5");
  report_.count_passed(Route::Reason::kHint);
  report_.count_passed(Route::Reason::kHint);
  report_.count_moved();
  EXPECT_TRUE(report_.count_past());
  EXPECT_FALSE(report_.count_past());
  print();
  ASSERT_EQ(lines.size(), 1);
  EXPECT_THAT(lines[0],
              HasSubstr("; not routed: 2 no ROUTE rule matches it, 2 a hint of MPI-IO says so, 1 "
                        "moved while open, 2 by another driver of HDF5"));
}

TEST_F(RunReportTest, StartsAnewAfterTheLine) {
  report_.count_routed();
  EXPECT_TRUE(report_.has_routed());
  print();
  EXPECT_FALSE(report_.has_routed());
  print();
  EXPECT_EQ(lines.size(), 1);
}

TEST_F(RunReportTest, AddsUpTheFilesOfAllRanks) {
  InProcessWorld::run(3, [](Communicator& world) {
    RunReport report;
    report.count_routed();
    report.count_dataset();  // each is of all ranks
    report.count_passed(Route::Reason::kOwnFile);
    report.print(world, "/scratch");
  });
  ASSERT_EQ(lines.size(), 1);
  EXPECT_THAT(lines[0], HasSubstr("3 files routed"));
  EXPECT_THAT(lines[0], HasSubstr("1 datasets protected"));
  EXPECT_THAT(lines[0], HasSubstr("3 it is a file of h5scr itself"));
}

TEST_F(RunReportTest, WarnsOnceOfEachThing) {
  report_.warn_once("a", "first");
  report_.warn_once("a", "second");
  report_.warn_once("b", "first");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("a: first"), HasSubstr("b: first")));
}

}  // namespace
}  // namespace scr::routing
