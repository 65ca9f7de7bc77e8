#include "vfd/reader/dataset_reader.hpp"

#include <algorithm>

namespace scr::vfd {
namespace {

// Splits a box in halves along its first long side until each part is small enough.
bool visit_parts(const Box& box, hsize_t most, const std::function<bool(const Box&)>& visit) {
  if (box.elements() == 0) return true;
  if (box.elements() <= std::max<hsize_t>(most, 1)) return visit(box);
  for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i) {
    if (box.count[i] < 2) continue;
    Box first = box;
    Box second = box;
    first.count[i] = box.count[i] / 2;
    second.start[i] += first.count[i];
    second.count[i] -= first.count[i];
    return visit_parts(first, most, visit) && visit_parts(second, most, visit);
  }
  return visit(box);
}

Box extent_of(hid_t space) {
  Box box;
  if (H5Sget_simple_extent_type(space) != H5S_SIMPLE) return box;
  box.rank = H5Sget_simple_extent_dims(space, box.count.data(), nullptr);
  return box;
}

struct ChunkList {
  int rank = 0;
  std::vector<hsize_t> starts;  // rank numbers for each
};

int add_chunk(const hsize_t* start, unsigned, haddr_t, hsize_t, void* data) {
  auto& list = *static_cast<ChunkList*>(data);
  list.starts.insert(list.starts.end(), start, start + list.rank);
  return 0;
}

bool for_each_chunk(hid_t dataset, const Box& extent, hid_t creation, hsize_t most,
                    const std::function<bool(const Box&)>& visit) {
  Coordinates chunk{};
  if (H5Pget_chunk(creation, extent.rank, chunk.data()) != extent.rank) return false;
  ChunkList list;
  list.rank = extent.rank;
  if (H5Dchunk_iter(dataset, H5P_DEFAULT, add_chunk, &list) < 0) return false;
  const auto rank = static_cast<std::size_t>(extent.rank);
  for (std::size_t at = 0; at + rank <= list.starts.size(); at += rank) {
    Box box = extent;
    for (std::size_t i = 0; i < rank; ++i) {
      box.start[i] = list.starts[at + i];
      // A chunk may reach beyond the extent, or be left over outside of it.
      const hsize_t left = extent.count[i] > box.start[i] ? extent.count[i] - box.start[i] : 0;
      box.count[i] = std::min(chunk[i], left);
    }
    if (!visit_parts(box, most, visit)) return false;
  }
  return true;
}

}  // namespace

hsize_t Box::elements() const {
  hsize_t product = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (count[i] != 0 && product > HSIZE_UNDEF / count[i]) return HSIZE_UNDEF;
    product *= count[i];
  }
  return product;
}

bool for_each_box_of_extent(hid_t space, hsize_t most,
                            const std::function<bool(const Box&)>& visit) {
  if (H5Sget_simple_extent_type(space) == H5S_NULL) return true;
  return visit_parts(extent_of(space), most, visit);
}

bool for_each_box(hid_t dataset, hsize_t most, const std::function<bool(const Box&)>& visit) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!space.ok() || !creation.ok()) return false;
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    return for_each_chunk(dataset, extent_of(space), creation, most, visit);
  }
  if (H5Dget_storage_size(dataset) == 0) return true;  // only the fill value
  return for_each_box_of_extent(space, most, visit);
}

bool read_box(hid_t dataset, hid_t memory_type, const Box& box, void* buffer) {
  if (box.rank == 0) {
    return H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer) >= 0;
  }
  const Handle memory(H5Screate_simple(box.rank, box.count.data(), nullptr), H5Sclose);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  return memory.ok() && space.ok() &&
         H5Sselect_hyperslab(space, H5S_SELECT_SET, box.start.data(), nullptr, box.count.data(),
                             nullptr) >= 0 &&
         H5Dread(dataset, memory_type, memory, space, H5P_DEFAULT, buffer) >= 0;
}

}  // namespace scr::vfd
