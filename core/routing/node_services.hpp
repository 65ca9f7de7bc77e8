// NodeServices: the service of each node for the other nodes of a run, and the homes of shared
// files in it.
//
// Of each node one process has the server: of files in the node's cache, which it finds by what
// all processes of the node have published, and of the part of the homes (shared_file::Homes) that
// is on the node. Every process can ask every home and open every log. Without start(), in a
// process by itself, there is no service and no home, and what is published is nothing.
//
// The session calls it, with its lock held where something changes; start() and end() come when no
// other thread opens files that are shared. What homes() and dataset_logs() give may be used by any
// thread without the lock, also after end(): then it fails.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/runtime/runtime.hpp"
#include "core/service/exports.hpp"
#include "core/service/range_service.hpp"
#include "core/shared_file/home.hpp"
#include "flush/flush.hpp"

namespace scr::routing {

class NodeServices {
 public:
  // A log in the cache of a dataset that is sealed.
  struct SealedLog {
    std::uint64_t file = 0;
    std::uint64_t log = 0;
    bool first = false;  // of the processes that wrote the file
  };

  explicit NodeServices(FileSystem& fs) : fs_(fs) {}

  // Collective over the run: one server a node, for all its processes. If some node cannot be
  // reached there are no homes, and the user is told. `runtime` must outlive the last use of what
  // dataset_logs() makes, but for files that are open.
  void start(Runtime& runtime);
  // Files that are still open for reading are read from where they were flushed to.
  void end();

  // Of this one among the nodes.
  int node() const { return node_; }
  // Of this node's server, as text; empty if there is none.
  const std::string& endpoint() const { return endpoint_; }
  // Null before start() and after end(), and if no file can be shared.
  const std::shared_ptr<const shared_file::Homes>& homes() const { return homes_; }

  // Lets a file of the dataset in the cache be read by other nodes; one that is not there, but in
  // the prefix directory, needs no service.
  Status publish(int dataset, std::uint64_t id, const std::string& path);
  void withdraw(std::uint64_t id);
  // A file that another node has published.
  Result<std::unique_ptr<File>> open_remote(const service::Endpoint& endpoint, std::uint64_t id,
                                            const service::RemoteOptions& options) const;
  // Opens logs of other processes: files of this node, or through the service of another. May be
  // called by any thread, and so may what it gives.
  flush::OpenSharedLog dataset_logs(int dataset, bool sealed);

  // Tells the homes what a log of an earlier run holds, on the process that has it now: of which
  // file it is.
  struct Announced {
    std::uint64_t file = 0;
    bool first = false;
    std::int64_t written = 0;
  };
  Result<Announced> announce(const FilemapEntry& entry, const FileMeta& meta);
  void note_sealed(int dataset, const SealedLog& log) { sealed_[dataset].push_back(log); }
  // The dataset leaves the cache, or its files are at their names now.
  void forget_sealed(int dataset);

 private:
  bool agree_on_key();
  void start_exports();
  Status start_server();
  void find_homes();
  void use_homes(std::shared_ptr<const std::vector<service::Endpoint>> nodes, int node);
  std::vector<Result<shared_file::Bytes>> ask(std::vector<shared_file::Homes::Message> messages,
                                              bool is_home);
  bool can_reach_all(const std::vector<service::Endpoint>& nodes, bool complete);
  const Directory& cache_of(int dataset) const;

  FileSystem& fs_;
  Runtime* runtime_ = nullptr;  // from start() on
  int node_ = 0;                // number of this one among nodes_
  std::optional<service::Key> key_;
  std::unique_ptr<service::Exports> exports_;
  shared_file::Home home_;                        // of this node, if it has the server
  std::unique_ptr<service::RangeServer> server_;  // calls home_
  std::string endpoint_;
  std::shared_ptr<const std::vector<service::Endpoint>> nodes_;  // by number
  std::shared_ptr<const shared_file::Homes> homes_;
  std::map<int, std::vector<SealedLog>> sealed_;  // by dataset in the cache
  // Held by who uses the services of the nodes; alone to end that.
  mutable std::shared_mutex mutex_;
  bool ended_ = false;
};

}  // namespace scr::routing
