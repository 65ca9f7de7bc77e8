// SharedFile: one process's end of a file that the processes of a communicator have open together.
//
// A write is seen by its own process at once, and by all others from publish() on. A process must
// publish before it communicates with others in any way: then whoever learns of a write can read
// it, and of two writes to the same bytes the one that the program did later holds, as in a plain
// file. Only the functions that say so are collective; the others never wait for another process of
// the program. Any thread may call, but collective ones in the same order everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.hpp"

namespace scr::shared_file {

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  std::uint64_t end() const { return offset + length; }
  bool operator==(const Range&) const = default;
};

class SharedFile {
 public:
  virtual ~SharedFile() = default;

  // `data` holds the bytes of all ranges, one after the other; later ranges win where they overlap.
  virtual Status write(std::span<const Range> ranges, std::span<const std::byte> data) = 0;
  // Fills `data` with the bytes of all ranges; holes are zero. Returns how many bytes come before
  // the first one that is beyond the end of the file; those after are not touched.
  virtual Result<std::uint64_t> read(std::span<const Range> ranges, std::span<std::byte> data) = 0;

  virtual Status publish() = 0;
  virtual bool has_unpublished() const = 0;

  virtual Result<std::uint64_t> size() = 0;
  // Collective: cuts or extends it.
  virtual Status set_size(std::uint64_t size) = 0;
  // Collective: it is at least that long afterwards.
  virtual Status reserve(std::uint64_t size) = 0;
  // Collective (MPI_File_sync): all that was written before is seen by all.
  virtual Status sync() = 0;

  // The pointer that all processes share, in any unit: adds to it and gives what it was before.
  virtual Result<std::uint64_t> advance_pointer(std::uint64_t by) = 0;
  // Not collective by itself: one process sets it while the others wait.
  virtual Status set_pointer(std::uint64_t to) = 0;

  // Atomic mode: between these no other process of the program is in such a section for this file.
  virtual Status lock() = 0;
  virtual Status unlock() = 0;

  // Collective. The file is of no use afterwards, also if it fails.
  virtual Status close() = 0;
};

}  // namespace scr::shared_file
