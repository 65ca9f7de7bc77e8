// Log: what one process has written to a shared file, in the order it came, on its node's storage.
//
// Bytes that the process writes again go to the same place of the log, so that it does not grow
// beyond what the process holds of the file. Small writes are gathered in memory: the file has them
// after write_out(), which comes before anybody is told of them. When the file is closed, the table
// of what is where follows the data (docs/formats/shared-file.md); a log is then an ordinary file
// to redundancy and flush. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/checksum.hpp"
#include "core/base/filesystem.hpp"
#include "core/shared_file/extent_map.hpp"
#include "core/shared_file/shared_file.hpp"

namespace scr::shared_file {

// Longest run of bytes with one checksum; one ends at the multiples of this in the shared file.
inline constexpr std::uint64_t kMostLogEntry = std::uint64_t{1} << 20U;

struct LogEntry {
  std::uint64_t offset = 0;  // in the shared file
  std::uint64_t length = 0;
  std::uint64_t log_offset = 0;
  std::uint32_t crc = 0;

  std::uint64_t end() const { return offset + length; }
  bool operator==(const LogEntry&) const = default;
};

// The table at the end of a closed log. Entries of all logs of a file do not overlap.
struct LogTable {
  std::uint32_t rank = 0;         // that wrote it
  std::uint32_t first_rank = 0;   // the first of those that had the file open
  std::uint32_t number = 0;       // of the file among those of its dataset
  std::uint64_t size = 0;         // of the shared file
  std::uint64_t data_size = 0;    // bytes of the log before the table
  std::int64_t written = 0;       // when it was closed, nanoseconds since the epoch
  std::vector<LogEntry> entries;  // by offset
  bool operator==(const LogTable&) const = default;
};

// Every number is checked; kCorrupt, with the name of the file, if something is wrong.
Result<LogTable> read_log_table(File& log);
Result<LogTable> read_log_table(FileSystem& fs, const At& at);
// The same without its entries, which may be many.
Result<LogTable> read_log_footer(FileSystem& fs, const At& at);

// "<name>.<rank>.scrlog"
std::string log_name(const std::string& file, int rank);

class Log {
 public:
  // A new one, empty; one that was closed before can be gone on with. That one stays as it is, with
  // its table, until the first write.
  static Result<std::unique_ptr<Log>> create(FileSystem& fs, const std::string& path);
  static Result<std::unique_ptr<Log>> reopen(FileSystem& fs, const std::string& path);

  // As SharedFile::write; adds what the homes must be told to `entered`. That it fails may be found
  // out only by write_out() or finish().
  Status write(std::span<const Range> ranges, std::span<const std::byte> data,
               std::vector<Extent>& entered);
  // Brings to the file what is still in memory. It can be called again if it fails.
  Status write_out();
  // What is still in memory, by its place in the shared file. The log does not have it any more if
  // that could be visited.
  Status take_gathered(
      const std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>& visit);
  // Reads from the log itself.
  Status read(std::uint64_t log_offset, std::span<std::byte> out);
  // What was written beyond is forgotten.
  void truncate(std::uint64_t size);
  // Writes the table, with checksums of the bytes that hold, and closes the file. Returns the
  // checksum of the whole log if that is known without reading it.
  Result<std::optional<std::uint32_t>> finish(LogTable table, std::span<const Extent> holding);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return end_; }

 private:
  // Checksums of what was written, so that it need not be read again: runs by their place in the
  // log, and all of it. Those that no longer hold are not used.
  struct Sum {
    std::uint64_t offset = 0;  // in the shared file
    std::uint64_t log_offset = 0;
    std::uint64_t length = 0;
    std::uint32_t crc = 0;
    bool holds = true;
  };
  Status cut_table();
  Status append_bytes(std::span<const std::byte> data);
  Status rewrite(const Extent& extent, std::span<const std::byte> data);
  void sum_new(const Extent& extent, std::span<const std::byte> data);
  void sum_again(const Extent& extent, std::span<const std::byte> data);
  Status sum_entries(std::span<const Extent> extents, std::vector<LogEntry>& entries);
  Result<std::uint32_t> sum_of(const LogEntry& entry);

  Log(std::string path, std::unique_ptr<File> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  std::unique_ptr<File> file_;
  std::uint64_t end_ = 0;
  bool has_table_ = false;           // of the time before it was opened again
  std::vector<std::byte> gathered_;  // bytes that the file does not have yet,
  std::uint64_t gathered_at_ = 0;    // and their place there
  ExtentMap places_;                 // where each byte of the process is in the log
  std::uint64_t sequence_ = 0;
  std::vector<Sum> sums_;  // by log_offset
  Crc32 whole_;
  bool whole_holds_ = true;
};

}  // namespace scr::shared_file
