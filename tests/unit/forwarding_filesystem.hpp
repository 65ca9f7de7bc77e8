// A file system that passes everything on, for tests that let something happen between two steps.
#pragma once

#include "core/base/filesystem.hpp"

namespace scr::testing {

class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& inner = real_file_system()) : inner_(inner) {}

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    return inner_.open(at, options);
  }
  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override {
    return inner_.open_directory(at, no_follow);
  }
  Result<FileInfo> info(const At& at, bool follow) override { return inner_.info(at, follow); }
  Status make_directory(const At& at, mode_t mode) override {
    return inner_.make_directory(at, mode);
  }
  Status remove_directory(const At& at) override { return inner_.remove_directory(at); }
  Status remove(const At& at) override { return inner_.remove(at); }
  Status rename(const At& from, const At& to, bool exclusive) override {
    return inner_.rename(from, to, exclusive);
  }
  Status exchange(const At& one, const At& other) override { return inner_.exchange(one, other); }
  Status make_symlink(const std::string& target, const At& at) override {
    return inner_.make_symlink(target, at);
  }
  Result<std::string> read_symlink(const At& at) override { return inner_.read_symlink(at); }
  Result<std::vector<DirectoryEntry>> list(const At& at) override { return inner_.list(at); }
  Status sync_directory(const At& at) override { return inner_.sync_directory(at); }
  Result<SpaceInfo> space(const At& at) override { return inner_.space(at); }

 protected:
  FileSystem& inner_;
};

}  // namespace scr::testing
