// The datasets that belong to a prefix directory: those of its index, and those in the cache of
// this node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/filemap.hpp"
#include "flush/index.hpp"

namespace scr::tools {

// A dataset, or a copy of one.
struct DatasetRow {
  flush::IndexEntry entry;  // directory is empty if it is in the cache only
  bool current = false;
  bool in_prefix = false;
  bool in_containers = false;        // of the prefix directory
  std::vector<FilemapEntry> cached;  // of each rank whose files are in this node's cache
  std::vector<int> cached_ranks;     // which ranks these are
  std::string damage;                // what is wrong with its summary

  const DatasetDescriptor& dataset() const { return entry.dataset; }
  bool in_cache() const { return !cached.empty(); }
  // "cache", "prefix", "cache+containers".
  std::string where() const;
  const char* state() const;  // complete, partial, failed, damaged
  const char* type() const;   // ckpt, out, both
};

struct CacheOptions {
  std::vector<std::string> bases;  // control directories; empty: no cache is looked at
  std::string user;
};
// From environment and configuration files. A configuration that does not parse is an error.
Result<CacheOptions> cache_options_in_force(FileSystem& fs, const std::string& prefix);

// Newest first. What is wrong with the cache or a summary is added to `warnings`.
Result<std::vector<DatasetRow>> list_datasets(FileSystem& fs, const std::string& prefix,
                                              const CacheOptions& cache,
                                              std::vector<std::string>& warnings);

// By name, by the name of its directory below .scr, or by its number; of several the newest, but
// one that is in the index wins.
Result<DatasetRow> find_dataset(const std::vector<DatasetRow>& rows, const std::string& name);

// "2026-01-02T03:04:05" (UTC) of the time that a dataset was created.
std::string created_text(const DatasetDescriptor& dataset);

}  // namespace scr::tools
