// scr_rebuild_xor, scr_rebuild_partner and scr_rebuild_rs as users run them, on a scavenge that was
// cut: files of lost ranks are made anew, or it says that too much is lost; lies are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/unit/scavenge_damage.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Scheme {
  std::string command;
  std::string type;             // SCR_COPY_TYPE
  std::vector<int> bearable;    // nodes to lose
  std::vector<int> unbearable;  // nodes to lose
};

class ScrRebuild : public ::testing::TestWithParam<Scheme> {
 protected:
  struct Output {
    int exit_code = -1;
    std::string text;
  };

  ScrRebuild() : job_({"SCR_COPY_TYPE=" + GetParam().type, "SCR_SET_FAILURES=2"}) {
    job_.shared = true;
    job_.write({1});
  }

  // The nodes are lost, and the scavenge is cut when all that is left has been copied.
  void lose(const std::vector<int>& nodes) {
    for (const int node : nodes) job_.lose(node);
    stopped_ = std::make_unique<Stopped>(job_);
  }

  // Only arguments of this test go to the shell. JSON is on standard output alone.
  Output run(const std::string& arguments, bool errors = true,
             const std::string& command = GetParam().command) const {
    const std::string line = fmt::format("timeout 60 {}/{} -p '{}' {} 2>{}", TEST_BIN_DIR, command,
                                         job_.prefix(), arguments, errors ? "&1" : "/dev/null");
    Output output;
    FILE* pipe = ::popen(line.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
      output.text.append(buffer.data(), count);
    const int status = ::pclose(pipe);
    output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return output;
  }

  static std::vector<int> ranks_of(const std::vector<int>& nodes) {
    std::vector<int> ranks;
    for (const int node : nodes) ranks.insert(ranks.end(), {2 * node, 2 * node + 1});
    return ranks;
  }

  ScavengeJob job_;
  std::unique_ptr<Stopped> stopped_;
};

TEST_P(ScrRebuild, MakesFilesOfLostRanksAnew) {
  lose(GetParam().bearable);
  const std::string ranks = fmt::format("{}", fmt::join(ranks_of(GetParam().bearable), ","));
  const auto before = ScavengeJob::snapshot(job_.prefix());
  const Output look = run("--dry-run scr.dataset.1");
  EXPECT_EQ(look.exit_code, 0) << look.text;
  EXPECT_THAT(look.text, HasSubstr("are missing"));
  EXPECT_EQ(ScavengeJob::snapshot(job_.prefix()), before);

  const Output made = run("scr.dataset.1");
  EXPECT_EQ(made.exit_code, 0) << made.text;
  EXPECT_THAT(made.text, HasSubstr("ranks rebuilt: " + ranks));
  const Output again = run("--json scr.dataset.1", /*errors=*/false);
  EXPECT_EQ(again.exit_code, 0) << again.text;
  const auto json = nlohmann::json::parse(again.text);
  EXPECT_EQ(json["missing"], "");
  EXPECT_THAT(json["rebuilt"], IsEmpty());
  // What it made is what the ranks had: the dataset is whole without a node of them.
  const Status status = commit_scavenge(real_file_system(), job_.prefix(), "scr.dataset.1");
  ASSERT_TRUE(status.ok()) << status.to_string();
  SavedDataset saved;
  saved.directory = "scr.dataset.1";
  job_.expect_saved(saved, 1);
}

TEST_P(ScrRebuild, RebuildsOneSetIfAsked) {
  lose(GetParam().bearable);
  const auto before = ScavengeJob::snapshot(job_.prefix());
  const Output none = run("--set 77 scr.dataset.1");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.text, HasSubstr("has no redundancy set 77"));
  EXPECT_EQ(ScavengeJob::snapshot(job_.prefix()), before);
  const Output one = run("--set 0 scr.dataset.1");
  EXPECT_EQ(one.exit_code, 0) << one.text;
  const Output rest = run("scr.dataset.1");
  EXPECT_EQ(rest.exit_code, 0) << rest.text;
  EXPECT_THAT(rest.text, ::testing::Not(HasSubstr("no rank is missing")));
  EXPECT_THAT(run("scr.dataset.1").text, HasSubstr("no rank is missing"));
  // Once more, now that the set cannot be read from anything that is missing.
  const Output again = run("--set 0 scr.dataset.1");
  EXPECT_EQ(again.exit_code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("no rank is missing"));
}

