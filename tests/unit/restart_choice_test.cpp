// What scr_run knows of the runs it starts: the checkpoint that the next one begins with, and what
// the log says after a drill.
#include "core/job/restart_choice.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "core/job/drill_story.hpp"
#include "flush/index.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::job {
namespace {

using testing::TemporaryDirectory;

constexpr std::int64_t kLongAgo = 1'600'000'000'000'000;  // microseconds

class RestartName : public ::testing::Test {
 protected:
  RestartName() {
    ::setenv("SCR_PREFIX", directory_.path().c_str(), 1);
    ::setenv("SCR_JOB_ID", "42", 1);
    EXPECT_TRUE(file_system().make_directories(directory_ / ".scr").ok());
  }
  ~RestartName() override {
    for (const char* name : {"SCR_PREFIX", "SCR_JOB_ID", "SCR_CURRENT", "SCR_FETCH"}) {
      ::unsetenv(name);
    }
  }

  // Checkpoints "ckpt.1" ... in the prefix directory, the newest one current.
  void flush(int count) {
    change([&](flush::Index& index) {
      for (int id = 1; id <= count; ++id) {
        flush::IndexEntry entry;
        entry.directory = fmt::format("scr.dataset.{}", id);
        entry.dataset.id = id;
        entry.dataset.name = fmt::format("ckpt.{}", id);
        entry.dataset.created = kLongAgo + id;
        entry.dataset.checkpoint = id;
        entry.dataset.ranks = 1;
        entry.complete = true;
        index.put(entry);
        index.set_current(entry.directory);
      }
    });
  }
  void make_current(int id) {
    change([&](flush::Index& index) { index.set_current(fmt::format("scr.dataset.{}", id)); });
  }
  void change(const std::function<void(flush::Index&)>& change) {
    const Status changed =
        flush::update_index(file_system(), directory_.path(), [&](flush::Index& index) {
          change(index);
          return Status();
        });
    ASSERT_TRUE(changed.ok()) << changed.to_string();
  }

  std::string name(const CachedCheckpoint& cached, bool first_run) {
    const auto job = JobSettings::load(file_system());
    EXPECT_TRUE(job.ok()) << job.status().to_string();
    const auto name = restart_name(*job, cached, first_run);
    return name.ok() ? *name : name.status().to_string();
  }

  static CachedCheckpoint cached(int id, std::int64_t created) {
    return {id, fmt::format("ckpt.{}", id), created};
  }

  TemporaryDirectory directory_;
};

TEST_F(RestartName, IsTheNewestOfCacheAndPrefixDirectory) {
  EXPECT_EQ(name({}, true), "");
  EXPECT_EQ(name(cached(4, kLongAgo + 4), true), "ckpt.4");
  flush(3);
  EXPECT_EQ(name({}, true), "ckpt.3");
  EXPECT_EQ(name(cached(4, kLongAgo + 4), false), "ckpt.4");
  EXPECT_EQ(name(cached(2, kLongAgo + 2), false), "ckpt.3");
  EXPECT_EQ(name(cached(2, 0), false), "ckpt.3");  // when it was written is not known
  EXPECT_EQ(name(cached(4, 0), false), "ckpt.4");
  ::setenv("SCR_FETCH", "0", 1);
  EXPECT_EQ(name(cached(2, kLongAgo + 2), false), "ckpt.2");
}

TEST_F(RestartName, IsThatOfScrCurrentInTheFirstRunOnly) {
  flush(3);
  ::setenv("SCR_CURRENT", "ckpt.1", 1);
  const CachedCheckpoint newer = cached(4, kLongAgo + 4);
  EXPECT_EQ(name(newer, true), "ckpt.1");
  EXPECT_EQ(name(newer, false), "ckpt.4");
  ::setenv("SCR_CURRENT", "no such", 1);
  EXPECT_EQ(name(newer, true), "ckpt.4");
}

TEST_F(RestartName, IsTheOneMadeCurrentByHandUntilANewerOneIsWritten) {
  flush(3);
  make_current(2);
  EXPECT_EQ(name({}, false), "ckpt.2");
  EXPECT_EQ(name(cached(3, kLongAgo + 3), false), "ckpt.2");
  EXPECT_EQ(name(cached(4, kLongAgo + 4), true), "ckpt.2");
  const std::int64_t later = kLongAgo * 4;
  EXPECT_EQ(name(cached(4, later), false), "ckpt.4");
}

TEST(NewestCheckpointOfList, OddAnswersOfANodeHaveNone) {
  EXPECT_EQ(newest_checkpoint_of_list("").id, 0);
  EXPECT_EQ(newest_checkpoint_of_list("{}").id, 0);
  const CachedCheckpoint newest = newest_checkpoint_of_list(
      R"([3, {"id": "9", "name": "a", "in_cache": true}, {"id": 8, "name": 1, "in_cache": true},
          {"id": 7, "name": "b", "in_cache": false}, {"id": 6, "name": "c", "in_cache": 1},
          {"id": 5, "name": "d", "in_cache": true, "created": 77}, {"id": 4, "name": "e", "in_cache": true}])");
  EXPECT_EQ(newest.id, 5);
  EXPECT_EQ(newest.name, "d");
  EXPECT_EQ(newest.created, 77);
}

TEST(DrillStory, TellsWhatCameAfterTheLoss) {
  EXPECT_EQ(drill_story(""), "");
  EXPECT_EQ(drill_story(R"({"event":"rebuild","phase":"end","ok":true,"note":"before"}
{"event":"node failure","phase":"once","note":"drill"}
{"event":"rebuild","phase":"start"}
{"event":"rebuild","phase":"end","ok":false,"note":"no"}
{"event":"fetch","phase":"end","ok":true,"note":"yes"})"),
            "rebuild FAILED: no; fetch succeeded: yes");
}

TEST(DrillStory, OddLinesInTheLogAreLeftOut) {
  EXPECT_EQ(drill_story(R"({"event":3}
[1]
{"event":"node failure","note":{}}
{"event":"node failure","note":"drill"}
{"event":"rebuild","phase":7}
{"event":"rebuild","phase":"end","ok":"yes","note":[]}
{"event":"fetch","phase":"end","ok":true,"note":"yes"}
{"event":"fe)"),
            "rebuild FAILED: ; fetch succeeded: yes");
}

}  // namespace
}  // namespace scr::job
