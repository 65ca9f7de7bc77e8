// NodeCommand: what scr_scavenge has scr_copy do on a node, as words of its command line and back.
#pragma once

#include <string>
#include <vector>

#include "flush/node_copy.hpp"

namespace scr::flush {

struct NodeCommand {
  enum class Kind {
    kSurvey,  // says what is in the cache
    kCopy,    // copies `copy.dataset`
    kMark,    // `copy.dataset` is in the prefix directory now
  };
  Kind kind = Kind::kSurvey;
  NodeJob job;
  NodeCopyRequest copy;
  std::string report;  // directory for the report; empty: none is written
  mode_t umask = 022;  // for new files: that of the user, who is not logged in on the node
};

// The options of scr_copy on a host. The host gets the name that it has in the list of nodes: it
// may know itself by another one, and its report must be found again.
std::vector<std::string> to_words(const NodeCommand& command, const std::string& host);

// Does it, and writes the report. What went wrong is in the report; the failure to write that is
// returned.
Result<NodeReport> run_node_command(FileSystem& fs, const std::string& host,
                                    const NodeCommand& command);

}  // namespace scr::flush
