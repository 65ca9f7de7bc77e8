// Command lines of launchers: where the program begins, its variables, and nodes that are left out.
#include "core/job/launch_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.hpp"

namespace scr::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

// mpirun of Open MPI and mpiexec of Hydra, as far as their --version goes.
class Launch : public ::testing::Test {
 protected:
  Launch() {
    make_program("mpirun", "mpirun (Open MPI) 4.1.4");
    make_program("mpiexec", "HYDRA build details:");
    make_program("mpirun.other", "something else");
  }
  void make_program(const std::string& name, const std::string& version) {
    std::ofstream(directory_ / name) << "#!/bin/sh\necho '" << version << "'\n";
    std::filesystem::permissions(directory_ / name, std::filesystem::perms(0755));
  }
  std::string mpirun() { return directory_ / "mpirun"; }
  std::string mpiexec() { return directory_ / "mpiexec"; }

  static LaunchCommand parsed(const Words& words) {
    auto command = LaunchCommand::parse(words);
    EXPECT_TRUE(command.ok()) << command.status().message();
    return *command;
  }
  std::string after_use(LaunchCommand command, const Hosts& use, const Hosts& avoid) {
    const Status status =
        command.use_nodes(file_system(), use, avoid, "n1", directory_ / "new_hosts");
    EXPECT_TRUE(status.ok()) << status.message();
    Words words = command.words();
    words.erase(words.begin());
    return shell_quoted(words);
  }
  static std::string contents(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryDirectory directory_;
};

TEST_F(Launch, FindsTheProgramOfOpenMpi) {
  const LaunchCommand command =
      parsed({mpirun(), "--mca", "btl", "tcp", "-n", "4", "--oversubscribe", "-x", "A=b",
              "--bind-to=core", "./heat", "-n", "100"});
  EXPECT_EQ(command.kind(), LaunchCommand::Kind::kOpenMpi);
  EXPECT_THAT(command.program(), ElementsAre("./heat", "-n", "100"));
}

TEST_F(Launch, FindsTheProgramOfSrunFluxHydraAndNone) {
  EXPECT_THAT(parsed({"srun", "-N4", "-n", "8", "-lu", "-K1", "--mpi=pmix", "--cpu-bind", "none",
                      "./a", "-N"})
                  .program(),
              ElementsAre("./a", "-N"));
  EXPECT_THAT(parsed({"flux", "run", "-N", "4", "-n8", "--env=A=b", "./a"}).program(),
              ElementsAre("./a"));
  const LaunchCommand hydra = parsed({mpiexec(), "-genv", "A", "b", "-n", "4", "-ppn", "2", "./a"});
  EXPECT_EQ(hydra.kind(), LaunchCommand::Kind::kHydra);
  EXPECT_THAT(hydra.program(), ElementsAre("./a"));
  make_program("mpiexec.openmpi", "mpiexec (OpenRTE) 4.1.4");
  const LaunchCommand openrte = parsed({directory_ / "mpiexec.openmpi", "-n", "4", "./a"});
  EXPECT_EQ(openrte.kind(), LaunchCommand::Kind::kOpenMpi);
  const LaunchCommand none = parsed({"./a", "-n", "4"});
  EXPECT_EQ(none.kind(), LaunchCommand::Kind::kNone);
  EXPECT_THAT(none.program(), ElementsAre("./a", "-n", "4"));
}

TEST_F(Launch, AnUnknownOptionIsNotGuessed) {
  const auto command = LaunchCommand::parse({mpirun(), "--new-thing", "x", "./a"});
  ASSERT_FALSE(command.ok());
  EXPECT_THAT(std::string(command.status().message()),
              HasSubstr("'--new-thing' of mpirun is not known here"));
  // With -- it is clear, and -- itself is not given to the launcher.
  EXPECT_THAT(parsed({mpirun(), "--new-thing", "x", "--", "-strange-program"}).words(),
              ElementsAre(mpirun(), "--new-thing", "x", "-strange-program"));
  EXPECT_THAT(parsed({mpirun(), "--new-thing=x", "./a", "--", "y"}).program(),
              ElementsAre("./a", "--", "y"));
}

TEST_F(Launch, RefusesAnUnknownMpirunAndNoProgram) {
  EXPECT_FALSE(LaunchCommand::parse({directory_ / "mpirun.other", "./a"}).ok());
  EXPECT_FALSE(LaunchCommand::parse({mpirun(), "-n", "4"}).ok());
  EXPECT_FALSE(LaunchCommand::parse({mpirun(), "-n", "4", "./a", ":", "-n", "2"}).ok());
  EXPECT_FALSE(LaunchCommand::parse({}).ok());
}

TEST_F(Launch, VariablesReachTheProgramsAndNotTheLauncher) {
  LaunchCommand command = parsed({mpirun(), "-n", "1", "./a", ":", "-n", "2", "./b", "x"});
  command.set_environment({{"HDF5_DRIVER", "scr"}, {"SCR_PREFIX", "/a b"}});
  EXPECT_THAT(command.words(), ElementsAre(mpirun(), "-n", "1", "/usr/bin/env", "HDF5_DRIVER=scr",
                                           "SCR_PREFIX=/a b", "./a", ":", "-n", "2", "/usr/bin/env",
                                           "HDF5_DRIVER=scr", "SCR_PREFIX=/a b", "./b", "x"));
  EXPECT_TRUE(command.launcher_environment().empty());
}

TEST_F(Launch, ProgramsInAFileGetVariablesThroughTheLauncher) {
  LaunchCommand command = parsed({"srun", "-n2", "--multi-prog", "programs.conf"});
  command.set_environment({{"HDF5_DRIVER", "scr"}});
  EXPECT_THAT(command.words(), ElementsAre("srun", "-n2", "--multi-prog", "programs.conf"));
  EXPECT_EQ(command.launcher_environment().at("HDF5_DRIVER"), "scr");
}

TEST_F(Launch, TheRestartCommandTakesThePlaceOfTheProgram) {
  LaunchCommand command = parsed({mpirun(), "-n", "4", "./a", "new"});
  ASSERT_TRUE(command.replace_program({"./a", "--restart", "ckpt 1"}).ok());
  EXPECT_THAT(command.words(), ElementsAre(mpirun(), "-n", "4", "./a", "--restart", "ckpt 1"));
  LaunchCommand two = parsed({mpirun(), "./a", ":", "./b"});
  EXPECT_FALSE(two.replace_program({"./c"}).ok());
}

TEST_F(Launch, NothingChangesWhileAllNodesAreUp) {
  EXPECT_EQ(after_use(parsed({mpirun(), "-n", "4", "./a"}), {"n1", "n2"}, {}), "-n 4 ./a");
}

TEST_F(Launch, LeavesNodesOutOfHostfiles) {
  std::ofstream(directory_ / "hosts") << "# nodes\nn1 slots=2\nn2 slots=2 max_slots=4\nuser@n3:4\n";
  const LaunchCommand command = parsed({mpirun(), "--hostfile", directory_ / "hosts", "./a"});
  EXPECT_THAT(*command.hosts(file_system()), ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(after_use(command, {"n1", "n3"}, {"n2"}),
            "--hostfile " + (directory_ / "new_hosts") + " ./a");
  EXPECT_EQ(contents(directory_ / "new_hosts"), "# nodes\nn1 slots=2\nuser@n3:4\n");
  EXPECT_EQ(after_use(parsed({mpirun(), "-machinefile=" + (directory_ / "hosts"), "./a"}), {"n1"},
                      {"n2", "n3"}),
            "-machinefile=" + (directory_ / "new_hosts") + " ./a");
}

TEST_F(Launch, LeavesNodesOutOfHostLists) {
  const LaunchCommand command = parsed({mpirun(), "--host", "n1:2,n2:2,n3", "-n", "4", "./a"});
  EXPECT_THAT(*command.hosts(file_system()), ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(after_use(command, {"n1", "n3"}, {"n2"}), "--host n1:2,n3 -n 4 ./a");
  EXPECT_EQ(after_use(parsed({mpiexec(), "-hosts", "n1,n2", "./a"}), {"n1"}, {"n2"}),
            "-hosts n1 ./a");
}

TEST_F(Launch, WithoutHostsOfItsOwnTheCommandGetsThem) {
  EXPECT_EQ(after_use(parsed({mpirun(), "./a"}), {"n1", "n3"}, {"n2"}),
            "--hostfile " + (directory_ / "new_hosts") + " ./a");
  EXPECT_EQ(contents(directory_ / "new_hosts"), "n1\nn3\n");
  EXPECT_EQ(after_use(parsed({mpiexec(), "./a"}), {"n1", "n3"}, {"n2"}),
            "-f " + (directory_ / "new_hosts") + " ./a");
}

TEST_F(Launch, SrunExcludes) {
  EXPECT_EQ(after_use(parsed({"srun", "-N", "2", "-n4", "./a"}), {"n1", "n3"}, {"n2"}),
            "--exclude=n2 --nodelist=n1 -N 2 -n4 ./a");
  EXPECT_EQ(after_use(parsed({"srun", "./a"}), {"n1", "n3"}, {"n2"}),
            "--exclude=n2 --nodes=2 --nodelist=n1 ./a");
  EXPECT_EQ(after_use(parsed({"srun", "-N2", "-xn5", "-wn1", "./a"}), {"n1", "n3"}, {"n2"}),
            "-N2 '-xn[2,5]' -wn1 ./a");
  EXPECT_EQ(parsed({"srun", "-N2-4", "./a"}).node_count(), 2U);
  EXPECT_EQ(parsed({"srun", "--nodes=3", "./a"}).node_count(), 3U);
  EXPECT_EQ(parsed({"srun", "./a"}).node_count(), std::nullopt);
}

TEST_F(Launch, LeavesNodesOutOfTheNodelistOfSrun) {
  const auto changed = [&](const Words& option) {
    Words words = {"srun", "-N2", "-xn5"};
    words.insert(words.end(), option.begin(), option.end());
    words.emplace_back("./a");
    return after_use(parsed(words), {"n1", "n3"}, {"n2", "n4"});
  };
  const std::string before = "-N2 '-xn[2,4-5]' ";
  EXPECT_EQ(changed({"-w", "n[1-4]"}), before + "-w 'n[1,3]' ./a");
  EXPECT_EQ(changed({"-wn2,n3"}), before + "-wn3 ./a");
  EXPECT_EQ(changed({"-w=n2,n3"}), before + "-wn3 ./a");
  EXPECT_EQ(changed({"--nodelist", "n2,n3"}), before + "--nodelist n3 ./a");
  EXPECT_EQ(changed({"--nodelist=n2,n3"}), before + "--nodelist=n3 ./a");
  // srun adds nodes to those of the list: with none of it left, it may take others.
  EXPECT_EQ(changed({"--nodelist=n2"}), before + "--nodelist=n1 ./a");
  std::ofstream(directory_ / "nodes") << "n1\nn2\nn3\n";
  EXPECT_EQ(changed({"-w", directory_ / "nodes"}), before + "-w 'n[1,3]' ./a");
  LaunchCommand unreadable = parsed({"srun", "-w", directory_ / "none", "./a"});
  EXPECT_FALSE(unreadable.use_nodes(file_system(), {"n1"}, {"n2"}, "n1", directory_ / "h").ok());
}

TEST_F(Launch, ANodeThatNoLauncherCanLeaveOutIsAnError) {
  LaunchCommand command = parsed({"./a"});
  EXPECT_FALSE(command.use_nodes(file_system(), {"n1"}, {"n2"}, "n1", directory_ / "h").ok());
}

TEST_F(Launch, HostileHostfilesAreRefused) {
  std::ofstream(directory_ / "hosts") << "-oProxyCommand=x slots=2\n";
  EXPECT_FALSE(
      parsed({mpirun(), "--hostfile", directory_ / "hosts", "./a"}).hosts(file_system()).ok());
  EXPECT_FALSE(
      parsed({mpirun(), "--hostfile", directory_ / "none", "./a"}).hosts(file_system()).ok());
}

}  // namespace
}  // namespace scr::job
