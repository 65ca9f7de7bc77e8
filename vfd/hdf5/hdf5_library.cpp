#include "vfd/hdf5/hdf5_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "h5scr/version.hpp"
#include "vfd/preload/find_library.h"

namespace scr::vfd {
namespace {

// Names of the variables in which HDF5 keeps the numbers of a failure.
struct ErrorNumbers {
  const char* major;
  const char* minor;
};

ErrorNumbers error_numbers(Failure failure) {
  switch (failure) {
    case Failure::kArguments:
      return {"H5E_ARGS_g", "H5E_BADVALUE_g"};
    case Failure::kOpen:
      return {"H5E_FILE_g", "H5E_CANTOPENFILE_g"};
    case Failure::kClose:
      return {"H5E_IO_g", "H5E_CANTCLOSEFILE_g"};
    case Failure::kRead:
      return {"H5E_IO_g", "H5E_READERROR_g"};
    case Failure::kWrite:
      return {"H5E_IO_g", "H5E_WRITEERROR_g"};
    case Failure::kTruncate:
      return {"H5E_IO_g", "H5E_SEEKERROR_g"};
    case Failure::kLock:
      return {"H5E_VFL_g", "H5E_CANTLOCKFILE_g"};
    case Failure::kUnlock:
      return {"H5E_VFL_g", "H5E_CANTUNLOCKFILE_g"};
    case Failure::kDelete:
      return {"H5E_VFL_g", "H5E_CANTDELETEFILE_g"};
    case Failure::kControl:
      return {"H5E_VFL_g", "H5E_FCNTL_g"};
    case Failure::kProperty:
      return {"H5E_PLIST_g", "H5E_CANTSET_g"};
  }
  return {"H5E_VFL_g", "H5E_BADVALUE_g"};
}

// The value of one of HDF5's variables. If the program itself uses a variable, the linker has moved
// it there (a copy relocation), and the one in the library keeps its initial value, an invalid id.
hid_t id_in(void* handle, const char* variable) {
  for (void* const place : {handle, RTLD_DEFAULT}) {
    const auto* id = static_cast<const hid_t*>(::dlsym(place, variable));
    if (id != nullptr && *id > 0) return *id;
  }
  return H5I_INVALID_HID;
}

template <typename Function>
bool find_function(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

using VersionFunction = decltype(&::H5get_libversion);
constexpr const char* kVersionFunction = "H5get_libversion";

// The file that holds `code`; empty if no loaded object does.
std::string object_file(const void* code) {
  Dl_info found{};
  return ::dladdr(code, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

const void* base_address(const void* code) {
  Dl_info found{};
  return ::dladdr(code, &found) != 0 ? found.dli_fbase : nullptr;
}

#ifdef H5SCR_HDF5_PLUGIN
// Drivers may differ from one series of HDF5 to the next.
bool is_supported(unsigned major, unsigned minor) {
  return major == H5_VERS_MAJOR && minor == H5_VERS_MINOR;
}
std::string refusal() {
  return fmt::format("the HDF5 driver 'scr' is built for HDF5 {}.{} and refuses to work with",
                     H5_VERS_MAJOR, H5_VERS_MINOR);
}
constexpr const char* kAdvice = "use an h5scr built for that HDF5, or unset HDF5_DRIVER";
#else
// The last series before plug-ins; their drivers look the same.
bool is_supported(unsigned major, unsigned minor) {
  return major == 1 && (minor == 10 || minor == 12);
}
std::string refusal() {
  return "libscr_hdf5_legacy is for HDF5 1.10 and 1.12 and does nothing for";
}
constexpr const char* kAdvice = "HDF5 1.14 has the driver 'scr' as a plug-in, see HDF5_PLUGIN_PATH";
#endif

bool version_fits(void* handle) {
  VersionFunction get_version = nullptr;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (find_function(handle, kVersionFunction, get_version)) get_version(&major, &minor, &release);
  if (is_supported(major, minor)) return true;
  std::fprintf(stderr, "h5scr: %s HDF5 %u.%u.%u (%s): %s\n", refusal().c_str(), major, minor,
               release, object_file(reinterpret_cast<const void*>(get_version)).c_str(), kAdvice);
  return false;
}

// For people and for programs: the errno is written as HDF5's own drivers write it, because h5py
// users search the message for "errno = 17,".
std::string describe(const Status& status) {
  const std::string_view message = status.message();
  if (status.errno_value() == 0) return fmt::format("{} (driver scr)", message);
  return fmt::format("{} (errno = {}, driver scr)", message, status.errno_value());
}

}  // namespace

// Every libhdf5 met so far; null for one that does not fit.
class LoadedLibraries {
 public:
  Hdf5Library* of_caller(const void* code) {
    const std::lock_guard lock(mutex_);
    const auto known = by_caller_.find(code);
    if (known != by_caller_.end()) return known->second;
    void* const handle = scr_find_library(code, kVersionFunction);
    Hdf5Library* const library = load(handle);
    // dladdr() is slow, and a file is opened from the same few places in libhdf5, which stays
    // loaded; another caller may be unloaded, and its addresses used again.
    if (library != nullptr &&
        base_address(code) == base_address(::dlsym(handle, kVersionFunction))) {
      by_caller_[code] = library;
    }
    return library;
  }

 private:
  Hdf5Library* load(void* handle) {
    if (handle == nullptr) return nullptr;
    const auto [place, is_new] = libraries_.try_emplace(::dlsym(handle, kVersionFunction));
    if (is_new && version_fits(handle)) {
      auto library = std::make_unique<Hdf5Library>();
      if (library->resolve(handle)) place->second = std::move(library);
    }
    return place->second.get();
  }

  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Hdf5Library>> libraries_;  // by a function of each
  std::map<const void*, Hdf5Library*> by_caller_;                  // by return address
};

Hdf5Library* Hdf5Library::of_caller(const void* code) noexcept {
  try {
    // Never destroyed: HDF5 closes files in its own exit handler, which may run after our
    // destructors.
    static auto* const libraries = new LoadedLibraries;
    return libraries->of_caller(code);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "h5scr: the HDF5 driver 'scr' cannot find HDF5: %s\n", exception.what());
    return nullptr;
  }
}

#ifdef H5SCR_HDF5_PLUGIN

bool Hdf5Library::resolve_series() {
#ifdef H5_HAVE_PARALLEL
  find_function(handle_, "H5Pget_mpi_params", get_mpi_params);
  find_function(handle_, "H5FD_mpio_init", mpio_driver);
#endif
  return find_function(handle_, "H5FDopen", open_with_driver) &&
         find_function(handle_, "H5Fdelete", delete_file) &&
         find_function(handle_, "H5Pset_driver", set_driver) &&
         find_function(handle_, "H5FDis_driver_registered_by_name", is_driver_registered_by_name) &&
         find_function(handle_, "H5Pget_driver_config_str", get_driver_config_string) &&
         find_function(handle_, "H5Pget_file_locking", get_file_locking) &&
         find_function(handle_, "H5Pset_driver_by_name", set_driver_by_name);
}

#else

bool Hdf5Library::resolve_series() {
  find_function(handle_, "H5Pget_file_locking", get_file_locking);  // since 1.10.7 and 1.12.1
  return find_function(handle_, "H5open", open_library) &&
         find_function(handle_, "H5Eget_current_stack", take_errors) &&
         find_function(handle_, "H5Eset_current_stack", put_errors) &&
         find_function(handle_, "H5FD_sec2_init", sec2_driver) &&
         find_function(handle_, "H5Pset_driver", set_driver);
}

hid_t Hdf5Library::default_access_list() const {
  return id_in(handle_, "H5P_LST_FILE_ACCESS_ID_g");
}

#endif

// The program's own one first: the linker moves variables there (see id_in).
void* Hdf5Library::symbol(const char* name) {
  if (const auto known = symbols_.find(name); known != symbols_.end()) return known->second;
  void* found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) found = ::dlsym(handle_, name);
  if (found != nullptr) symbols_[name] = found;  // else MPI may be loaded later
  return found;
}

bool Hdf5Library::resolve(void* handle) {
  handle_ = handle;
  const bool complete = find_function(handle, "H5Epush2", push_) &&
                        find_function(handle, "H5Eregister_class", register_error_class_) &&
                        find_function(handle, "H5FDregister", register_driver) &&
                        find_function(handle, "H5Pclose", close_list) &&
                        find_function(handle, "H5Pcopy", copy_list) &&
                        find_function(handle, "H5Pexist", property_exists) &&
                        find_function(handle, "H5Pget", get_property) &&
                        find_function(handle, "H5Pget_driver", get_driver) && resolve_series();
  if (!complete) {
    std::fprintf(stderr, "h5scr: the HDF5 driver 'scr' cannot work with this build of HDF5: %s\n",
                 ::dlerror());
  }
  return complete;
}

void Hdf5Library::prepare_errors() {
  if (error_class_ == H5I_INVALID_HID) {
    error_class_ = register_error_class_("h5scr", "h5scr", H5SCR_VERSION);
  }
}

void Hdf5Library::push_error(const ErrorSite& site, const Status& status) {
  push_error(site, describe(status).c_str());
}

void Hdf5Library::push_error(const ErrorSite& site, const char* message) noexcept {
  const ErrorNumbers numbers = error_numbers(site.failure);
  const hid_t error_class =
      error_class_ != H5I_INVALID_HID ? error_class_ : id_in(handle_, "H5E_ERR_CLS_g");
  const hid_t minor = id_in(handle_, numbers.minor);  // some are not in every release
  const char* slash = std::strrchr(site.file, '/');
  push_(H5E_DEFAULT, slash != nullptr ? slash + 1 : site.file, site.function, site.line,
        error_class, id_in(handle_, numbers.major),
        minor != H5I_INVALID_HID ? minor : id_in(handle_, "H5E_BADVALUE_g"), "%s", message);
}

}  // namespace scr::vfd
