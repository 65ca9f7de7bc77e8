// A file system on which one directory has only so much room, like a small /dev/shm.
#pragma once

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/forwarding_filesystem.hpp"

namespace scr::testing {

class SmallCache : public ForwardingFileSystem {
 public:
  SmallCache(std::string directory, std::uint64_t bytes)
      : directory_(std::move(directory)), bytes_(bytes) {}

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    SCR_ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::open(at, options));
    if (!is_inside(at)) return file;
    return std::unique_ptr<File>(std::make_unique<SmallFile>(std::move(file), *this));
  }
  Result<SpaceInfo> space(const At& at) override {
    SCR_ASSIGN_OR_RETURN(SpaceInfo space, ForwardingFileSystem::space(at));
    if (is_inside(at)) space.available = left();
    return space;
  }

 private:
  class SmallFile : public ForwardingFile {
   public:
    SmallFile(std::unique_ptr<File> inner, const SmallCache& cache)
        : ForwardingFile(std::move(inner)), cache_(cache) {}
    Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override {
      SCR_ASSIGN_OR_RETURN(const FileInfo now, info());
      const std::uint64_t end = offset + data.size();
      const std::uint64_t growth = end > now.size ? end - now.size : 0;
      if (growth > cache_.left()) return errno_status(ENOSPC, "write", path());
      return ForwardingFile::write_some(data, offset);
    }

   private:
    const SmallCache& cache_;
  };

  bool is_inside(const At& at) const { return at.display().starts_with(directory_ + "/"); }
  std::uint64_t left() const {
    std::uint64_t used = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_, error)) {
      const std::uint64_t size = entry.is_regular_file(error) ? entry.file_size(error) : 0;
      if (!error) used += size;
    }
    return used < bytes_ ? bytes_ - used : 0;
  }

  std::string directory_;
  std::uint64_t bytes_;
};

}  // namespace scr::testing
