// Scavenge: files that several processes have written together. What scr_copy brings to the prefix
// directory, and a rebuild makes anew, are the logs of those processes; here they become one plain
// file, or segments of containers, as a flush leaves it (replay.hpp). One process, without MPI.
#pragma once

#include <map>
#include <string>

#include "flush/rank2file.hpp"
#include "flush/scan.hpp"

namespace scr::flush {

// Of a dataset that is complete in its directory below .scr. Gives the shared files among `ranks`
// (which have their places) their bytes, durable under temporary names, and their checksums. Every
// byte of a log is verified as it is read; a log that turns out to be damaged no longer counts as
// there, so that the next scavenge copies it again or rebuilds it: kCorrupt.
Status replay_scavenged(FileSystem& fs, const std::string& prefix, const std::string& directory,
                        const Scan& scan, std::map<int, RankFiles>& ranks);

}  // namespace scr::flush
