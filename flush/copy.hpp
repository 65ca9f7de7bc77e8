// Copies files between cache and prefix directory: each byte is read once, and its checksum is
// computed on the way. MPI-free; may run in a background thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::flush {

class PaceClock;

// A run of bytes of the source, and where it goes.
struct CopyPiece {
  std::string destination;
  std::uint64_t offset = 0;  // in the destination
  std::uint64_t length = 0;
  std::uint32_t crc = 0;  // out
};

struct CopyTask {
  std::string source;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;          // what the whole source must have
  std::vector<CopyPiece> pieces;  // in the order of the source; lengths add up to size
  // Opens the source where it is no file of that name; its bytes are verified as they are read, and
  // `crc` means nothing.
  std::function<Result<std::unique_ptr<File>>()> open = {};
  // Asked where the directory of the copy is gone: whether nobody waits for the copy any more.
  std::function<bool()> unwanted = {};
  // Asked before it is begun: whether the name that it is for has been deleted. Then there is none,
  // for who deletes a directory must find it empty.
  std::function<bool()> deleted = {};
};

// Shared between the copying thread and those who ask. Counters only go up.
struct CopyProgress {
  std::atomic<std::uint64_t> bytes_done = 0;
  std::atomic<bool> cancel = false;
};

struct CopyOptions {
  std::size_t buffer = std::size_t{1} << 20;
  bool resume = false;          // pieces that are there already, with the right checksum, are kept
  double bytes_per_second = 0;  // 0: no limit
  double percent = 0;           // share of the time, 0: no limit
  PaceClock* clock = nullptr;   // that these limits go by, if not the real one
  mode_t mode = 0666;           // of new files; the umask applies
  std::function<void(std::uint64_t)> progress = {};  // called with the bytes done so far
  // Called once when all data is on its way to the device, before it is waited for.
  std::function<Status()> before_sync = {};
};

// Copies all tasks and syncs every destination and its directory. kCorrupt if a source is not what
// its checksum says: its bytes have reached a temporary file then, but nobody will give that its
// final name.
Status copy_all(FileSystem& fs, std::vector<CopyTask>& tasks, const CopyOptions& options,
                CopyProgress& progress);

}  // namespace scr::flush
