// ConfinedFiles: a file system that copies of a daemon go through, which can only reach what they
// may.
//
// Sources are read below private directories `<base>/<user>/scr.<jobid>` of one job that belong to
// this user; destinations are written below the job's prefix directory. No symbolic link is
// followed on the way below either, and only regular files are opened. Everything but open and
// sync_directory is refused.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/base/filesystem.hpp"
#include "core/base/job_owner.hpp"

namespace scr::flush {

class ConfinedFiles : public FileSystem {
 public:
  static Result<std::unique_ptr<ConfinedFiles>> open_job(FileSystem& fs, const JobOwnerInfo& owner);
  // Destinations only: what is copied comes from elsewhere.
  static Result<std::unique_ptr<ConfinedFiles>> open_prefix(FileSystem& fs,
                                                            const std::string& prefix);

  // Asked before a destination is opened; a failure refuses it.
  void before_each_destination(std::function<Status()> check) { check_ = std::move(check); }

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override;
  Status sync_directory(const At& at) override;

  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override;
  Result<FileInfo> info(const At& at, bool follow) override;
  Status make_directory(const At& at, mode_t mode) override;
  Status remove_directory(const At& at) override;
  Status remove(const At& at) override;
  Status rename(const At& from, const At& to, bool exclusive) override;
  Status make_symlink(const std::string& target, const At& at) override;
  Result<std::string> read_symlink(const At& at) override;
  Result<std::vector<DirectoryEntry>> list(const At& at) override;
  Result<SpaceInfo> space(const At& at) override;

 private:
  ConfinedFiles(FileSystem& fs, std::string prefix, std::unique_ptr<Directory> directory)
      : fs_(fs), prefix_(std::move(prefix)), prefix_directory_(std::move(directory)) {}

  Result<At> source(const std::string& path);
  Result<At> destination(const std::string& path);

  FileSystem& fs_;
  std::string prefix_;
  std::string cache_part_;  // "/<user>/scr.<jobid>"; empty: nothing may be read
  std::unique_ptr<Directory> prefix_directory_;
  std::map<std::string, std::unique_ptr<Directory>> caches_;  // by path
  std::function<Status()> check_;
};

// Ok for a real directory of this user that nobody else can write to.
Status check_private_directory(FileSystem& fs, const Directory& directory);

}  // namespace scr::flush