TEST_P(ScrRebuild, SaysSoIfItsSchemeDoesNotHelp) {
  lose(GetParam().bearable);
  const std::string other =
      GetParam().command == "scr_rebuild_xor" ? "scr_rebuild_rs" : "scr_rebuild_xor";
  for (const char* arguments : {"scr.dataset.1", "--set 0 scr.dataset.1"}) {
    const Output output = run(arguments, true, other);
    EXPECT_EQ(output.exit_code, 1) << output.text;
    EXPECT_THAT(output.text, HasSubstr("is still missing: its set is not"));
  }
  // Only what it was asked for: the set is whole, though others are not.
  ASSERT_EQ(run("--set 0 scr.dataset.1").exit_code, 0);
  const Output whole = run("--set 0 scr.dataset.1", true, other);
  EXPECT_EQ(whole.exit_code, 0) << whole.text;
}

TEST_P(ScrRebuild, SaysWhatIsLostAndWritesNothing) {
  lose(GetParam().unbearable);
  const auto before = ScavengeJob::snapshot(job_.prefix());
  for (const char* arguments : {"scr.dataset.1", "--dry-run scr.dataset.1"}) {
    const Output output = run(arguments);
    EXPECT_EQ(output.exit_code, 3) << output.text;
    EXPECT_THAT(output.text, HasSubstr("unrecoverable"));
    EXPECT_THAT(output.text, HasSubstr(fmt::format("rank {}", 2 * GetParam().unbearable.back())));
  }
  const Output output = run("--dry-run --json scr.dataset.1", /*errors=*/false);
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(nlohmann::json::parse(output.text)["unrecoverable"].get<std::string>(),
              Not(IsEmpty()));
  EXPECT_EQ(ScavengeJob::snapshot(job_.prefix()), before);
  EXPECT_THAT(job_.index().entries(), IsEmpty());
}

TEST_P(ScrRebuild, TouchesNothingOutsideOfTheDatasetWhateverItReads) {
  const Outside outside;
  lose(GetParam().bearable);
  for (const std::string& name : {std::string("../.."), outside.path(), std::string("..")}) {
    const Output output = run("'" + name + "'");
    EXPECT_EQ(output.exit_code, 1) << output.text;
    EXPECT_THAT(output.text, HasSubstr("is no directory below .scr"));
  }
  const Output missing = run("scr.dataset.77");
  EXPECT_EQ(missing.exit_code, 1) << missing.text;
  EXPECT_THAT(missing.text, HasSubstr("scr.dataset.77"));
  EXPECT_EQ(run("").exit_code, 2);

  // A folder of the files to be made leads elsewhere.
  const std::string folder = job_.prefix() + "/ckpt.1";
  std::filesystem::rename(folder, folder + ".moved");
  std::filesystem::create_directory_symlink(outside.path(), folder);
  EXPECT_THAT(run("scr.dataset.1").exit_code, ::testing::AnyOf(1, 3));
  outside.expect_untouched();
  std::filesystem::remove(folder);
  std::filesystem::rename(folder + ".moved", folder);

  // A survivor's filemap names a file elsewhere: it counts as one more loss.
  const int survivor = 2 * GetParam().unbearable.back();
  Hash hash = stopped_->read(survivor);
  rename_file(const_cast<Hash&>(*hash.getf("RANK %d DSET 1", survivor)),
              ScavengeJob::file_name(1, survivor, 0), "../../evil");
  stopped_->write(survivor, hash);
  const Output lied = run("scr.dataset.1");
  EXPECT_EQ(lied.exit_code, 3) << lied.text;
  EXPECT_THAT(lied.text, HasSubstr(rank_filemap_name(survivor)));
  EXPECT_THAT(job_.index().entries(), IsEmpty());
  outside.expect_untouched();
}

// The last of the nodes that are too many is one that is there when only the bearable are lost.
INSTANTIATE_TEST_SUITE_P(Schemes, ScrRebuild,
                         ::testing::Values(Scheme{"scr_rebuild_xor", "XOR", {1}, {1, 2}},
                                           Scheme{"scr_rebuild_partner", "PARTNER", {1}, {1, 2}},
                                           Scheme{"scr_rebuild_rs", "RS", {0, 3}, {0, 3, 2}}),
                         [](const auto& scheme) { return scheme.param.type; });

}  // namespace
}  // namespace scr::flush::testing
