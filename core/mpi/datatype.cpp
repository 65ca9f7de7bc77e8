#include "core/mpi/datatype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <optional>

#include "core/mpi/datatype_contents.hpp"
#include "core/mpi/range_list.hpp"

// The forms of MPI-1 for Fortran; some libraries can no longer make them and do not name them.
#if !defined(OPEN_MPI) || OMPI_ENABLE_MPI1_COMPAT
#define SCR_HAS_INTEGER_COMBINERS 1
#else
#define SCR_HAS_INTEGER_COMBINERS 0
#endif

namespace scr::mpi {
namespace {

using Ranges = std::vector<ByteRange>;
using SharedRanges = std::shared_ptr<const Ranges>;

SharedRanges share(Ranges ranges) { return std::make_shared<const Ranges>(std::move(ranges)); }

std::uint64_t size_of(MPI_Datatype type) {
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  return static_cast<std::uint64_t>(size);
}

std::int64_t extent_of(MPI_Datatype type) {
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  PMPI_Type_get_extent_x(type, &lower_bound, &extent);
  return extent;
}

// --- what is kept with a type --------------------------------------------------------------------

int forget(MPI_Datatype, int, void* kept, void*) {
  delete static_cast<FlatType*>(kept);
  return MPI_SUCCESS;
}

int attribute_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &made, nullptr);
    return made;
  }();
  return key;
}

const FlatType* find_kept(MPI_Datatype type) {
  FlatType* kept = nullptr;
  int found = 0;
  PMPI_Type_get_attr(type, attribute_key(), static_cast<void*>(&kept), &found);
  return found != 0 ? kept : nullptr;
}

// An attribute once set is never replaced: another thread may be reading it.
void keep(MPI_Datatype type, const FlatType& flat) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (find_kept(type) != nullptr) return;
  auto kept = std::make_unique<FlatType>(flat);
  if (PMPI_Type_set_attr(type, attribute_key(), kept.get()) != MPI_SUCCESS) return;
  static_cast<void>(kept.release());  // the attribute's delete function owns it now
}

// --- named types ---------------------------------------------------------------------------------

template <typename Value>
Ranges pair_with_int() {
  struct Pair {
    Value value;
    int index;
  };
  RangeList list;
  list.add({0, sizeof(Value)});
  list.add({static_cast<std::int64_t>(offsetof(Pair, index)), sizeof(int)});
  return list.take();
}

// The types for MPI_MAXLOC are named, but may have a gap.
std::optional<Ranges> pair_ranges(MPI_Datatype type) {
  if (type == MPI_SHORT_INT) return pair_with_int<short>();
  if (type == MPI_LONG_INT) return pair_with_int<long>();
  if (type == MPI_FLOAT_INT) return pair_with_int<float>();
  if (type == MPI_DOUBLE_INT) return pair_with_int<double>();
  if (type == MPI_LONG_DOUBLE_INT) return pair_with_int<long double>();
  return std::nullopt;
}

Ranges named_ranges(MPI_Datatype type, std::uint64_t size) {
  if (auto pair = pair_ranges(type)) return *std::move(pair);
  return {{0, size}};
}

// --- derived types -------------------------------------------------------------------------------

Result<SharedRanges> ranges_of(MPI_Datatype type);

// The one type that another is made of.
struct Part {
  SharedRanges ranges;
  std::int64_t extent;
};

Result<Part> part_of(MPI_Datatype type) {
  SCR_ASSIGN_OR_RETURN(auto ranges, ranges_of(type));
  return Part{std::move(ranges), extent_of(type)};
}

Status add_block(RangeList& list, const Part& part, std::int64_t length, std::int64_t at) {
  return list.add_copies(*part.ranges, static_cast<std::uint64_t>(length), part.extent, at);
}

Result<Ranges> contiguous(DatatypeContents& from, const Part& part) {
  RangeList list;
  SCR_RETURN_IF_ERROR(add_block(list, part, from.next_count(), 0));
  return list.take();
}

Result<Ranges> vector(DatatypeContents& from, const Part& part, bool stride_in_bytes) {
  const std::int64_t count = from.next_count();
  RangeList block;
  SCR_RETURN_IF_ERROR(add_block(block, part, from.next_count(), 0));
  const std::int64_t stride =
      stride_in_bytes ? from.next_address() : from.next_count() * part.extent;
  RangeList list;
  SCR_RETURN_IF_ERROR(
      list.add_copies(block.ranges(), static_cast<std::uint64_t>(count), stride, 0));
  return list.take();
}

Result<Ranges> indexed(DatatypeContents& from, const Part& part, bool in_bytes) {
  const std::vector<std::int64_t> lengths = from.next_counts(from.next_count());
  RangeList list;
  for (const std::int64_t length : lengths) {
    const std::int64_t at = in_bytes ? from.next_address() : from.next_count() * part.extent;
    SCR_RETURN_IF_ERROR(add_block(list, part, length, at));
  }
  return list.take();
}

