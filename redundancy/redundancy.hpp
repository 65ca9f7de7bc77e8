// Encode, verify and rebuild the files of a dataset, one redundancy set at a time.
//
// All functions that communicate are collective over the processes that host a member of the set,
// and over nobody else. A process that takes part in several sets calls them in ascending order of
// set id; then no order of arrival can make them wait for each other in a circle. They return the
// same success or failure on every process of the set, with a message for each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/file_meta.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/hash.hpp"
#include "core/mpi/communicator.hpp"
#include "redundancy/scheme.hpp"

namespace scr::redundancy {

// The files of one member, in the order in which they are logically concatenated.
struct MemberFiles {
  int index = 0;                // member of the set
  std::vector<FileMeta> files;  // application files; empty for a guest
  FileMeta redundancy;          // the redundancy file; unused for SINGLE
  Hash flush;                   // FLUSHDESC of the rank's filemap, which a rebuild restores, too
};

struct EncodeOptions {
  std::size_t piece_size = 0;  // 0: the best for a set of this size
  // For a rebuild: called with the bytes that this process has read and written, and those it will.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

// Computes the checksum of every file of this member and writes its redundancy file into
// `directory`, reading each byte once at most. `member.files` come with path and size, and with crc
// if who wrote them knows it, and leave with crc; `member.redundancy` is filled in. The redundancy
// file is written under its final name: callers record it in the filemap first, and a dataset
// counts only once it is complete everywhere.
Status encode(Communicator& comm, FileSystem& fs, const Directory& directory,
              const DatasetDescriptor& dataset, const RedundancySet& set, MemberFiles& member,
              const EncodeOptions& options = {});

// What a process that hosts a member brings to a rebuild, and takes home from it.
struct HostedMember {
  int index = 0;
  bool present = false;  // all files are there with the right sizes
  Status problem = {};   // why not, if more is known than that files are missing
  const Directory* directory = nullptr;
  MemberFiles content;            // in when present; out when rebuilt
  bool rebuilt = false;           // out: the files are new
  std::string lost_because = {};  // out: why it counted as lost; empty if it did not
};

struct RebuildResult {
  std::vector<int> rebuilt;   // member indexes that were lost or damaged and are whole now
  DatasetDescriptor dataset;  // as stored in the survivors' headers
};

// Called when files of a rebuilt member are about to be created, so that the caller can record them
// in its filemap before they exist.
using RegisterFiles = Status (*)(void* context, const HostedMember& member);

// Rebuilds what is missing. `hosts[i]` is the rank in `comm` of the process that hosts member i
// now; `mine` are the members hosted here (one process may host several). Survivors are verified as
// they are read: one whose checksum is wrong counts as lost as well, and its bytes are never used.
// New files are written under temporary names, verified, and renamed. More losses than the set
// bears: kUnrecoverable everywhere, nothing changed; kIoError instead if some of it only could not
// be read, and so may be whole. If nothing is missing, only returns. With `verify_all`, survivors
// are read and verified even if nothing is missing.
Result<RebuildResult> rebuild(Communicator& comm, FileSystem& fs, const RedundancySet& set,
                              const std::vector<int>& hosts, std::vector<HostedMember>& mine,
                              bool verify_all, RegisterFiles register_files, void* context,
                              const EncodeOptions& options = {});

// A new file of a member has this name and a number until it is complete:
// ".rebuild.<set>.<member>.<n>" in the member's directory.
std::string temporary_name_start(const RedundancySet& set, int index);

// What a redundancy file says before its payload (docs/formats/redundancy.md).
struct RedundancyHeader {
  DatasetDescriptor dataset;
  RedundancySet set;
  int index = 0;  // whose file this is
  std::uint64_t chunk = 0;
  std::uint32_t payload_crc = 0;
  // The members whose metadata this header holds: itself first; then its left neighbour (PARTNER,
  // XOR) or all the others in order (RS).
  std::vector<MemberFiles> members;

  std::uint64_t payload_size() const;
  Hash to_hash() const;
  // Any hash is safe: what is not consistent in itself is kCorrupt.
  static Result<RedundancyHeader> from_hash(const Hash& hash);

  // Where it was read from; not part of the hash.
  std::uint64_t payload_offset = 0;
  std::uint32_t header_crc = 0;  // of the bytes before the payload
};

// Reads the header of a redundancy file; verifies its checksum and the file's size, not the
// payload.
Result<RedundancyHeader> read_redundancy_header(FileSystem& fs, const At& at);

// Reads every file of a member that is present and compares size and checksum (no communication).
// kCorrupt with the file's name and the reason at the first damage.
Status verify_member(FileSystem& fs, const Directory& directory, const MemberFiles& member);

}  // namespace scr::redundancy
