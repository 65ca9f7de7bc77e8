// ContainedFile: a file inside containers as a read-only File, mapped piece by piece to its
// segments; nothing is extracted. Opened by open_stored() (prefix_reader.hpp).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::flush {

class ContainedFile final : public File {
 public:
  static Result<std::unique_ptr<ContainedFile>> open(FileSystem& fs, const std::string& prefix,
                                                     const StoredLocation& location);

  // Reads every segment and compares the checksums of each and of the whole.
  Status verify();
  // Size, time and inode of each container that has a part of the file, as text: as long as it
  // stays the same, what was verified need not be verified again.
  Result<std::string> fingerprint();

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override;
  Result<std::size_t> write_some(std::span<const std::byte> data, std::uint64_t offset) override;
  Result<FileInfo> info() override;
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  Status sync() override { return {}; }
  Status set_mode(mode_t mode) override;
  Result<Mapping> map(std::uint64_t offset, std::size_t length) override;
  // The bytes never change, so every reader may have its shared lock; an exclusive one is refused.
  Status lock(LockMode mode, bool wait) override;
  Status unlock() override { return {}; }
  Status close() override;
  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }

 private:
  struct OpenContainer {
    std::string name;
    std::shared_ptr<File> file;
  };

  ContainedFile(FileSystem& fs, std::string prefix, const StoredLocation& location,
                std::unique_ptr<Directory> directory);

  // The segment that has that byte of the file, which must be before its end.
  std::size_t segment_at(std::uint64_t offset) const;
  Result<std::shared_ptr<File>> container_of(std::size_t segment);
  Result<std::uint32_t> checksum_of(std::size_t segment, std::span<std::byte> buffer);
  Status damaged(std::size_t segment, std::string_view why) const;
  Status read_only() const;

  FileSystem& fs_;
  std::string path_;
  StoredLocation location_;
  std::unique_ptr<Directory> directory_;  // of the dataset; null when closed
  std::vector<std::uint64_t> starts_;     // where each segment begins in the file
  std::mutex mutex_;
  std::list<OpenContainer> open_;  // the one used last comes first
};

}  // namespace scr::flush
