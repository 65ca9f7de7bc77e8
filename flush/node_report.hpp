// NodeReport: what scr_copy on one node tells scr_scavenge, through a file in the prefix directory,
// so that it does not matter how the command was started there and where its output goes.
// Format: docs/formats/scavenge.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/hash_file.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/rank_ranges.hpp"

namespace scr::flush {

// A dataset in the cache of the node.
struct NodeDataset {
  DatasetDescriptor dataset;
  Layout layout;
  bool keep_newer = false;  // as in FlushOptions
  bool in_prefix = false;   // the node's flush file says that it has been flushed
  RankRanges ranks;         // whose files the node has
  bool operator==(const NodeDataset&) const = default;
};

struct NodeReport {
  std::string host;                   // the name by which scr_scavenge knows the node
  bool absent = false;                // the node has no control directory of the job
  std::string other_prefix;           // that the datasets are of, if it is another; none is listed
  std::string error;                  // why nothing could be done; empty if it could
  std::vector<std::string> problems;  // what was passed over: damaged filemaps and files
  std::vector<NodeDataset> datasets;  // of a survey
  RankRanges copied;                  // of a copy: ranks whose application files are whole
  std::uint64_t bytes = 0;            // copied now

  Hash to_hash() const;
  static Result<NodeReport> from_hash(const Hash& hash);
  bool operator==(const NodeReport&) const = default;
};

// A name that is safe as a part of a path.
Result<std::string> node_report_name(const std::string& host);
Status write_node_report(FileSystem& fs, const std::string& directory, const NodeReport& report);
// All reports of a directory, by host. One that cannot be read is left out, with a warning.
Result<std::map<std::string, NodeReport>> read_node_reports(FileSystem& fs,
                                                            const std::string& directory);

}  // namespace scr::flush
