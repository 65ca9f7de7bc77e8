// RealFile: a File over an open descriptor of the operating system. Made by real_file_system().
#pragma once

#include <sys/stat.h>

#include <string>

#include "core/base/filesystem.hpp"
#include "core/base/posix.hpp"

namespace scr {

FileInfo file_info_from(const struct stat& found);

class RealFile final : public File {
 public:
  RealFile(posix::Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override;
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override;
  Result<FileInfo> info() override;
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  Status sync() override;
  void start_writing(std::uint64_t offset, std::uint64_t length) override;
  void set_time(std::int64_t mtime_ns) override;
  Status set_mode(mode_t mode) override;
  Result<Mapping> map(std::uint64_t offset, std::size_t length) override;
  Status lock(LockMode mode, bool wait) override;
  Status unlock() override;
  Status close() override;
  const std::string& path() const override { return path_; }
  int descriptor() const override { return descriptor_.get(); }

 private:
  Status failure(std::string_view tried) const { return errno_status(errno, tried, path_); }

  posix::Descriptor descriptor_;
  std::string path_;
};

}  // namespace scr
