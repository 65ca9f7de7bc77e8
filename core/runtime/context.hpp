// Context: what every part of the runtime needs to know of this process and its run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.hpp"
#include "core/base/filesystem.hpp"
#include "core/mpi/communicator.hpp"
#include "core/runtime/job.hpp"
#include "redundancy/form_sets.hpp"

namespace scr {

// A class of node-local storage, and this process's directory on it: a store descriptor.
struct Store {
  config::StoreDescriptor descriptor;
  std::unique_ptr<Communicator> group;   // the processes that share it
  std::unique_ptr<Directory> directory;  // <base>/<user>/scr.<jobid>
};

// A redundancy descriptor with the sets that it gives this process.
struct ActiveRedundancy {
  config::RedundancyDescriptor descriptor;
  std::vector<redundancy::RedundancySet> sets;  // own set first, then those it is a guest of
  Store* store = nullptr;
  // "<cache directory>/index.<i>/dataset.<id>"
  std::string dataset_directory(int dataset_id) const;
};

// How a run starts.
struct RunOptions {
  std::vector<std::string> calls = {};  // arguments of SCR_Config so far; those of rank 0 count
  config::Mode mode = config::Mode::kNative;
  // A process by itself, of which several may work in one prefix directory at the same time: it
  // takes the first free slot ("<jobid>.s0", "<jobid>.s1", ...) as its job, or the one named here.
  bool alone = false;
  std::string slot = {};
};

class Context {
 public:
  // Collective.
  static Result<std::unique_ptr<Context>> create(FileSystem& fs,
                                                 std::unique_ptr<Communicator> world,
                                                 const std::string& host,
                                                 const RunOptions& options);

  FileSystem& fs() const { return *fs_; }
  Communicator& world() const { return *world_; }
  Communicator& node() const { return *nodes_.node; }
  int node_count() const { return nodes_.node_count; }
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  const std::string& host() const { return host_; }
  const config::Config& config() const { return *config_; }
  const JobInfo& job() const { return job_; }
  bool alone() const { return alone_; }
  bool transparent() const { return transparent_; }
  const Directory& control() const { return *control_; }
  // ".scr" in the prefix directory.
  std::string prefix_scr() const { return job_.prefix + "/.scr"; }

  // Collective: the hosts of all nodes, in the order of their lowest ranks; on rank 0, empty
  // elsewhere. Long names are cut.
  std::vector<std::string> gather_hosts() const;

  // Collective, at the start of a call that the program makes on all ranks: waits for all of them,
  // and warns of those that do not come (SCR_COLLECTIVE_WARNING, SCR_COLLECTIVE_TIMEOUT).
  void meet(const std::string& what) const { world_->meet({what, warn_after_, give_up_after_}); }

  // Not collective: makes control and cache directories once more, after somebody removed them.
  Status make_directories_again();

  // Name of this rank's group of that kind: its host for NODE, one for all for WORLD, else what the
  // GROUPS line of its host says.
  Result<std::string> group_value(const std::string& group) const;

  // The redundancy descriptor for a dataset; never null after create().
  const ActiveRedundancy& redundancy_for(int id, bool output) const;

 private:
  Context() = default;
  Status configure(const RunOptions& options);
  // Makes the slot part of the job's id.
  Status take_slot(const std::string& slot);
  enum class Slot { kTaken, kInUse, kVanished };
  Result<Slot> try_slot();
  Status open_directories();
  Status open_store(const config::StoreDescriptor& descriptor);
  Status check_own_storage(const Store& store);
  Status activate_redundancy(const config::RedundancyDescriptor& descriptor);
  FileSystem* fs_ = nullptr;
  std::unique_ptr<Communicator> world_;
  NodeCommunicators nodes_;
  std::string host_;
  std::unique_ptr<config::Config> config_;
  double warn_after_ = 0;
  double give_up_after_ = 0;
  JobInfo job_;
  bool alone_ = false;
  bool transparent_ = false;
  std::unique_ptr<File> slot_lock_;
  std::unique_ptr<Directory> control_;
  std::map<std::string, std::unique_ptr<Store>> stores_;
  std::map<std::uint64_t, ActiveRedundancy> redundancy_;
};

// Ends a step that every rank takes part in: ok if all were. A rank that failed keeps its own
// message and, unless told otherwise, logs it; the others get `what` and the lowest rank that
// failed, with its message.
enum class Report { kLog, kQuiet };
Status agree(Communicator& comm, const Status& mine, std::string_view what,
             Report report = Report::kLog);

}  // namespace scr
