// FileMover: brings the files of ranks that have moved to the nodes where those ranks now run.
//
// Collective over the world. Every process may send the files of several ranks and receives at most
// those of its own; both directions make progress by themselves, so no pattern of moves can block.
// The receiver lists the files in its filemap, writes them under temporary names, verifies their
// checksums and renames them; only when it has said so does the sender delete its copy. A run
// killed at any instant finds at least one whole copy.
#pragma once

#include <string>
#include <vector>

#include "core/runtime/cache.hpp"

namespace scr {

// The name of a file while it arrives: ".moving.<name>" in the same folder.
std::string moving_name(const std::string& file);

struct OutgoingFiles {
  int rank = 0;  // whose files; also the process that wants them
};

struct IncomingFiles {
  int from = 0;        // process that has them
  FilemapEntry entry;  // what will come; `directory` is where it goes here
};

// Moves the files of one dataset. `incoming` is set on processes that are to receive. Returns ok if
// the own files arrived (or nothing was to come) and those to send could be read; a failed receive
// leaves the sender's copy in place.
Status move_files(Context& context, Cache& cache, int dataset,
                  const std::vector<OutgoingFiles>& outgoing,
                  const std::optional<IncomingFiles>& incoming);

}  // namespace scr
