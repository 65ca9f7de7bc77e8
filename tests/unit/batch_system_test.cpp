// What the batch systems tell of a job: nodes, nodes that are down, and when it ends.
#include "core/job/batch_system.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/unit/fake_programs.hpp"

namespace scr::job {
namespace {

using config::Environment;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakePrograms;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BatchSystems : public ::testing::Test {
 protected:
  static config::Config config() {
    config::ConfigSources sources;
    sources.environment = Environment(Environment::Values{{"PWD", "/"}});
    return *config::Config::build(std::move(sources));
  }
  static Environment with(const std::string& name, const std::string& value) {
    return Environment(Environment::Values{{name, value}});
  }

  // The end of the job is so many seconds from now; the clock goes on while it is asked.
  static void expect_left(const Environment& environment, std::int64_t seconds) {
    const std::int64_t before = std::time(nullptr);
    const auto end = job_end_time(config(), environment);
    const std::int64_t after = std::time(nullptr);
    ASSERT_TRUE(end.has_value());
    EXPECT_GE(*end, before + seconds);
    EXPECT_LE(*end, after + seconds);
  }

  FakePrograms programs_;
};

TEST_F(BatchSystems, FluxTellsItsNodesAndItsEnd) {
  programs_.add("flux", R"(case "$1 $2" in
    "getattr hostlist") echo 'corona[1-3,7]' ;;
    "job timeleft") echo 90.7 ;;
    "resource list") echo 'corona[2,9]' ;;
    *) exit 1 ;;
  esac)");
  const Environment job = with("FLUX_JOB_ID", "f2Xy");
  EXPECT_EQ(detect_batch_system(job), BatchSystem::kFlux);
  const auto nodes = job_nodes(file_system(), config(), job);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  EXPECT_THAT(*nodes, ElementsAre("corona1", "corona2", "corona3", "corona7"));
  expect_left(job, 90);
  EXPECT_THAT(nodes_known_as_down(job, *nodes), ElementsAre("corona2"));
}

TEST_F(BatchSystems, FluxInsideAnotherBatchSystemIsFlux) {
  const Environment both(Environment::Values{{"FLUX_JOB_ID", "f1"}, {"SLURM_JOB_ID", "7"}});
  EXPECT_EQ(detect_batch_system(both), BatchSystem::kFlux);
}

TEST_F(BatchSystems, FluxThatDoesNotAnswerIsTold) {
  programs_.add("flux", "echo no broker >&2; exit 1");
  const Environment job = with("FLUX_JOB_ID", "f2Xy");
  const auto nodes = job_nodes(file_system(), config(), job);
  ASSERT_FALSE(nodes.ok());
  EXPECT_THAT(std::string(nodes.status().message()), HasSubstr("set SCR_NODELIST"));
  EXPECT_EQ(job_end_time(config(), job), std::nullopt);
}

TEST_F(BatchSystems, SlurmIsAskedForWhatTheEnvironmentDoesNotSay) {
  programs_.add("squeue", R"(case "$*" in
    *--format=%N*) echo 'n[4-5]' ;;
    *--format=%L*) echo 1-02:03:04 ;;
  esac)");
  programs_.add("sinfo", "echo n5; echo n77");
  const Environment job = with("SLURM_JOB_ID", "17");
  const auto nodes = job_nodes(file_system(), config(), job);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  EXPECT_THAT(*nodes, ElementsAre("n4", "n5"));
  EXPECT_THAT(programs_.called("squeue"), Contains("--jobs=17"));
  expect_left(job, ((24 + 2) * 60 + 3) * 60 + 4);
  EXPECT_THAT(nodes_known_as_down(job, *nodes), ElementsAre("n5"));
  EXPECT_THAT(programs_.called("sinfo"), Contains("--nodes=n[4-5]"));
}

TEST_F(BatchSystems, ASlurmJobWithoutALimitHasNoEnd) {
  programs_.add("squeue", "echo UNLIMITED");
  EXPECT_EQ(job_end_time(config(), with("SLURM_JOB_ID", "17")), std::nullopt);
}

TEST_F(BatchSystems, PbsTellsWhatIsLeftOfItsLimit) {
  programs_.add("qstat", R"(cat <<END
Job Id: 5.server
    resources_used.walltime = 00:10:30
    Resource_List.select = 2
    Resource_List.walltime = 01:00:00
END)");
  programs_.add("pbsnodes", "echo 'n1   down,offline'; echo 'n2   offline'");
  const Environment job = with("PBS_JOBID", "5.server");
  expect_left(job, 3600 - 630);
  EXPECT_THAT(programs_.called("qstat"), ElementsAre("-f", "5.server"));
  EXPECT_THAT(nodes_known_as_down(job, {"n1", "n2"}), ElementsAre("n1"));
}

TEST_F(BatchSystems, APbsJobThatIsOverItsLimitEndsNow) {
  programs_.add("qstat",
                "echo 'Resource_List.walltime = 00:01:00'; "
                "echo 'resources_used.walltime = 00:02:00'");
  expect_left(with("PBS_JOBID", "5.server"), 0);
}

TEST_F(BatchSystems, LsfTellsHoursAndMinutes) {
  programs_.add("bjobs", "echo '1:42 L'");
  programs_.add("bhosts", "echo 'h1 ok'; echo 'h2 unavail'; echo 'h3 unreach'; echo 'h4 closed'");
  const Environment job = with("LSB_JOBID", "6");
  expect_left(job, 102 * 60);
  EXPECT_THAT(programs_.called("bjobs"), ElementsAre("-noheader", "-o", "time_left", "6"));
  EXPECT_THAT(nodes_known_as_down(job, {"h1", "h2", "h3", "h4"}), ElementsAre("h2", "h3"));
}

TEST_F(BatchSystems, NoneOfTheirCommandsIsNeeded) {
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    EXPECT_EQ(job_end_time(config(), with(variable, "1")), std::nullopt) << variable;
    EXPECT_THAT(nodes_known_as_down(with(variable, "1"), {"n1"}), IsEmpty()) << variable;
  }
}

}  // namespace
}  // namespace scr::job
