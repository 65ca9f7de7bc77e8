// NodeCopy: what scr_copy does on one node at the end of an allocation, without MPI and without the
// program: it brings the cached files of a dataset, as the node's filemaps list them, to the prefix
// directory, laid out as a flush would.
//
// Files keep their temporary names: whether the dataset is whole is decided when all nodes are done
// (scavenge.hpp). Every byte is read once, its checksum computed on the way and compared with the
// filemap. What a killed copy has left is kept as far as its checksum proves it.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/base/filemap.hpp"
#include "flush/copy.hpp"
#include "flush/node_report.hpp"
#include "flush/rank_ranges.hpp"

namespace scr::flush {

// Where the job's state on this node is, and where its data goes.
struct NodeJob {
  std::string control;  // <base>/<user>/scr.<jobid>, absolute; must be this user's and private
  std::string prefix;   // absolute
};

struct NodeCopyRequest {
  int dataset = 0;
  std::string directory;  // of the dataset, below .scr; its intent says which dataset it is for
  // Redundancy files are copied, too, of sets that have members on these nodes, or these ranks
  // among their members (the partner round).
  std::set<std::string> failed_hosts;
  RankRanges missing;
  // Ranks whose files are on several nodes, and the node that shall copy them.
  std::map<int, std::string> assigned;
  CopyOptions copy;
};

// A node without the control directory has nothing of the job: there is nothing to tell, to copy or
// to mark, and that is no failure.

// All that the filemaps of a node list; `problems` gets those that cannot be read.
Result<Filemap> read_node_filemap(FileSystem& fs, const Directory& control,
                                  std::vector<std::string>& problems);

// kFailedPrecondition: what the cache has belongs to runs in the prefix directory `other`.
Status not_of_prefix(const NodeJob& job, const std::string& other);

// What is in the cache of this node.
Result<NodeReport> survey_node(FileSystem& fs, const NodeJob& job, const std::string& host);

// Copies. Files that are damaged or missing are passed over, and named in the report.
Result<NodeReport> copy_node(FileSystem& fs, const NodeJob& job, const std::string& host,
                             const NodeCopyRequest& request);

// Says in the node's flush file that a dataset is in the prefix directory, so that scr_clean knows
// that its copy in the cache may go.
Status mark_flushed(FileSystem& fs, const NodeJob& job, int dataset);

}  // namespace scr::flush
