// A file system that keeps a record of the writes to some files, for tests that look at how data is
// written.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/forwarding_filesystem.hpp"

namespace scr::testing {

struct RecordedWrite {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// Thread-safe. It must outlive the files opened through it.
class RecordingFileSystem final : public ForwardingFileSystem {
 public:
  // Of the files whose path has `part` in it.
  explicit RecordingFileSystem(std::string part, FileSystem& inner = real_file_system())
      : ForwardingFileSystem(inner), part_(std::move(part)) {}

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::open(at, options));
    if (at.path.find(part_) != std::string::npos)
      file = std::make_unique<Recorder>(std::move(file), *this);
    return file;
  }

  // In the order in which they were done.
  std::vector<RecordedWrite> writes() const {
    const std::scoped_lock lock(mutex_);
    return writes_;
  }

 private:
  class Recorder final : public ForwardingFile {
   public:
    Recorder(std::unique_ptr<File> inner, RecordingFileSystem& of)
        : ForwardingFile(std::move(inner)), of_(of) {}
    Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
      SCR_ASSIGN_OR_RETURN(const std::size_t written, ForwardingFile::write_some(data, offset));
      const std::scoped_lock lock(of_.mutex_);
      of_.writes_.push_back({path(), offset, written});
      return written;
    }

   private:
    RecordingFileSystem& of_;
  };

  std::string part_;
  mutable std::mutex mutex_;
  std::vector<RecordedWrite> writes_;
};

}  // namespace scr::testing
