// How commands reach other nodes: the command lines of pdsh, ssh, mpirun and srun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/job/remote.hpp"
#include "tests/unit/fake_programs.hpp"

namespace scr::job {
namespace {

using config::Environment;
using ::testing::ElementsAre;
using testing::FakePrograms;
using ::testing::HasSubstr;

class RemoteShells : public ::testing::Test {
 protected:
  RemoteShell choose(const Environment& environment = {}) {
    config::ConfigSources sources;
    sources.environment = Environment(Environment::Values{{"PWD", "/"}});
    return *RemoteShell::choose(*config::Config::build(std::move(sources)), environment);
  }
  static Environment slurm() { return Environment(Environment::Values{{"SLURM_JOB_ID", "17"}}); }

  // A text that a shell must not take apart.
  const Words kWords = {"printf", "%s|", "a b", "$HOME", "it's"};
  const std::string kOutput = "a b|$HOME|it's|";
  FakePrograms programs_;
};

TEST_F(RemoteShells, PdshGetsOneQuotedText) {
  programs_.add("pdsh", "shift 4; exec sh -c \"$1\"");
  const RemoteShell shell = choose();
  EXPECT_EQ(shell.name(), "pdsh");
  const auto results = shell.run(Hosts{"n1"}, kWords);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].process.output, kOutput);
  EXPECT_THAT(programs_.called("pdsh"), ElementsAre("-N", "-S", "-w", "n1", shell_quoted(kWords)));
}

TEST_F(RemoteShells, SshAsksNobodyForAPassword) {
  programs_.add("ssh", "shift 7; exec sh -c \"$1\"");
  const RemoteShell shell = choose();
  EXPECT_EQ(shell.name(), "ssh");
  EXPECT_EQ(shell.run(Hosts{"n1"}, kWords)[0].process.output, kOutput);
  EXPECT_THAT(programs_.called("ssh"),
              ElementsAre("-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "n1", "--",
                          shell_quoted(kWords)));
}

TEST_F(RemoteShells, MpirunGetsTheWordsThemselves) {
  programs_.add("mpirun", "shift 4; exec \"$@\"");
  const RemoteShell shell = choose();
  EXPECT_EQ(shell.name(), "mpirun");
  EXPECT_EQ(shell.run(Hosts{"n1"}, {"sh", "-c", "printf '%s|' \"$0\" \"$1\"", "a b", "$HOME"})[0]
                .process.output,
            "a b|$HOME|");
  EXPECT_THAT(programs_.called("mpirun"),
              ElementsAre("-n", "1", "-host", "n1", "sh", "-c", "printf '%s|' \"$0\" \"$1\"", "a b",
                          "$HOME"));
}

TEST_F(RemoteShells, PdshIsTakenBeforeSshAndSshBeforeMpirun) {
  programs_.add("mpirun", "");
  EXPECT_EQ(choose().kind(), RemoteShell::Kind::kMpirun);
  programs_.add("ssh", "");
  EXPECT_EQ(choose().kind(), RemoteShell::Kind::kSsh);
  programs_.add("pdsh", "");
  EXPECT_EQ(choose().kind(), RemoteShell::Kind::kPdsh);
  programs_.add("srun", "");
  EXPECT_EQ(choose().kind(), RemoteShell::Kind::kPdsh);  // no job of Slurm
  EXPECT_EQ(choose(slurm()).kind(), RemoteShell::Kind::kSrun);
}

TEST_F(RemoteShells, WithNoneOfThemItIsSaidWhatToSet) {
  const auto result = choose().run(Hosts{"n1"}, {"true"});
  EXPECT_FALSE(result[0].process.ok());
  EXPECT_THAT(result[0].process.errors, HasSubstr("set SCR_REMOTE_SHELL"));
}

TEST_F(RemoteShells, SrunIsAStepBesideTheProgram) {
  programs_.add("srun", "");
  const RemoteShell shell = choose(slurm());
  EXPECT_THAT(shell.command("n1", {"scr_copy", "a b"}),
              ElementsAre("srun", "--jobid=17", "--overlap", "--nodes=1", "--ntasks=1",
                          "--nodelist=n1", "--input=none", "--quiet", "--mem=0", "--cpu-bind=none",
                          "--mpi=none", "scr_copy", "a b"));
}

TEST_F(RemoteShells, ACommandForLocalhostNeedsNoShell) {
  programs_.add("ssh", "");
  EXPECT_THAT(choose().command("localhost", {"scr_copy"}), ElementsAre("scr_copy"));
  EXPECT_THAT(choose().command("127.0.0.1", {"scr_copy"}), ElementsAre("scr_copy"));
}

// On the node of the batch script a daemon would be one of the script's processes.
TEST_F(RemoteShells, UnderSlurmADaemonIsAStepOfItsOwnOnThisHostToo) {
  programs_.add("srun", "");
  const std::string& own = log::host_name();
  const Words step = choose(slurm()).own_step(own, {"scr_transfer", "dir"});
  ASSERT_FALSE(step.empty());
  EXPECT_EQ(step.front(), "srun");
  EXPECT_THAT(step, ::testing::Contains("--nodelist=" + own));
  EXPECT_THAT(choose(slurm()).command(own, {"scr_copy"}), ElementsAre("scr_copy"));
  programs_.add("ssh", "");
  EXPECT_THAT(choose().own_step(own, {"scr_transfer", "dir"}), ElementsAre("scr_transfer", "dir"));
}

}  // namespace
}  // namespace scr::job
