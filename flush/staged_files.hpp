// StagedFiles: the files of a dataset that waits for its commit in the prefix directory, seen under
// their own names, wherever they lie: under temporary names, or as segments of containers.
//
// A file system for the rebuild of redundancy sets (redundancy/redundancy.hpp), which finds here
// the directory of the cache. New files of a rebuilt member are written straight to where they
// belong; as long as no summary is there nobody takes them for whole. Only open does something;
// renames and removals of a rebuild succeed without effect, all else is refused.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "flush/containers.hpp"

namespace scr::flush {

class StagedFiles : public FileSystem {
 public:
  // `prefix` is the prefix directory and `directory` that of the dataset; both must outlive this.
  StagedFiles(FileSystem& fs, const Directory& prefix, const Directory& directory)
      : fs_(fs), prefix_(prefix), directory_(directory) {}

  // Says where a file is: at a path below the prefix directory, below the directory of the dataset,
  // or in segments, whose containers are below the latter. `name` may be told anew.
  void add_plain(const std::string& name, std::string path_in_prefix);
  void add_own(const std::string& name, std::string path_in_directory);
  void add_contained(const std::string& name, std::vector<Segment> segments);
  // `name` is the file that was added as `other`.
  void add_alias(const std::string& name, const std::string& other);

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override;
  Status rename(const At& from, const At& to, bool exclusive) override;
  Status remove(const At& at) override;
  Status make_directory(const At& at, mode_t mode) override;

  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override;
  Result<FileInfo> info(const At& at, bool follow) override;
  Status remove_directory(const At& at) override;
  Status make_symlink(const std::string& target, const At& at) override;
  Result<std::string> read_symlink(const At& at) override;
  Result<std::vector<DirectoryEntry>> list(const At& at) override;
  Status sync_directory(const At& at) override;
  Result<SpaceInfo> space(const At& at) override;

 private:
  struct Place {
    const Directory* directory = nullptr;
    std::string path;               // empty: in containers
    std::vector<Segment> segments;  // their files are names in the dataset directory
  };

  FileSystem& fs_;
  const Directory& prefix_;
  const Directory& directory_;
  std::map<std::string, std::shared_ptr<const Place>> places_;
};

}  // namespace scr::flush
