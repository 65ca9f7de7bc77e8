// Scan: what scr_copy has brought of a dataset to its directory in the prefix, and what is missing.
//
// Rank filemaps are read and compared with the files beside them: names, types and sizes, and the
// headers of redundancy files; checksums were compared when the files were copied. Everything in
// the prefix directory may have been changed by others, so every name and number is checked, and no
// symbolic link is followed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/filemap.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/intent.hpp"
#include "flush/rank_ranges.hpp"
#include "redundancy/redundancy.hpp"

namespace scr::flush {

struct ScannedRank {
  FilemapEntry entry;          // files that are not whole are marked so (COMPLETE 0)
  FlushDescriptor descriptor;  // of the entry
  bool whole = false;          // all application files are there
};

// A redundancy set of which some redundancy file is there.
struct ScannedSet {
  redundancy::RedundancySet set;
  std::vector<bool> lost;  // by member: its application files or its redundancy file is not there
  bool needed = false;     // some rank that is not whole has its files in this set
  bool bearable = false;   // what is lost can be rebuilt
};

struct Scan {
  Intent intent;
  Layout layout;
  std::map<int, ScannedRank> ranks;  // that have a rank filemap
  std::map<int, ScannedSet> sets;    // by id
  // Application files of ranks that are not whole, as redundancy headers tell.
  std::map<int, std::vector<FileMeta>> told;
  RankRanges missing;                 // ranks that are not whole
  std::vector<std::string> problems;  // with names of files
  std::string why_unrecoverable;      // empty if what is missing can be rebuilt, or nothing is

  const DatasetDescriptor& dataset() const { return intent.dataset; }
  bool complete() const { return missing.empty(); }
  bool recoverable() const { return why_unrecoverable.empty(); }
};

// Reads the dataset directory `<prefix>/.scr/<name>` of a scavenge that has been begun.
Result<Scan> scan_dataset(FileSystem& fs, const std::string& prefix, const std::string& name);

}  // namespace scr::flush