Result<Ranges> indexed_block(DatatypeContents& from, const Part& part, bool in_bytes) {
  const std::int64_t count = from.next_count();
  RangeList block;
  SCR_RETURN_IF_ERROR(add_block(block, part, from.next_count(), 0));
  RangeList list;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = in_bytes ? from.next_address() : from.next_count() * part.extent;
    SCR_RETURN_IF_ERROR(list.add_copies(block.ranges(), 1, 0, at));
  }
  return list.take();
}

Result<Ranges> structure(DatatypeContents& from) {
  const std::vector<std::int64_t> lengths = from.next_counts(from.next_count());
  RangeList list;
  Part part;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    // Members of one type follow each other often; types nested that way would take time that
    // doubles with each level.
    const MPI_Datatype type = from.types()[i];
    if (i == 0 || type != from.types()[i - 1]) {
      SCR_ASSIGN_OR_RETURN(part, part_of(type));
    }
    SCR_RETURN_IF_ERROR(add_block(list, part, lengths[i], from.next_address()));
  }
  return list.take();
}

// --- arrays --------------------------------------------------------------------------------------

// What a process has of one dimension of an array: `length` indices from `first`, then again each
// `step` indices, up to the array's end.
struct Dimension {
  std::int64_t size = 0;
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t step = 0;
};

// Adds a dimension to `inner`, which is what the process has of each of `size` slices that are
// `stride` bytes apart.
Result<Ranges> add_dimension(const Dimension& d, const Ranges& inner, std::int64_t stride) {
  const std::int64_t left = std::max<std::int64_t>(d.size - d.first, 0);
  const std::int64_t length = std::min(d.length, left);
  RangeList block;
  SCR_RETURN_IF_ERROR(
      block.add_copies(inner, static_cast<std::uint64_t>(length), stride, d.first * stride));
  const std::int64_t whole_blocks = 1 + (left - length) / d.step;
  RangeList list;
  SCR_RETURN_IF_ERROR(list.add_copies(block.ranges(), static_cast<std::uint64_t>(whole_blocks),
                                      d.step * stride, 0));
  const std::int64_t last = d.first + whole_blocks * d.step;
  const std::int64_t rest = std::max<std::int64_t>(d.size - last, 0);
  SCR_RETURN_IF_ERROR(
      list.add_copies(inner, static_cast<std::uint64_t>(rest), stride, last * stride));
  return list.take();
}

Result<Ranges> array(std::vector<Dimension> dimensions, std::int64_t order, const Part& part) {
  if (order == MPI_ORDER_C) std::ranges::reverse(dimensions);  // the fastest index first
  Ranges ranges = *part.ranges;
  std::int64_t stride = part.extent;
  for (const Dimension& dimension : dimensions) {
    SCR_ASSIGN_OR_RETURN(ranges, add_dimension(dimension, ranges, stride));
    stride *= dimension.size;
  }
  return ranges;
}

Result<Ranges> subarray(DatatypeContents& from, const Part& part) {
  const std::int64_t n = from.next_int();
  const auto sizes = from.next_counts(n);
  const auto subsizes = from.next_counts(n);
  const auto starts = from.next_counts(n);
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    dimensions.push_back({sizes[i], starts[i], subsizes[i], sizes[i]});
  }
  return array(std::move(dimensions), from.next_int(), part);
}

// One dimension of a distributed array, for the process with that coordinate among `processes`.
Dimension distributed(std::int64_t size, std::int64_t kind, std::int64_t argument,
                      std::int64_t processes, std::int64_t coordinate) {
  if (kind == MPI_DISTRIBUTE_NONE || processes == 1) return {size, 0, size, size};
  std::int64_t block = argument;
  if (block == MPI_DISTRIBUTE_DFLT_DARG) {
    block = kind == MPI_DISTRIBUTE_BLOCK ? (size + processes - 1) / processes : 1;
  }
  return {size, coordinate * block, block, processes * block};
}

Result<Ranges> distributed_array(DatatypeContents& from, const Part& part) {
  std::int64_t processes = from.next_int();
  std::int64_t rank = from.next_int();
  const std::int64_t n = from.next_int();
  const auto sizes = from.next_counts(n);
  const auto kinds = from.next_ints(n);
  const auto arguments = from.next_ints(n);
  const auto grid = from.next_ints(n);
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // Ranks go through the grid of processes in C order, whatever the order of the array.
    processes /= grid[i];
    dimensions.push_back(distributed(sizes[i], kinds[i], arguments[i], grid[i], rank / processes));
    rank %= processes;
  }
  return array(std::move(dimensions), from.next_int(), part);
}

// -------------------------------------------------------------------------------------------------

