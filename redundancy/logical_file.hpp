// LogicalFile: the files of a member laid end to end, read or written as one.
//
// Every byte that passes is added to the checksum of its file, unless told not to. Only some of the
// files are open at a time, for a member may have more of them than a process may open. Used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"
#include "redundancy/scattered_crc32.hpp"

namespace scr::redundancy {

class LogicalFile {
 public:
  static constexpr std::size_t kMostOpen = 64;
  enum class Summing { kOn, kOff };

  // `fs` and `directory` must outlive this.
  LogicalFile(FileSystem& fs, const Directory& directory) : fs_(&fs), directory_(&directory) {}

  // The next bytes are those of this file in [base, base+size). append() is for reading: kCorrupt
  // if the file does not end there. create() makes a new file, or empties one, for writing; with
  // summing off, for a checksum known from elsewhere, checksum() gives nothing.
  Status append(const std::string& name, std::uint64_t base, std::uint64_t size);
  Status create(const std::string& name, std::uint64_t base, std::uint64_t size,
                Summing summing = Summing::kOn);
  std::uint64_t size() const { return size_; }
  std::size_t file_count() const { return parts_.size(); }

  // Fills the whole buffer.
  Status read(std::uint64_t offset, std::span<std::byte> buffer);
  Status write(std::uint64_t offset, std::span<const std::byte> data);
  // Leaves a hole that reads as zeros, once set_sizes() has been called.
  void write_zeros(std::uint64_t offset, std::uint64_t length);
  // Gives each file its full size, for holes at its end.
  Status set_sizes();
  // The time of the last change of the `index`-th file; what is written later changes it again.
  Status set_time(std::size_t index, std::int64_t mtime_ns);
  // Writes to the `index`-th file before its base.
  Status write_before_base(std::size_t index, std::span<const std::byte> data);
  // Closes the files; the first failure counts.
  Status close();

  // Of what was appended as the `index`-th; nothing if not all of it has passed.
  std::optional<std::uint32_t> checksum(std::size_t index) const {
    const Part& part = *parts_[index];
    return part.summing == Summing::kOn ? part.crc.value(part.size) : std::nullopt;
  }

 private:
  struct Part {
    std::string name;
    bool writable = false;
    std::uint64_t begin = 0;  // in the logical file
    std::uint64_t base = 0;   // in the file
    std::uint64_t size = 0;
    Summing summing = Summing::kOn;
    std::unique_ptr<File> file{};  // null while not open
    std::list<Part*>::iterator use{};
    ScatteredCrc32 crc{};

    void sum(std::uint64_t offset, std::span<const std::byte> bytes) {
      if (summing == Summing::kOn) crc.update(offset, bytes);
    }
  };
  // Calls visit(part, offset in the part, offset in the range, length) for each part of the range.
  template <typename Visit>
  Status for_each_part(std::uint64_t offset, std::uint64_t length, Visit visit);
  Status add(Part added);
  // Opens the file if it is not; closes the one whose use is longest ago if too many are.
  Status open(Part& part, bool fresh = false);
  Status close(Part& part);

  FileSystem* fs_;
  const Directory* directory_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::list<Part*> open_;  // used last first
  std::uint64_t size_ = 0;
};

}  // namespace scr::redundancy
