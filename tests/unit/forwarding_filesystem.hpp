// A file system and a file that pass everything on, for tests that let something happen between two
// steps, or look at what is done.
#pragma once

#include <memory>
#include <utility>

#include "core/base/filesystem.hpp"

namespace scr::testing {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    return inner_->read_some(buffer, offset);
  }
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
    return inner_->write_some(data, offset);
  }
  Result<FileInfo> info() override { return inner_->info(); }
  Status truncate(std::uint64_t size) override { return inner_->truncate(size); }
  Status allocate(std::uint64_t offset, std::uint64_t length) override {
    return inner_->allocate(offset, length);
  }
  Status sync() override { return inner_->sync(); }
  void start_writing(std::uint64_t offset, std::uint64_t length) override {
    inner_->start_writing(offset, length);
  }
  void set_time(std::int64_t mtime_ns) override { inner_->set_time(mtime_ns); }
  Status set_mode(mode_t mode) override { return inner_->set_mode(mode); }
  Result<Mapping> map(std::uint64_t offset, std::size_t length) override {
    return inner_->map(offset, length);
  }
  Status lock(LockMode mode, bool wait) override { return inner_->lock(mode, wait); }
  Status unlock() override { return inner_->unlock(); }
  Status close() override { return inner_->close(); }
  const std::string& path() const override { return inner_->path(); }
  int descriptor() const override { return inner_->descriptor(); }

 protected:
  std::unique_ptr<File> inner_;
};

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