Result<Ranges> derived_ranges(int combiner, DatatypeContents& from, const Part& part) {
  switch (combiner) {
    case MPI_COMBINER_CONTIGUOUS:
      return contiguous(from, part);
    case MPI_COMBINER_VECTOR:
      return vector(from, part, false);
#if SCR_HAS_INTEGER_COMBINERS
    case MPI_COMBINER_HVECTOR_INTEGER:
#endif
    case MPI_COMBINER_HVECTOR:
      return vector(from, part, true);
    case MPI_COMBINER_INDEXED:
      return indexed(from, part, false);
#if SCR_HAS_INTEGER_COMBINERS
    case MPI_COMBINER_HINDEXED_INTEGER:
#endif
    case MPI_COMBINER_HINDEXED:
      return indexed(from, part, true);
    case MPI_COMBINER_INDEXED_BLOCK:
      return indexed_block(from, part, false);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return indexed_block(from, part, true);
    case MPI_COMBINER_SUBARRAY:
      return subarray(from, part);
    case MPI_COMBINER_DARRAY:
      return distributed_array(from, part);
    default:
      return invalid_argument(fmt::format(
          "cannot take a datatype apart: it was made by a constructor that h5scr does not know "
          "(combiner {})",
          combiner));
  }
}

bool is_structure(int combiner) {
#if SCR_HAS_INTEGER_COMBINERS
  if (combiner == MPI_COMBINER_STRUCT_INTEGER) return true;
#endif
  return combiner == MPI_COMBINER_STRUCT;
}

Result<SharedRanges> shared(Result<Ranges> ranges) {
  if (!ranges.ok()) return ranges.status();
  return share(*std::move(ranges));
}

Result<SharedRanges> ranges_of_derived(MPI_Datatype type, int combiner) {
  SCR_ASSIGN_OR_RETURN(DatatypeContents from, DatatypeContents::of(type));
  if (is_structure(combiner)) return shared(structure(from));
  SCR_ASSIGN_OR_RETURN(const Part part, part_of(from.types().at(0)));
  if (combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_RESIZED) return part.ranges;
  return shared(derived_ranges(combiner, from, part));
}

Result<SharedRanges> ranges_of(MPI_Datatype type) {
  const std::uint64_t size = size_of(type);
  if (size == 0) return share({});
  SCR_ASSIGN_OR_RETURN(const int combiner, combiner_of(type));
  if (is_predefined(combiner)) return share(named_ranges(type, size));
  if (const FlatType* kept = find_kept(type)) return kept->owner;
  return ranges_of_derived(type, combiner);
}

Result<FlatType> flatten_anew(MPI_Datatype type) {
  FlatType flat;
  SCR_ASSIGN_OR_RETURN(flat.owner, ranges_of(type));
  flat.ranges = *flat.owner;
  flat.size = size_of(type);
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  PMPI_Type_get_extent_x(type, &lower_bound, &extent);
  flat.lower_bound = lower_bound;
  flat.extent = extent;
  flat.is_contiguous = flat.ranges.empty() ||
                       (flat.ranges.size() == 1 && extent == static_cast<std::int64_t>(flat.size));
  const std::uint64_t found =
      std::accumulate(flat.ranges.begin(), flat.ranges.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const ByteRange& r) { return sum + r.length; });
  if (found != flat.size) {
    return internal_error(
        fmt::format("cannot take a datatype apart: its parts have {} bytes, but MPI says {}", found,
                    flat.size));
  }
  return flat;
}

}  // namespace

Result<FlatType> flatten(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) {
    return invalid_argument("cannot take a datatype apart: it is MPI_DATATYPE_NULL");
  }
  // Most calls have the same basic type, which nobody can free, so that its handle stays its own.
  thread_local struct {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    FlatType flat;
  } last_basic;
  if (type == last_basic.type) return last_basic.flat;
  if (const FlatType* kept = find_kept(type)) return *kept;
  SCR_ASSIGN_OR_RETURN(FlatType flat, flatten_anew(type));
  SCR_ASSIGN_OR_RETURN(const int combiner, combiner_of(type));
  if (is_predefined(combiner)) {
    last_basic = {type, flat};
  } else {
    keep(type, flat);
  }
  return flat;
}

bool is_contiguous_in_memory(std::int64_t count, const FlatType& type) {
  return type.is_contiguous || count == 0 || (count == 1 && type.ranges.size() == 1);
}

std::byte* start_in_memory(const void* buffer, const FlatType& type) {
  const std::int64_t offset = type.ranges.empty() ? 0 : type.ranges.front().offset;
  // By numbers, for MPI_BOTTOM may be a null pointer, to which C++ allows nothing to be added.
  const auto number =
      reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(offset);
  return reinterpret_cast<std::byte*>(number);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace scr::mpi
