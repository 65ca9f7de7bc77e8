// The files of one dataset, wherever they are: at their names, in containers, in this node's cache.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "flush/prefix_reader.hpp"
#include "tools/index/dataset_list.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::tools {

struct DatasetFile {
  std::string name;  // relative to the prefix directory
  int rank = 0;      // that wrote it
  std::uint64_t size = 0;
  std::optional<std::uint32_t> crc;
  std::optional<flush::StoredLocation> stored;  // in the prefix directory; else
  std::string cached;                           // its path in the cache; empty if
  bool only_logs = false;  // the cache has logs of it, of the processes that wrote it together
};

// Why a file of which there are only logs is not read.
std::string only_logs_text(const DatasetFile& file);

// Application files, rank by rank; `pattern` (a shell pattern on the name) leaves others out.
// With `first_block_only` those of the first 1024 ranks, which is quicker.
Result<std::vector<DatasetFile>> files_of(FileSystem& fs, const std::string& prefix,
                                          const DatasetRow& row, const std::string& pattern = "",
                                          bool first_block_only = false);

Result<std::unique_ptr<File>> open_file(FileSystem& fs, const std::string& prefix,
                                        const DatasetFile& file);

// Whether it has HDF5's signature, at its begin or after a user block (512, 1024, 2048, ... bytes).
Result<bool> is_hdf5(File& file);

// Reads it once; kCorrupt if its size or checksum is wrong. `sink`, if given, gets the bytes.
using ByteSink = std::function<Status(std::span<const std::byte> data, std::uint64_t offset)>;
Status verify_file(FileSystem& fs, const std::string& prefix, const DatasetFile& file,
                   const ByteSink& sink = nullptr);

// The files of one dataset for HDF5, which asks for them by `<prefix>/<name>`.
class DatasetSource final : public vfd::FileSource {
 public:
  DatasetSource(FileSystem& fs, std::string prefix, const std::vector<DatasetFile>& files);
  std::string path_of(const DatasetFile& file) const { return prefix_ + "/" + file.name; }
  Result<std::unique_ptr<File>> open(const std::string& name) override;

 private:
  FileSystem& fs_;
  std::string prefix_;
  std::map<std::string, const DatasetFile*> files_;
};

}  // namespace scr::tools
