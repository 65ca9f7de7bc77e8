// SegmentedFile: a file in containers that is being written, as a File that can be read and
// written in place. (ContainedFile is the one for readers of a finished dataset.)
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "flush/containers.hpp"

namespace scr::flush {

class SegmentedFile final : public File {
 public:
  // Containers are looked for below `directory`, under the names in the segments, and made if the
  // file is opened for writing. `name` is for messages.
  static Result<std::unique_ptr<SegmentedFile>> open(FileSystem& fs, const Directory& directory,
                                                     std::string name,
                                                     std::vector<Segment> segments, bool writable);

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override;
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override;
  Result<FileInfo> info() override;
  // Only to the size that the segments have.
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  Status sync() override;
  Status set_mode(mode_t mode) override;
  Result<Mapping> map(std::uint64_t offset, std::size_t length) override;
  Status lock(LockMode mode, bool wait) override;
  Status unlock() override;
  Status close() override;
  const std::string& path() const override { return name_; }
  int descriptor() const override { return -1; }

 private:
  struct Spot {
    File* container = nullptr;
    std::uint64_t offset = 0;
    std::size_t length = 0;  // as far as the segment goes
  };
  SegmentedFile(std::string name, std::vector<Segment> segments);
  Spot spot_at(std::uint64_t offset, std::size_t length) const;
  Status refused(std::string_view what) const;

  std::string name_;
  std::vector<Segment> segments_;
  std::vector<std::uint64_t> starts_;  // of each segment in the file
  std::uint64_t size_ = 0;
  std::map<std::string, std::unique_ptr<File>> containers_;
};

}  // namespace scr::flush
