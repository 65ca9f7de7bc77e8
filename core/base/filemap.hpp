// Filemap: which files of which ranks and datasets are on this node's storage, and what is known of
// them.
//
// Each process keeps its own filemap on disk, in the control directory, and brings it up to date
// *before* a file is created and *after* one is deleted (SCR manual §4.1): a file in the cache is
// always listed, while a listed file may be missing. The master filemap lists the filemap files of
// a node. The same form, without directory and redundancy descriptor, is the rank filemap that lies
// beside scavenged files in the prefix.
// Format: docs/formats/filemap.md. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/file_meta.hpp"
#include "core/base/hash_file.hpp"

namespace scr {

// Names in the control directory.
inline constexpr std::string_view kMasterFilemapName = "filemap.scrinfo";
// "filemap_<generation>_<n>.scrinfo": n counts the processes of a node from 0; each run uses names
// of a new generation and then replaces the master filemap, so that no instant loses an entry.
std::string filemap_name(std::uint64_t generation, int local_rank);
// True for names that filemap_name() gives, and for those without generation (SCR manual §9.3).
bool is_filemap_name(std::string_view name);

// The files of one rank (of the run that wrote them) in one dataset.
struct FilemapEntry {
  DatasetDescriptor dataset = {};
  // Absolute and normalised path of the dataset directory in the cache; empty in a rank filemap.
  std::string directory = {};
  // How many files, redundancy files included, must be there; -1: not known yet.
  int expected_files = -1;
  // Application files in the order they were registered, then redundancy files.
  std::vector<FileMeta> files = {};
  Hash redundancy = {};  // redundancy descriptor (redundancy::StoredDescriptor)
  Hash flush = {};       // flush descriptor (container segments and the like)

  FileMeta* find(std::string_view file);
  const FileMeta* find(std::string_view file) const;
  // Adds, or replaces one of the same name.
  void put(FileMeta meta);
  // Takes a file off the list; one that is not listed is fine.
  void remove(std::string_view file);
  bool operator==(const FilemapEntry&) const = default;
};

class Filemap {
 public:
  // The entry, or nullptr.
  const FilemapEntry* get(int rank, int dataset) const;
  FilemapEntry* get(int rank, int dataset);
  // The entry, made if there was none; a new one has only the dataset's id.
  FilemapEntry& at(int rank, int dataset);
  void remove(int rank, int dataset);
  // Takes all entries of `other` that this one has not; where both have one, the complete one wins,
  // then the one with more files, then the one that is here.
  void merge(const Filemap& other);

  bool empty() const { return entries_.empty(); }
  std::vector<int> datasets() const;          // ids, ascending
  std::vector<int> ranks(int dataset) const;  // ranks with an entry, ascending
  std::vector<int> ranks() const;
  Filemap only_rank(int rank) const;

  // What every filemap must fulfil, in memory and on disk: ranks from 0 and below the number of
  // ranks of the dataset, ids from 1 that agree with the descriptors, safe paths, no file listed
  // twice, not more files than expected.
  Status check() const;

  Hash to_hash() const;
  // Every path and number is checked; an entry that does not hold together is kCorrupt.
  static Result<Filemap> from_hash(const Hash& hash);
  bool operator==(const Filemap&) const = default;

 private:
  std::map<int, std::map<int, FilemapEntry>> entries_;  // rank, then dataset
};

// With what its journal adds (filemap_journal.hpp).
Result<Filemap> read_filemap(FileSystem& fs, const At& at);
// Refuses a filemap that does not pass check(), which read_filemap() could not read again.
Status write_filemap(FileSystem& fs, const At& at, const Filemap& filemap,
                     Durability durability = Durability::kVolatile);

// The master filemap: names of the filemap files in the same directory (relative, safe).
Result<std::vector<std::string>> master_filemap_from_hash(const Hash& hash);
Result<std::vector<std::string>> read_master_filemap(FileSystem& fs, const At& at);
Status write_master_filemap(FileSystem& fs, const At& at, const std::vector<std::string>& names);

}  // namespace scr
