#include "vfd/hdf5/parallel.hpp"

#include "core/base/log.hpp"
#include "core/routing/file_hooks.hpp"

#ifdef H5_HAVE_PARALLEL

namespace scr::vfd {
namespace {

// A file that HDF5 has not queried yet, and what mpio had entered into it. HDF5 opens one file at a
// time, but two libraries may.
struct Opened {
  H5FD_t* file = nullptr;
  hid_t driver_id = H5I_INVALID_HID;
  const H5FD_class_t* driver = nullptr;
};
thread_local Opened opened;

#ifdef OPEN_MPI
// Open MPI's constants are variables of its library, which the plug-in is not linked with.
bool is_null(Hdf5Library& library, MPI_Comm comm) {
  return comm == nullptr || comm == library.symbol("ompi_mpi_comm_null");
}
bool is_null(Hdf5Library& library, MPI_Info info) {
  return info == nullptr || info == library.symbol("ompi_mpi_info_null");
}
#else
bool is_null(Hdf5Library&, MPI_Comm comm) { return comm == MPI_COMM_NULL; }
bool is_null(Hdf5Library&, MPI_Info info) { return info == MPI_INFO_NULL; }
#endif

// HDF5 gives out copies.
template <typename Handle>
void free_copy(Hdf5Library& library, const char* function, Handle& handle) {
  if (is_null(library, handle)) return;
  auto* const free = reinterpret_cast<int (*)(Handle*)>(library.symbol(function));
  if (free != nullptr) free(&handle);
}

// The same list with mpio in the place of scr; invalid if this HDF5 has no mpio.
hid_t list_with_mpio(Hdf5Library& library, hid_t fapl_id) {
  const hid_t mpio = library.mpio_driver != nullptr ? library.mpio_driver() : H5I_INVALID_HID;
  const hid_t list = mpio >= 0 ? library.copy_list(fapl_id) : H5I_INVALID_HID;
  if (list >= 0 && library.set_driver(list, mpio, nullptr) >= 0) return list;
  if (list >= 0) library.close_list(list);
  return H5I_INVALID_HID;
}

}  // namespace

bool is_parallel(Hdf5Library& library, hid_t fapl_id) {
  if (library.get_mpi_params == nullptr) return false;
  MPI_Comm comm{};
  MPI_Info info{};
  if (library.get_mpi_params(fapl_id, &comm, &info) < 0) return false;
  const bool found = !is_null(library, comm);
  free_copy(library, "PMPI_Comm_free", comm);
  free_copy(library, "PMPI_Info_free", info);
  return found;
}

H5FD_t* open_parallel(Hdf5Library& library, const char* name, unsigned flags, hid_t fapl_id,
                      haddr_t largest) {
  const hid_t list = list_with_mpio(library, fapl_id);
  if (list < 0) {
    library.push_error({"open", Failure::kOpen},
                       "cannot open a file of several processes: this HDF5 has no driver mpio");
    return nullptr;
  }
  static const bool warned = [] {
    if (!routing::mpi_layer_is_here())
      log::warning("files of several processes are not protected: libscr_mpiio is not loaded");
    return true;
  }();
  (void)warned;
  H5FD_t* const file = library.open_with_driver(name, flags, list, largest);
  if (file != nullptr) opened = {file, file->driver_id, file->cls};
  // Not where it failed: the program has not seen yet what is on the error stack.
  if (file != nullptr) library.close_list(list);
  return file;
}

herr_t remove_parallel(Hdf5Library& library, const char* name, hid_t fapl_id) {
  const hid_t list = list_with_mpio(library, fapl_id);
  if (list < 0) return -1;
  const herr_t result = library.delete_file(name, list);
  if (result >= 0) library.close_list(list);
  return result;
}

// HDF5 has taken a reference of scr for the file, which it will not give back, and one of mpio,
// which it will: scr stays registered, as most drivers do.
bool hand_over(const H5FD_t* file, unsigned long* flags, herr_t& result) {
  if (file == nullptr || file != opened.file) return false;
  auto [mine, driver_id, driver] = opened;
  opened = {};
  mine->driver_id = driver_id;
  mine->cls = driver;
  result = driver->query(mine, flags);
  return true;
}

}  // namespace scr::vfd

#else

namespace scr::vfd {

bool is_parallel(Hdf5Library&, hid_t) { return false; }
H5FD_t* open_parallel(Hdf5Library&, const char*, unsigned, hid_t, haddr_t) { return nullptr; }
herr_t remove_parallel(Hdf5Library&, const char*, hid_t) { return -1; }
bool hand_over(const H5FD_t*, unsigned long*, herr_t&) { return false; }

}  // namespace scr::vfd

#endif
