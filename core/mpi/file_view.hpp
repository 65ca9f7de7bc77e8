// FileView: which bytes of a file a process sees through MPI_File_set_view.
//
// Behind a displacement the filetype is repeated without end; what the program reads and writes is
// the stream of the bytes that it names, counted in etypes. Calls PMPI_* in make() only; a made
// view is a value that any thread may read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.hpp"
#include "core/mpi/datatype.hpp"

namespace scr::mpi {

class FileView {
 public:
  // What a file has after it is opened: all its bytes, one by one.
  FileView() = default;
  // Fails where the standard makes the view erroneous: a negative displacement; displacements in
  // the etype or in the filetype that are negative or go backwards; a filetype that is not a whole
  // number of etypes by its size (that the kinds of its elements are those of the etype is not
  // looked at: no MPI does, and programs rely on it); a filetype that does not go on when it is
  // repeated.
  static Result<FileView> make(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype);

  // Where the `bytes` bytes of the stream are in the file that begin at an offset in etypes: in the
  // order of the stream, absolute, neighbours made one. Fails for a negative offset, for bytes
  // beyond 2^63, for more than kMostRanges ranges (map such a transfer in several steps), and for
  // any bytes if the filetype has none.
  Result<std::vector<ByteRange>> map(std::int64_t offset_in_etypes, std::uint64_t bytes) const;

  // The place of an etype's first byte in the file: MPI_File_get_byte_offset.
  Result<std::int64_t> byte_offset(std::int64_t offset_in_etypes) const;

  // The end of a file of that size in this view, for MPI_SEEK_END and appends: the number of etypes
  // up to the last one that begins inside the file, that one included.
  std::int64_t etypes_up_to(std::int64_t file_bytes) const;

  std::uint64_t etype_size() const { return etype_size_; }
  std::int64_t displacement() const { return displacement_; }
  // The stream is the bytes of the file from one place on.
  bool is_contiguous() const { return filetype_.is_contiguous; }
  // False if no byte of the file comes up twice, which the standard forbids in files open for
  // writing. True also for repetitions of the filetype that only interleave.
  bool may_overlap() const;

 private:
  struct Position;
  Result<Position> position_of(std::int64_t offset_in_etypes) const;

  std::int64_t displacement_ = 0;
  std::uint64_t etype_size_ = 1;
  FlatType filetype_ = whole_file();
  // starts_[i]: bytes of the filetype before its range i. Empty for contiguous views.
  std::vector<std::uint64_t> starts_;

  static FlatType whole_file();
};

}  // namespace scr::mpi
