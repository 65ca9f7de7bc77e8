// The command line that starts a parallel program, taken apart: the launcher (mpirun, srun, ...),
// its options, the program. So variables can be given to the program alone, nodes can be left out,
// and another program can take its place.
//
//   auto command = LaunchCommand::parse({"mpirun", "-n", "4", "./heat", "100"});
//   command->set_environment({{"HDF5_DRIVER", "scr"}});
//   command->words()   // mpirun -n 4 /usr/bin/env HDF5_DRIVER=scr ./heat 100
//
// How nodes are left out, for each launcher: docs/commands.md. Not thread-safe to change.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/job/host_list.hpp"
#include "core/job/process.hpp"

namespace scr::job {

class LaunchCommand {
 public:
  enum class Kind {
    kNone,     // the program itself
    kOpenMpi,  // mpirun, mpiexec, prterun of Open MPI
    kHydra,    // mpiexec of MPICH and Intel MPI
    kSrun,
    kFlux,  // flux run
  };

  // The program begins at the first word that is no option of the launcher, nor the value of one,
  // or after "--". An option that is not known here may have a value or not: kInvalidArgument, with
  // the advice to put "--" before the program.
  static Result<LaunchCommand> parse(const Words& words);

  Kind kind() const { return kind_; }
  std::string kind_name() const;
  // Of the first program, if there are several.
  const Words& program() const { return apps_.front().program; }
  // Takes the place of the program with its arguments; not for several programs.
  Status replace_program(const Words& program);
  bool several_programs() const { return apps_.size() > 1; }

  // Variables for the program's processes, and no one else's; with launchers that read the programs
  // from a file (srun --multi-prog, mpirun --app) for the launcher, too.
  void set_environment(const std::map<std::string, std::string>& variables);

  // The hosts that the command itself names (--host, --hostfile), each once.
  Result<Hosts> hosts(FileSystem& fs) const;
  // The number of nodes that the command itself asks for (srun and flux run -N).
  std::optional<std::size_t> node_count() const;
  // Uses `use` and not `avoid`. `hostfile` is where a new list may be written.
  Status use_nodes(FileSystem& fs, const Hosts& use, const Hosts& avoid, const std::string& own,
                   const std::string& hostfile);

  // To start, with the changes of the environment of the launcher.
  Words words() const;
  const Child::Changes& launcher_environment() const { return launcher_environment_; }

 private:
  struct App {
    Words options;
    Words program;
  };
  struct Option {
    std::size_t app;
    std::size_t position;      // of the option's word
    std::size_t value;         // of the word that holds the value
    std::size_t value_offset;  // in that word
  };
  std::vector<Option> find(const std::vector<std::string>& names) const;
  std::string value_of(const Option& option) const;
  void set_value(const Option& option, const std::string& value);
  void insert_options(const Words& words);
  Status use_nodes_of_mpi(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                          const std::string& hostfile);
  Status use_nodes_of_srun(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                           const std::string& own);
  Result<Hosts> hosts_of_nodelist(FileSystem& fs, const Option& option) const;
  Status leave_out_of_nodelist(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                               const std::string& own);

  Kind kind_ = Kind::kNone;
  Words launcher_;  // "mpirun", or "flux run"
  std::vector<App> apps_;
  bool programs_in_file_ = false;
  std::map<std::string, std::string> environment_;
  Child::Changes launcher_environment_;
};

}  // namespace scr::job
