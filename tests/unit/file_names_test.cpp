#include "core/routing/file_names.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "tests/unit/temporary_directory.hpp"

namespace scr::routing {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

class FileNamesTest : public ::testing::Test {
 protected:
  FileNamesTest() {
    fs::create_directories(in("run"));
    fs::create_directories(outside());
    names_.use({}, prefix());
  }

  std::string prefix() const { return directory_ / "prefix"; }
  std::string outside() const { return directory_ / "outside"; }
  std::string in(const std::string& name) const { return prefix() + "/" + name; }

  // Only these, as checkpoints.
  void route_only(const std::string& pattern) {
    config::RouteRule rule;
    rule.pattern = pattern;
    rule.type = config::RouteRule::Type::kCheckpoint;
    rules_ = {rule};
    names_.use(rules_, prefix());
  }

  TemporaryDirectory directory_;
  std::vector<config::RouteRule> rules_;
  std::set<std::string> notes_;
  FileNames names_{real_file_system(),
                   [this](const std::string& relative) { return notes_.contains(relative); }};
};

TEST_F(FileNamesTest, TakesTheTextOfAPathWithoutLinks) {
  EXPECT_EQ(names_.absolute_name(prefix() + "//run/./a.h5"), in("run/a.h5"));
  EXPECT_EQ(names_.absolute_name(prefix() + "/run/../a.h5"), in("a.h5"));
  EXPECT_EQ(names_.absolute_name("a.h5"), (fs::current_path() / "a.h5").string());
}

TEST_F(FileNamesTest, GoesUpFromWhereALinkLeads) {
  fs::create_directories(outside() + "/deep");
  fs::create_directory_symlink(outside() + "/deep", in("link"));
  EXPECT_EQ(names_.absolute_name(prefix() + "/link/../a.h5"), outside() + "/a.h5");
  // What does not exist is for the system to say.
  EXPECT_EQ(names_.absolute_name(prefix() + "/none/../a.h5"), prefix() + "/none/../a.h5");
}

TEST_F(FileNamesTest, FollowsLinksToRoutedFiles) {
  fs::create_symlink("run/a.h5", in("latest.h5"));
  fs::create_symlink("latest.h5", in("newest.h5"));
  EXPECT_EQ(names_.file_at(in("newest.h5")), in("run/a.h5"));
}

TEST_F(FileNamesTest, FollowsLinksAsFarAsFilesWouldBeRouted) {
  fs::create_symlink("run/a.h5", in("latest.txt"));
  route_only("*.h5");
  EXPECT_EQ(names_.file_at(in("latest.txt")), in("latest.txt"));
  EXPECT_EQ(names_.file_at(in("latest.txt"), /*all=*/true), in("run/a.h5"));
}

TEST_F(FileNamesTest, DoesNotFollowARingOfLinksForEver) {
  fs::create_symlink("two.h5", in("one.h5"));
  fs::create_symlink("one.h5", in("two.h5"));
  EXPECT_EQ(names_.file_at(in("one.h5")), in("one.h5"));
}

TEST_F(FileNamesTest, RoutesFilesBehindALinkIntoThePrefixDirectory) {
  fs::create_directory_symlink(in("run"), outside() + "/scratch");
  const Route route = names_.route_by_rules(outside() + "/scratch/a.h5");
  EXPECT_TRUE(route.routed());
  EXPECT_EQ(route.relative, "run/a.h5");
}

TEST_F(FileNamesTest, DoesNotRouteFilesBehindALinkOutOfThePrefixDirectory) {
  fs::create_directory_symlink(outside(), in("elsewhere"));
  const Route out = names_.route_by_rules(outside() + "/a.h5");
  EXPECT_EQ(out.reason, Route::Reason::kOutsidePrefix);
  // By the text of its path it is below the prefix directory, and has this name there only.
  EXPECT_EQ(names_.route_by_rules(in("elsewhere/a.h5")).relative, "elsewhere/a.h5");
}

TEST_F(FileNamesTest, GivesAFileTheNameThatItHasWithoutLinks) {
  fs::create_directory_symlink("run", in("link"));
  EXPECT_EQ(names_.route_by_rules(in("link/a.h5")).relative, "run/a.h5");
  route_only("run/*.h5");
  EXPECT_EQ(names_.route_by_rules(in("run/a.h5")).relative, "run/a.h5");
}

TEST_F(FileNamesTest, SeesThatALinkLeadsElsewhereNow) {
  const std::string link = outside() + "/scratch";
  fs::create_directories(in("other"));
  fs::create_directory_symlink(in("run"), link);
  EXPECT_EQ(names_.route_by_rules(link + "/a.h5").relative, "run/a.h5");
  fs::remove(link);
  fs::create_directory_symlink(in("other"), link);
  EXPECT_EQ(names_.route_by_rules(link + "/a.h5").relative, "other/a.h5");
}

TEST_F(FileNamesTest, RoutesWhatAHintHasRoutedOrANoteIsOf) {
  route_only("*.h5");
  EXPECT_FALSE(names_.route_of(in("a.nc")).routed());
  notes_.insert("a.nc");
  EXPECT_EQ(names_.route_of(in("a.nc")).reason, Route::Reason::kHint);
  EXPECT_TRUE(names_.route_of(in("a.nc")).routed());
  EXPECT_FALSE(names_.route_at_open(in("a.nc")).routed());  // without a look for notes
  Route hinted = names_.route_by_rules(in("b.nc"));
  hinted.type = config::RouteRule::Type::kOutput;
  names_.remember(hinted);
  EXPECT_EQ(names_.route_of(in("b.nc")).type, config::RouteRule::Type::kOutput);
  EXPECT_EQ(names_.route_at_open(in("b.nc")).type, config::RouteRule::Type::kOutput);
}

TEST_F(FileNamesTest, HasThePrefixDirectoryOfTheRunWhileThereIsOne) {
  names_.begin_run({}, outside());
  EXPECT_EQ(names_.prefix(), outside());
  EXPECT_TRUE(names_.route_by_rules(outside() + "/a.h5").routed());
  names_.end_run({}, prefix());
  EXPECT_EQ(names_.prefix(), prefix());
  EXPECT_FALSE(names_.route_by_rules(outside() + "/a.h5").routed());
}

}  // namespace
}  // namespace scr::routing
