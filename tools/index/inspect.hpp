// Looks into the files of datasets with HDF5 (hdf5_worker.hpp): trees, checks, values, differences.
// Results come one by one, in the order of the files.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/index/dataset_files.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::tools {

struct InspectOptions {
  std::chrono::seconds patience{300};
  std::function<void(std::uint64_t files)> progress = {};  // called with the files done
  std::string library = {};                                // Hdf5Work::library
};

// --- files of datasets

struct DatasetContents {
  DatasetRow row;
  std::vector<DatasetFile> files;
};

struct FileReport {
  std::size_t dataset = 0;  // of those given
  const DatasetFile* file = nullptr;
  bool hdf5 = false;
  std::vector<vfd::Hdf5Object> objects = {};
  std::vector<std::string> problems = {};  // damage
  std::vector<std::string> notes = {};
};

enum class Depth {
  kTree,   // objects with their attributes
  kCheck,  // also every checksum and all data, read by HDF5; objects are not kept
};

// If HDF5 cannot be used, every file is still reported, with what is known without it, and the
// failure returned.
Status inspect_files(FileSystem& fs, const std::string& prefix,
                     const std::vector<DatasetContents>& datasets, Depth depth,
                     const InspectOptions& options,
                     const std::function<void(const FileReport&)>& report);

// --- values of many datasets

using Values = std::vector<std::optional<vfd::Hdf5Value>>;

// The values of `names` (Hdf5Reader::find_value) in each dataset: of its first HDF5 file that has
// them, as far as the first files go.
Status find_values(FileSystem& fs, const std::string& prefix, const std::vector<DatasetRow>& rows,
                   const std::vector<std::string>& names, const InspectOptions& options,
                   const std::function<void(std::size_t row, const Values& values,
                                            const std::vector<std::string>& problems)>& found);

// --- two datasets -------------------------------------------------------------------------------

struct FilePair {
  const DatasetFile* first = nullptr;  // null: only the other has it
  const DatasetFile* second = nullptr;
};

// Files of the same name; the rest, whose names may have the time step in them, rank by rank in
// their order.
std::vector<FilePair> pair_files(const std::vector<DatasetFile>& first,
                                 const std::vector<DatasetFile>& second);

struct PairReport {
  FilePair pair;
  bool hdf5 = false;                              // both are
  std::vector<vfd::Difference> differences = {};  // the first of them
  std::uint64_t count = 0;                        // of all differences
  std::uint64_t objects = 0;                      // compared
  std::vector<std::string> problems = {};
};

Status compare_files(FileSystem& fs, const std::string& prefix,
                     const std::vector<DatasetFile>& first, const std::vector<DatasetFile>& second,
                     const InspectOptions& options,
                     const std::function<void(const PairReport&)>& report);

// --- JSON ---------------------------------------------------------------------------------------

nlohmann::ordered_json to_json(const vfd::Hdf5Value& value);
nlohmann::ordered_json to_json(const vfd::Hdf5Object& object);

}  // namespace scr::tools
