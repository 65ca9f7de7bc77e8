// rank2file: which rank wrote which files of a dataset in the prefix directory, with size, checksum
// and, in containers, segments. Kept in blocks of ranks, one file a block, so that no process ever
// holds all of it: `rank2file.scr` says how many ranks and blocks there are,
// `rank2file.<block>.scr` has the ranks of one. Format: docs/formats/summary.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/file_meta.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/hash_file.hpp"
#include "core/mpi/communicator.hpp"
#include "flush/containers.hpp"

namespace scr::flush {

struct StoredFile {
  std::string file;  // relative to the prefix directory
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  std::optional<std::int64_t> mtime_ns = {};  // of a plain file, as the flush left it; a hint
  // False (NOFETCH): redundancy data that a scavenge has brought, which lies beside the summary and
  // is not brought back to the cache.
  bool fetch = true;
  // Several processes wrote it together; it is read where it is, and not brought to the cache.
  bool shared = false;
  bool to_cache() const { return fetch && !shared; }
  std::vector<Segment> segments;  // empty: a plain file
  bool contained() const { return !segments.empty() || in_container; }
  bool in_container = false;  // an empty file of a dataset in containers has no segments
  bool operator==(const StoredFile&) const = default;
};

using RankFiles = std::vector<StoredFile>;

Hash rank_files_to_hash(const RankFiles& files);
Result<RankFiles> rank_files_from_hash(const Hash& hash);

inline constexpr int kRanksPerBlock = 1024;

// Collective: the first rank of each block gathers its block and writes it; rank 0 writes the top.
Status write_rank2file(Communicator& comm, FileSystem& fs, const std::string& directory,
                       const RankFiles& mine, Durability durability = Durability::kDurable);
// Makes durable what `rank` has written of it without being.
Status sync_rank2file(FileSystem& fs, const std::string& directory, int rank);
// Collective: the files of this rank, without redundancy data. Fails on all ranks if any block is
// damaged, or if the number of ranks differs (kFailedPrecondition).
Result<RankFiles> read_rank2file(Communicator& comm, FileSystem& fs, const std::string& directory);

// Without other processes: for commands.
Result<int> read_rank_count(FileSystem& fs, const std::string& directory);
// The same of the hash of that file.
Result<int> rank_count_from_hash(const Hash& hash);
Result<std::map<int, RankFiles>> read_rank2file_block(FileSystem& fs, const std::string& directory,
                                                      int block);
Result<std::map<int, RankFiles>> rank2file_block_from_hash(const Hash& hash, int block);
// Blocks of that many ranks.
inline int rank2file_block_count(int ranks) {
  return ranks / kRanksPerBlock + (ranks % kRanksPerBlock != 0 ? 1 : 0);
}
Status write_rank2file_block(FileSystem& fs, const std::string& directory, int block,
                             const std::map<int, RankFiles>& ranks);
Status write_rank2file_top(FileSystem& fs, const std::string& directory, int ranks,
                           Durability durability = Durability::kDurable);

}  // namespace scr::flush
