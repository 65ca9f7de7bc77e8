// Moves bytes between a program's buffer of any datatype and a file seen through any view.
//
// Neither the list of file ranges nor a copy of scattered memory grows with the transfer: both are
// made piece by piece. Bytes that lie together in memory are not copied.
#pragma once

#include "core/mpiio/file_view.hpp"

namespace scr::mpiio {

// `count` elements of `type` at `address`, as for MPI_Send.
struct Buffer {
  void* address = nullptr;  // not written to by write()
  std::int64_t count = 0;
  mpi::FlatType type;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count) * type.size; }
};

Status write(shared_file::SharedFile& file, const FileView& view, std::uint64_t position,
             const Buffer& buffer);
// Returns how many bytes there were before the end of the file; the rest of the buffer stays as it
// was.
Result<std::uint64_t> read(shared_file::SharedFile& file, const FileView& view,
                           std::uint64_t position, const Buffer& buffer);

}  // namespace scr::mpiio
