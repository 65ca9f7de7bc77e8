// Datatypes of MPI as lists of byte ranges, for code that moves the bytes itself.
//
// flatten() takes any datatype apart, down to the bytes it names. One element of a type at address
// p is the bytes of its ranges, counted from p, in the order in which MPI would send them; element
// i of an array is the same, `extent` bytes further each.
//
// A flat type has as many ranges as the type has gaps: a vector with a million separate blocks
// makes a million ranges of 16 bytes, while types without gaps are one range whatever their
// nesting. Time and memory are proportional to that (times the levels of nesting), and a type that
// would need more than kMostRanges is refused.
//
// The flat form of a derived type is kept with it as an MPI attribute and goes when MPI frees the
// type: a cache by handle would be wrong, for handles are used again. Functions here call PMPI_*
// only, between MPI_Init and MPI_Finalize, and may be called by as many threads as MPI was
// initialised for.
#pragma once

// The old C++ bindings of MPI would bring in a library of their own.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/status.hpp"

namespace scr::mpi {

// 64 Mi ranges take 1 GiB.
inline constexpr std::uint64_t kMostRanges = std::uint64_t{1} << 26;

struct ByteRange {
  std::int64_t offset = 0;
  std::uint64_t length = 0;

  std::int64_t end() const { return offset + static_cast<std::int64_t>(length); }
  bool operator==(const ByteRange&) const = default;
};

// A value that is cheap to copy: copies share the ranges.
struct FlatType {
  std::span<const ByteRange> ranges;  // in typemap order, none empty, adjacent ones made one
  std::uint64_t size = 0;             // bytes of data of one element
  std::int64_t extent = 0;            // from one element to the next; may be negative
  std::int64_t lower_bound = 0;
  // Any number of elements is one run of bytes without gaps, which starts at ranges[0].offset (not
  // always 0); or there are no bytes at all.
  bool is_contiguous = true;

  std::shared_ptr<const std::vector<ByteRange>> owner;  // what `ranges` points into
};

Result<FlatType> flatten(MPI_Datatype type);

// --- between a user's buffer and a stream of bytes -----------------------------------------------
// `buffer` may be MPI_BOTTOM where the type holds absolute addresses.

// True if the bytes of `count` elements lie one after the other, so that they need no copy: they
// start at start_in_memory().
bool is_contiguous_in_memory(std::int64_t count, const FlatType& type);
// The address of the first byte of the first element; `buffer` if there is none.
std::byte* start_in_memory(const void* buffer, const FlatType& type);

}  // namespace scr::mpi
