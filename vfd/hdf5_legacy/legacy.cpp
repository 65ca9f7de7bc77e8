// Puts the driver scr into the property lists of programs with HDF5 1.10 or 1.12. The driver itself
// is vfd/hdf5/driver.cpp.
#include "vfd/hdf5_legacy/legacy.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/routing/session.hpp"
#include "vfd/hdf5/driver.hpp"

static_assert(!H5_VERSION_GE(1, 13, 0), "compile with the headers of HDF5 1.10: classes differ");

namespace scr::vfd {
namespace {

// The list to look at; H5P_DEFAULT is none.
hid_t actual_list(Hdf5Library& library, hid_t list) {
  if (list != H5P_DEFAULT) return list;
  library.open_library();
  return library.default_access_list();
}

// HDF5's own driver, which programs get that ask for none.
bool has_default_driver(Hdf5Library& library, hid_t list) {
  const hid_t driver = library.get_driver(list);
  return driver >= 0 && driver == library.sec2_driver();
}

hid_t list_with_driver(const void* hdf5, hid_t list) {
  Hdf5Library* const library = Hdf5Library::of_caller(hdf5);
  if (library == nullptr) return list;
  const hid_t original = actual_list(*library, list);
  if (original < 0 || !has_default_driver(*library, original)) return list;
  if (library->driver_id < 0) library->driver_id = library->register_driver(&kDriverClass);
  if (library->driver_id < 0) return list;
  const hid_t copy = library->copy_list(original);
  if (copy < 0) return list;
  if (library->set_driver(copy, library->driver_id, nullptr) >= 0) return copy;
  library->close_list(copy);
  return list;
}

// HDF5 clears the error stack at every call, but the program has not seen yet what is on it.
void close_list(const void* hdf5, hid_t list) {
  Hdf5Library* const library = Hdf5Library::of_caller(hdf5);
  const hid_t errors = library->take_errors();
  library->close_list(list);
  if (errors >= 0) library->put_errors(errors);
}

// The signature is at 0, 512, 1024, 2048 and so on.
Result<bool> has_signature(File& file) {
  constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  constexpr std::uint64_t kFirstBlock = 512;
  SCR_ASSIGN_OR_RETURN(const FileInfo info, file.info());
  for (std::uint64_t at = 0; at + kSignature.size() <= info.size;
       at = std::max(kFirstBlock, at * 2)) {
    std::array<unsigned char, kSignature.size()> found{};
    SCR_RETURN_IF_ERROR(file.read_exactly(std::as_writable_bytes(std::span(found)), at));
    if (found == kSignature) return true;
  }
  return false;
}

htri_t is_hdf5(const void* hdf5, const char* name) {
  Hdf5Library* const library = Hdf5Library::of_caller(hdf5);
  if (library == nullptr || name == nullptr) return SCR_LEGACY_NOT_OURS;
  library->open_library();
  library->prepare_errors();
  htri_t answer = SCR_LEGACY_NOT_OURS;
  const herr_t status = guarded(*library, {"H5Fis_hdf5", Failure::kOpen}, [&]() -> scr::Status {
    auto opened = routing::Session::process().open(name, OpenOptions::read());
    // HDF5 has its own words for a file that is not there.
    if (!opened.ok() && opened.status().errno_value() != 0) return {};
    SCR_RETURN_IF_ERROR(opened.status());
    if (opened->routed == nullptr) return {};
    SCR_ASSIGN_OR_RETURN(const bool found, has_signature(*opened->file));
    answer = found ? 1 : 0;
    return opened->file->close();
  });
  return status < 0 ? -1 : answer;
}

herr_t delete_file(const void* hdf5, const char* name, hid_t list) {
  Hdf5Library* const library = Hdf5Library::of_caller(hdf5);
  if (library == nullptr || name == nullptr) return SCR_LEGACY_NOT_OURS;
  library->open_library();
  library->prepare_errors();
  const hid_t original = actual_list(*library, list);
  if (original < 0 || !has_default_driver(*library, original)) return SCR_LEGACY_NOT_OURS;
  return guarded(*library, {"H5Fdelete", Failure::kDelete},
                 [&] { return routing::Session::process().remove(name); });
}

}  // namespace
}  // namespace scr::vfd

extern "C" __attribute__((visibility("default"))) const scr_legacy_driver* scr_get_legacy_driver(
    int version) {
  using namespace scr::vfd;
  static const scr_legacy_driver driver = {SCR_LEGACY_DRIVER_VERSION, list_with_driver, close_list,
                                           is_hdf5, delete_file};
  return version == SCR_LEGACY_DRIVER_VERSION ? &driver : nullptr;
}
