#include "core/routing/route_rules.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace scr::routing {
namespace {

using config::RouteRule;
using Reason = Route::Reason;

constexpr std::string_view kPrefix = "/data/run";

RouteRule rule(const std::string& pattern, RouteRule::Type type = RouteRule::Type::kCheckpoint) {
  RouteRule made;
  made.pattern = pattern;
  made.type = type;
  return made;
}

Route decide_one(const std::vector<RouteRule>& rules, std::string_view path) {
  return decide(rules, kPrefix, path);
}

TEST(RouteDecision, WithoutRulesEverythingBelowThePrefixIsACheckpointThatIsKept) {
  const Route route = decide_one({}, "/data/run/out/x.h5");
  EXPECT_TRUE(route.routed());
  EXPECT_EQ(route.type, RouteRule::Type::kCheckpoint);
  EXPECT_TRUE(route.keep_all);
  EXPECT_EQ(route.reason, Reason::kDefault);
  EXPECT_EQ(route.rule, nullptr);
  EXPECT_EQ(route.relative, "out/x.h5");
}

TEST(RouteDecision, FilesOutsideThePrefixAndOurOwnAreNeverRouted) {
  const std::vector<RouteRule> all = {rule("*"), rule("/**")};
  for (const std::vector<RouteRule>& rules : {std::vector<RouteRule>(), all}) {
    EXPECT_EQ(decide_one(rules, "/data/runner/x.h5").reason, Reason::kOutsidePrefix);
    EXPECT_EQ(decide_one(rules, "/tmp/x.h5").reason, Reason::kOutsidePrefix);
    EXPECT_EQ(decide_one(rules, "/data/run").reason, Reason::kOutsidePrefix);
    EXPECT_EQ(decide_one(rules, "/data/run/.scr").reason, Reason::kOwnFile);
    EXPECT_EQ(decide_one(rules, "/data/run/.scr/a/ctr.0.scr").reason, Reason::kOwnFile);
    EXPECT_EQ(decide_one(rules, "/data/run/scr.current").reason, Reason::kOwnFile);
    EXPECT_EQ(decide_one(rules, "/data/run/x\ny.h5").reason, Reason::kUnsafeName);
    EXPECT_TRUE(decide_one(rules, "/data/run/.scrap/x").routed());
    EXPECT_FALSE(decide_one(rules, "/data/run/.scr/x").routed());
  }
}

TEST(RouteDecision, TheFirstMatchingRuleCounts) {
  const std::vector<RouteRule> rules = {rule("log*.h5", RouteRule::Type::kBypass),
                                        rule("plt*", RouteRule::Type::kOutput), rule("*.h5")};
  EXPECT_FALSE(decide_one(rules, "/data/run/log1.h5").routed());
  EXPECT_EQ(decide_one(rules, "/data/run/log1.h5").rule, &rules[0]);
  const Route output = decide_one(rules, "/data/run/plt1.h5");
  EXPECT_EQ(output.type, RouteRule::Type::kOutput);
  EXPECT_TRUE(output.keep_all);
  const Route checkpoint = decide_one(rules, "/data/run/a/ckpt.h5");
  EXPECT_EQ(checkpoint.type, RouteRule::Type::kCheckpoint);
  EXPECT_FALSE(checkpoint.keep_all);
  EXPECT_EQ(checkpoint.rule, &rules[2]);
  EXPECT_EQ(checkpoint.reason, Reason::kRule);
}

TEST(RouteDecision, WithRulesOfWhichNoneMatchesAFileIsLeftAlone) {
  const Route route = decide_one({rule("*.h5")}, "/data/run/x.nc");
  EXPECT_FALSE(route.routed());
  EXPECT_EQ(route.reason, Reason::kNoRule);
  EXPECT_EQ(route.relative, "x.nc");
}

TEST(RouteDecision, WorksWithTheRootAsPrefix) {
  EXPECT_EQ(decide({}, "/", "/a/x.h5").relative, "a/x.h5");
}

TEST(RoutePattern, WithoutSlashIsForTheLastComponent) {
  EXPECT_TRUE(matches("ckpt_*.h5", kPrefix, "/data/run/a/b/ckpt_1.h5"));
  EXPECT_TRUE(matches("ckpt_[0-9].h?", kPrefix, "/data/run/ckpt_1.h5"));
  EXPECT_TRUE(matches("*", kPrefix, "/data/run/.hidden"));
  EXPECT_TRUE(matches("a\\*", kPrefix, "/data/run/a*"));
  EXPECT_FALSE(matches("a\\*", kPrefix, "/data/run/ab"));
  EXPECT_FALSE(matches("run", kPrefix, "/data/run/x.h5"));
  EXPECT_FALSE(matches("ckpt", kPrefix, "/data/run/ckpt_1.h5"));
}

TEST(RoutePattern, WithSlashIsForTheRelativePath) {
  EXPECT_TRUE(matches("out/*.h5", kPrefix, "/data/run/out/x.h5"));
  EXPECT_FALSE(matches("out/*.h5", kPrefix, "/data/run/out/a/x.h5"));
  EXPECT_FALSE(matches("out/*.h5", kPrefix, "/data/run/b/out/x.h5"));
  EXPECT_FALSE(matches("out/*.h5", kPrefix, "/elsewhere/out/x.h5"));
  EXPECT_TRUE(matches("./*.h5", kPrefix, "/data/run/x.h5"));
  EXPECT_FALSE(matches("./*.h5", kPrefix, "/data/run/a/x.h5"));
}

TEST(RoutePattern, TwoStarsMatchAnyDepth) {
  EXPECT_TRUE(matches("**/x.h5", kPrefix, "/data/run/x.h5"));
  EXPECT_TRUE(matches("**/x.h5", kPrefix, "/data/run/a/b/c/x.h5"));
  EXPECT_TRUE(matches("a/**/x.h5", kPrefix, "/data/run/a/x.h5"));
  EXPECT_TRUE(matches("a/**/b/*.h5", kPrefix, "/data/run/a/1/2/b/x.h5"));
  EXPECT_FALSE(matches("a/**/b/*.h5", kPrefix, "/data/run/a/1/2/x.h5"));
  EXPECT_TRUE(matches("a/**", kPrefix, "/data/run/a/b/c"));
  EXPECT_FALSE(matches("a/**", kPrefix, "/data/run/b/a/c"));
  EXPECT_TRUE(matches("**", kPrefix, "/data/run/a/b"));
}

TEST(RoutePattern, AbsoluteIsForTheAbsolutePath) {
  EXPECT_TRUE(matches("/data/*/out/*.h5", kPrefix, "/data/run/out/x.h5"));
  EXPECT_TRUE(matches("/**/x.h5", kPrefix, "/data/run/out/x.h5"));
  EXPECT_FALSE(matches("/out/*.h5", kPrefix, "/data/run/out/x.h5"));
  EXPECT_TRUE(matches("/data/run/**", kPrefix, "/data/run"));
  EXPECT_TRUE(matches("//data/./run/x.h5/", kPrefix, "/data/run/x.h5"));
  EXPECT_FALSE(matches("/data/run/x", kPrefix, "/data/run/x.h5"));
  EXPECT_TRUE(matches("/data/run/\\x.h5", kPrefix, "/data/run/x.h5"));
}

TEST(RoutePattern, ManyStarsDoNotTakeForever) {
  std::string pattern;
  std::string path(kPrefix);
  for (int i = 0; i < 200; ++i) {
    pattern += "**/a*/";
    path += "/ab";
  }
  EXPECT_FALSE(matches(pattern + "x", kPrefix, path + "/y"));
}

TEST(DatasetName, IsThePathWithoutExtensionAndRank) {
  const std::pair<const char*, const char*> names[] = {
      {"ckpt_0007.3.h5", "ckpt_0007"},
      {"run/restart.h5", "run/restart"},
      {"out.h5", "out"},
      {"out", "out"},
      {"run.1/ckpt", "run.1/ckpt"},
      {"run.1/ckpt.0012.h5", "run.1/ckpt"},
      {"dump.17", "dump"},
      {"a.b.c", "a.b"},
      {".h5", ".h5"},
      {"d/.h5", "d/.h5"},
      {"d/.3", "d/.3"},
      {"x.", "x"},
      {"7.h5", "7"},
      {"3", "3"},
  };
  for (const auto& [file, name] : names) EXPECT_EQ(dataset_name(nullptr, file), name) << file;
}

TEST(DatasetName, ComesFromTheRegularExpressionOfTheRule) {
  RouteRule with = rule("*");
  with.dataset = "plt([0-9]+)";
  EXPECT_EQ(dataset_name(&with, "a/plt0012.3.h5"), "0012");
  with.dataset = "plt[0-9]+";
  EXPECT_EQ(dataset_name(&with, "a/plt0012.3.h5"), "plt0012");
  EXPECT_EQ(dataset_name(&with, "other.3.h5"), "other");  // no match
  with.dataset = "plt([a-z]*)";
  EXPECT_EQ(dataset_name(&with, "plt0012.3.h5"), "plt0012");  // an empty group names nothing
}

TEST(DatasetName, AnExpressionThatFailsIsLikeNone) {
  RouteRule with = rule("*");
  with.dataset = "(";
  EXPECT_EQ(dataset_name(&with, "x.3.h5"), "x");
  with.dataset = "(x|y)*";
  const std::string longest(4000, 'x');
  EXPECT_EQ(dataset_name(&with, fmt::format("{}.h5", longest)), longest);
}

}  // namespace
}  // namespace scr::routing
