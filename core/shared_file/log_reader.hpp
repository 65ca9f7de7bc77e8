// LogReader: the bytes of a shared file, from whichever logs have them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/shared_file/home.hpp"

namespace scr::shared_file {

// What has no room in the logs is in one file of all processes, each byte at its place.
inline constexpr LogPlace kMore{0xfffffffe, 0, 0};
// Opens a log for reading, of this or of another node, or that file.
using OpenLog = std::function<Result<std::unique_ptr<File>>(const LogPlace&)>;
// Opens another copy of just the bytes of a sealed file, for when they cannot be had from the logs
// any more: the dataset has left the cache, or the run has ended.
using OpenElsewhere = std::function<Result<std::unique_ptr<File>>()>;

// The bytes of all ranges, as SharedFile::read.
Result<std::uint64_t> read_ranges(File& file, std::span<const Range> ranges,
                                  std::span<std::byte> out);

// Any thread may call.
class LogReader {
 public:
  // `sealed`: nobody changes the file any more, so what the homes said once holds.
  LogReader(std::shared_ptr<const Homes> homes, std::uint64_t file, OpenLog open_log, bool sealed)
      : homes_(std::move(homes)), file_(file), open_log_(std::move(open_log)), sealed_(sealed) {}

  std::uint64_t id() const { return file_; }

  // What the logs do not have comes from here, up to `limit`: an earlier version of the file.
  void set_base(std::shared_ptr<File> base, std::uint64_t limit);
  void limit_base(std::uint64_t limit);
  // All of the file is here: nobody writes to it, and the homes need not be asked.
  void set_whole(std::shared_ptr<File> whole, std::uint64_t size);
  void set_elsewhere(OpenElsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }
  std::uint64_t base_limit() const { return base_limit_; }
  File* base() const { return base_.get(); }

  Result<std::uint64_t> size();
  // As SharedFile::read.
  Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> out);
  Result<std::vector<Location>> locate(std::span<const Range> ranges);
  // Where the next data of the base is, from `offset` on; at most `end`.
  std::uint64_t next_in_base(std::uint64_t offset, std::uint64_t end) const;

 private:
  // A log, and what small reads in order have of one that does not change any more.
  struct Source {
    std::unique_ptr<File> log;
    std::mutex mutex;         // of the following
    std::uint64_t next = 0;   // where the last small read ended
    std::uint64_t begin = 0;  // of `ahead`, in the log
    std::vector<std::byte> ahead;
  };
  Result<std::uint64_t> read_logs(std::span<const Range> ranges, std::span<std::byte> out);
  Result<std::uint64_t> read_open(std::span<const Range> ranges, std::span<std::byte> out);
  Result<std::uint64_t> size_of_logs();
  Result<File*> other_copy();
  Status read_locations(std::span<const Location> locations, std::span<std::byte> out);
  Status read_location(const Location& location, std::span<std::byte> out);
  Status read_hole(std::uint64_t offset, std::span<std::byte> out);
  Status read_small(Source& source, std::uint64_t offset, std::span<std::byte> out);
  Result<Source*> source(const LogPlace& place);
  Status learn(std::span<const Range> ranges);
  Status keep(std::span<const Range> asked, const std::vector<Location>& found);

  const std::shared_ptr<const Homes> homes_;  // a reader may outlive the run
  const std::uint64_t file_;
  const OpenLog open_log_;
  const bool sealed_;
  std::shared_ptr<File> base_;
  std::uint64_t base_limit_ = 0;
  bool is_whole_ = false;  // the base has all
  OpenElsewhere elsewhere_;
  std::mutex mutex_;  // for what follows
  std::map<std::uint64_t, Source> sources_;
  std::unique_ptr<File> other_copy_;
  // Of a sealed file: its size, and what the homes know of the stripes that were asked for, each by
  // offset and without gaps.
  std::optional<std::uint64_t> size_;
  std::map<std::uint64_t, std::vector<Location>> stripes_;
};

// A sealed shared file as an ordinary one, for reading.
std::unique_ptr<File> as_file(std::unique_ptr<LogReader> reader, std::string name);

}  // namespace scr::shared_file
