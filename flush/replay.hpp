// Replay: a file that several processes have written together becomes one plain file again.
//
// Its bytes are in the logs of those processes (core/shared_file). Every process of the flush gets
// a region of the file to write, learns from the others which logs have its bytes, and copies it
// like any other file: reading it puts the pieces together, and verifies each. Long holes are not
// written where the file is new, so that they take no room there either.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "core/shared_file/log.hpp"
#include "core/shared_file/log_reader.hpp"
#include "flush/copy.hpp"
#include "flush/rank2file.hpp"

namespace scr::flush {

// Opens a log of a file of the dataset being flushed, of this or of another node.
using OpenSharedLog = std::function<Result<std::unique_ptr<File>>(
    const std::string& file, const shared_file::LogPlace& place)>;

// A log that this process has in the cache.
struct SharedLog {
  std::string file;  // the shared one, relative to the prefix directory
  shared_file::LogTable table;
  shared_file::LogPlace place;
};

// Bytes of a region, in one log.
struct ReplayPart {
  shared_file::LogEntry entry;
  shared_file::LogPlace place;
};

// What a process is to write.
struct ReplayRegion {
  std::string file;
  int owner = 0;  // rank of the flush that lists the file
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<ReplayPart> parts;        // by offset
  std::vector<CopyPiece> destinations;  // of the region, in its order
  bool skips_holes = false;             // long ones: they are there already
};

// Collective: divides the files among all processes. The process that has the log of a file's first
// rank is its owner: it gives the file's place in `place_file(file, size)`, as pieces for all of it
// in order, and lists it. `new_files`: those places, if not in containers, are files that have
// nothing but a hole of that size.
Result<std::vector<ReplayRegion>> plan_replay(
    Communicator& world, const std::vector<SharedLog>& logs,
    const std::function<std::vector<CopyPiece>(const std::string& file, std::uint64_t size)>&
        place_file,
    bool new_files = false);

// The bytes of a region as a file, without the holes that it skips.
std::unique_ptr<File> open_region(const ReplayRegion& region, OpenSharedLog open_log);

// What copies the regions, which must outlive it.
std::vector<CopyTask> replay_tasks(const std::vector<ReplayRegion>& regions,
                                   const OpenSharedLog& open_log);

// Collective, after the copy: `done[i]` are the copied pieces of `regions[i]`. Gives the owner of
// each file what its pieces have for checksums: by file, in order of the file.
struct ReplayedPiece {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t length = 0;
  std::uint32_t crc = 0;
};
Result<std::map<std::string, std::vector<ReplayedPiece>>> collect_replayed(
    Communicator& world, const std::vector<ReplayRegion>& regions, std::span<const CopyTask> done);

// Gives the shared files among `files` the checksums of all their pieces.
Status add_checksums(const std::map<std::string, std::vector<ReplayedPiece>>& pieces,
                     RankFiles& files);

}  // namespace scr::flush
