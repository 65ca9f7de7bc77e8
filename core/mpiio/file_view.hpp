// FileView: what a process sees of a file (MPI_File_set_view).
//
// A filetype is laid over the file again and again, from a displacement on, each copy `extent`
// bytes after the one before; the bytes it names, in its order, are the bytes of the view.
// *Positions* count those, from 0; *offsets* are places in the file. A view is a value that never
// changes and is cheap to copy; any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/status.hpp"
#include "core/mpi/datatype.hpp"
#include "core/shared_file/shared_file.hpp"

namespace scr::mpiio {

class FileView {
 public:
  FileView();  // every byte of the file
  // Refuses what MPI forbids: bytes before the displacement or in descending order, and a filetype
  // that is not a whole number of etypes.
  static Result<FileView> make(std::uint64_t displacement, std::uint64_t etype_size,
                               const mpi::FlatType& filetype);

  // The same, from another displacement on.
  FileView moved_to(std::uint64_t displacement) const;

  std::uint64_t displacement() const { return displacement_; }
  std::uint64_t etype_size() const { return etype_size_; }
  // A view of no bytes at all.
  bool is_empty() const { return filetype_.size == 0; }

  // An error if that is beyond what MPI_Offset can say. Not for an empty view.
  Result<std::uint64_t> offset_of(std::uint64_t position) const;
  // Bytes of the view that are in a file of that size.
  std::uint64_t positions_within(std::uint64_t file_size) const;

  // Goes through the view from one position on, once.
  class Walk {
   public:
    // Fails if the last of `bytes` bytes is beyond what MPI_Offset can say.
    static Result<Walk> start(const FileView& view, std::uint64_t position, std::uint64_t bytes);
    // Puts the ranges of the next bytes into `ranges`, at most `most_ranges` of them and `most`
    // bytes, and returns how many bytes those are: 0 at the end. Neighbours are one range.
    std::uint64_t next(std::uint64_t most, std::size_t most_ranges,
                       std::vector<shared_file::Range>& ranges);

   private:
    Walk(const FileView& view, std::uint64_t position, std::uint64_t bytes);

    const FileView* view_;
    std::uint64_t left_;
    std::uint64_t tile_;    // offset of the present copy of the filetype
    std::size_t range_;     // in it
    std::uint64_t within_;  // bytes of that range that are done
  };

 private:
  struct Place {
    std::uint64_t tile;    // which copy of the filetype
    std::size_t range;     // in it
    std::uint64_t within;  // the range
  };
  Place find(std::uint64_t position) const;
  std::uint64_t offset_in(std::uint64_t tile) const {
    return displacement_ + tile * static_cast<std::uint64_t>(filetype_.extent);
  }

  std::uint64_t displacement_ = 0;
  std::uint64_t etype_size_ = 1;
  mpi::FlatType filetype_;
  // Bytes before each range of the filetype; only where there are several.
  std::shared_ptr<const std::vector<std::uint64_t>> before_;
};

}  // namespace scr::mpiio
