// LogReader: the bytes of a shared file, from whichever logs have them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "core/base/filesystem.hpp"
#include "core/shared_file/home.hpp"

namespace scr::shared_file {

// Opens a log for reading, of this or of another node.
using OpenLog = std::function<Result<std::unique_ptr<File>>(const LogPlace&)>;

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
  std::uint64_t base_limit() const { return base_limit_; }
  File* base() const { return base_.get(); }

  Result<std::uint64_t> size();
  // As SharedFile::read.
  Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> out);
  Result<std::vector<Location>> locate(std::span<const Range> ranges);

 private:
  Status read_location(const Location& location, std::span<std::byte> out);
  Result<File*> log(const LogPlace& place);
  Result<const ExtentMap*> stripe(std::uint64_t number);

  const std::shared_ptr<const Homes> homes_;  // a reader may outlive the run
  const std::uint64_t file_;
  const OpenLog open_log_;
  const bool sealed_;
  std::shared_ptr<File> base_;
  std::uint64_t base_limit_ = 0;
  std::mutex mutex_;  // for what follows
  std::map<std::uint64_t, std::unique_ptr<File>> logs_;
  std::optional<std::uint64_t> size_;           // of a sealed one
  std::map<std::uint64_t, ExtentMap> stripes_;  // of a sealed one, as they are asked for
  std::map<std::uint32_t, LogPlace> places_;    // by rank
};

// A sealed shared file as an ordinary one, for reading. `elsewhere` opens another copy of just
// these bytes, for when they cannot be had from the logs any more: the dataset has left the cache,
// or the run has ended.
using OpenElsewhere = std::function<Result<std::unique_ptr<File>>()>;
std::unique_ptr<File> as_file(std::unique_ptr<LogReader> reader, std::string name,
                              OpenElsewhere elsewhere = {});

}  // namespace scr::shared_file
