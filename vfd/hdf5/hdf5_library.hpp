// The libhdf5 that called us, as a table of functions.
//
// The driver is compiled twice: against HDF5 1.14 for the plug-in, and against 1.10 for the preload
// that serves 1.10 and 1.12 (vfd/hdf5_legacy).
//
// It is not linked with HDF5: a second libhdf5 in the process would have its own property lists and
// its own error stack. So each entry point finds the library from its return address.
// That also works where the library is private to a Python module (RTLD_LOCAL), and where two
// modules each bring their own libhdf5: both then share this one driver, and each gets its own
// table.
//
// Everything here follows HDF5's threading rule: calls into one libhdf5 are serialised by that
// library or by the program. Finding a library is thread-safe by itself.
#pragma once

#include <hdf5.h>
#if H5_VERSION_GE(1, 14, 0)
#define H5SCR_HDF5_PLUGIN  // else for the preload (vfd/hdf5_legacy)
// The driver class is public, but hdf5.h does not include it.
#include <H5FDdevelop.h>
#endif

// HDF5's constants, such as H5F_ACC_RDWR, first call H5open() and H5check_version(), which programs
// need and we do not: the library is open when it calls us, and we do not link with it.
#undef H5OPEN
#undef H5CHECK
#define H5OPEN
#define H5CHECK

#include <exception>
#include <map>
#include <new>
#include <string_view>

#include "core/base/status.hpp"

namespace scr::vfd {

// What failed, as HDF5 classifies it: a pair of its major and minor error numbers. Programs look at
// these (h5py turns them into exception types), so they are those of HDF5's own drivers.
enum class Failure {
  kArguments,
  kOpen,
  kClose,
  kRead,
  kWrite,
  kTruncate,
  kLock,
  kUnlock,
  kDelete,
  kControl,
  kProperty,
};

// Where an error happened: in which call of the driver, and in which line of our code.
struct ErrorSite {
  // Builtins, because clang 14 has no std::source_location.
  ErrorSite(const char* function_in, Failure failure_in, unsigned line_in = __builtin_LINE(),
            const char* file_in = __builtin_FILE())
      : function(function_in), failure(failure_in), line(line_in), file(file_in) {}
  const char* function;
  Failure failure;
  unsigned line;
  const char* file;
};

class Hdf5Library {
 public:
  // The library that contains `code`, else the one that the object with `code` is linked with, else
  // the first in the process. Null if there is none or if its version does not fit the driver,
  // which is said once on standard error.
  static Hdf5Library* of_caller(const void* code) noexcept;

  // Puts a failure on the library's error stack, under the error class "h5scr".
  void push_error(const ErrorSite& site, const Status& status);
  void push_error(const ErrorSite& site, const char* message) noexcept;

  // Registers the error class. HDF5 clears the error stack on the way, so this is done where
  // nothing is on it, when a file is opened, and not when an error is there to be pushed.
  void prepare_errors();
  // The library is closing: its ids are void. It may be opened again.
  void forget_ids() {
    error_class_ = H5I_INVALID_HID;
    driver_id = H5I_INVALID_HID;
  }

  decltype(&::H5FDregister) register_driver = nullptr;
  decltype(&::H5Pclose) close_list = nullptr;
  decltype(&::H5Pcopy) copy_list = nullptr;
  decltype(&::H5Pexist) property_exists = nullptr;
  decltype(&::H5Pget) get_property = nullptr;
  decltype(&::H5Pget_driver) get_driver = nullptr;
  decltype(&::H5Pget_file_locking) get_file_locking = nullptr;
#ifdef H5SCR_HDF5_PLUGIN
  decltype(&::H5FDis_driver_registered_by_name) is_driver_registered_by_name = nullptr;
  decltype(&::H5Pget_driver_config_str) get_driver_config_string = nullptr;
  decltype(&::H5Pset_driver_by_name) set_driver_by_name = nullptr;
  decltype(&::H5FDopen) open_with_driver = nullptr;
  decltype(&::H5Fdelete) delete_file = nullptr;
  decltype(&::H5Pset_driver) set_driver = nullptr;
#ifdef H5_HAVE_PARALLEL
  // Null in a serial HDF5.
  decltype(&::H5Pget_mpi_params) get_mpi_params = nullptr;
  decltype(&::H5FD_mpio_init) mpio_driver = nullptr;
#endif
#else
  decltype(&::H5Eget_current_stack) take_errors = nullptr;
  decltype(&::H5Eset_current_stack) put_errors = nullptr;
  decltype(&::H5FD_sec2_init) sec2_driver = nullptr;
  decltype(&::H5Pset_driver) set_driver = nullptr;
  decltype(&::H5open) open_library = nullptr;
  // What H5P_DEFAULT stands for.
  hid_t default_access_list() const;
#endif
  // Of the library or of one that it is linked with; null if there is none.
  void* symbol(const char* name);
  hid_t driver_id = H5I_INVALID_HID;  // of the driver scr, where we have registered it ourselves

 private:
  friend class LoadedLibraries;

  bool resolve(void* handle);
  bool resolve_series();  // what not all releases have

  std::map<std::string_view, void*> symbols_;  // a search takes long; by literals
  void* handle_ = nullptr;                     // never closed: the table must stay valid
  decltype(&::H5Epush2) push_ = nullptr;
  decltype(&::H5Eregister_class) register_error_class_ = nullptr;
  hid_t error_class_ = H5I_INVALID_HID;
};

// Runs the body of an entry point, which returns a Status. On failure, also by an exception, which
// must not reach C code, the error is on the library's stack and the result is negative.
template <typename Body>
herr_t guarded(Hdf5Library& library, const ErrorSite& site, Body body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return 0;
    library.push_error(site, status);
  } catch (const std::bad_alloc&) {
    library.push_error(site, "out of memory");
  } catch (const std::exception& exception) {
    library.push_error(site, exception.what());
  } catch (...) {
    library.push_error(site, "unknown exception");
  }
  return -1;
}

}  // namespace scr::vfd
