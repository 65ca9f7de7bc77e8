#include "core/routing/given_files.hpp"

#include <gtest/gtest.h>

namespace scr::routing {
namespace {

bool means(std::string_view command, std::string_view relative) {
  return CommandWords(command).may_mean(relative);
}

TEST(CommandWords, MeanFilesByTheLastPartOfTheirPath) {
  EXPECT_TRUE(means("mv a.h5 b.h5", "a.h5"));
  EXPECT_TRUE(means("mv a.h5 b.h5", "run/b.h5"));
  EXPECT_TRUE(means("cp /link/to/a.h5 .", "run/a.h5"));
  EXPECT_FALSE(means("mv a.h5 b.h5", "c.h5"));
  EXPECT_FALSE(means("mv a.h5 b.h5", "a.h"));
  EXPECT_FALSE(means("", "a.h5"));
}

TEST(CommandWords, MeanWhatIsInADirectory) {
  EXPECT_TRUE(means("rm -r run", "run/step/a.h5"));
  EXPECT_TRUE(means("rm -r out/run///", "run/step/a.h5"));
  EXPECT_FALSE(means("rm -r run", "running/a.h5"));
}

TEST(CommandWords, MeanAllThatTheirWildcardsMatch) {
  EXPECT_TRUE(means("rm -f ckpt_?.h5", "run/ckpt_7.h5"));
  EXPECT_FALSE(means("rm -f ckpt_?.h5", "run/ckpt_17.h5"));
  EXPECT_TRUE(means("tar cf all.tar .", "run/a.h5"));
  EXPECT_TRUE(means("ls ../", "a.h5"));
}

TEST(CommandWords, AreSeparatedByWhatTheShellTakesApart) {
  EXPECT_TRUE(means("cd run;mv 'a.h5' \"b.h5\"", "a.h5"));
  EXPECT_TRUE(means("for f in {a,b}; do gzip $f; done", "b"));
  EXPECT_TRUE(means("dd if=a.h5 of=b.h5", "b.h5"));
  EXPECT_TRUE(means("cat<a.h5>b.h5|(wc)&", "a.h5"));
}

TEST(GivenFiles, AreKnownUntilTheLastCommandEnds) {
  GivenFiles given;
  EXPECT_FALSE(given.has_commands());
  given.start_command();
  given.add("a.h5", {1, 10, 3});
  given.start_command();
  given.add("a.h5", {2, 20, 4});  // known as it was
  given.add("b.h5", {5, 50, 4});
  EXPECT_EQ(given.all().at("a.h5").inode, 1);
  given.forget("b.h5");
  EXPECT_FALSE(given.contains("b.h5"));
  given.end_command();
  EXPECT_TRUE(given.contains("a.h5"));
  EXPECT_TRUE(given.has_commands());
  given.end_command();
  EXPECT_FALSE(given.contains("a.h5"));
  EXPECT_FALSE(given.has_commands());
}

TEST(GivenFiles, AreTheSameByInodeOrTime) {
  const GivenFiles::Given given{1, 10, 3};
  FileInfo info;
  info.inode = 1;
  info.mtime_ns = 20;
  EXPECT_TRUE(given.is(info));
  info.inode = 2;
  EXPECT_FALSE(given.is(info));
  info.mtime_ns = 10;
  EXPECT_TRUE(given.is(info));
}

}  // namespace
}  // namespace scr::routing
