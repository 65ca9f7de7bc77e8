// H5Pset_fapl_scr and H5Pget_fapl_scr, for programs linked with the plug-in.
#include <algorithm>

#include "vfd/hdf5/driver.hpp"
#include "vfd/hdf5/h5fd_scr.h"

namespace scr::vfd {
namespace {

Status check(const H5FD_scr_config_t& config) {
  if (config.magic != H5FD_SCR_CONFIG_MAGIC || config.version != H5FD_SCR_CONFIG_VERSION) {
    return invalid_argument(
        "cannot use the H5FD_scr_config_t: its magic or version is wrong; start from "
        "H5FD_SCR_CONFIG_DEFAULT and compile with the header of the h5scr in use");
  }
  if (std::ranges::any_of(config.reserved, [](std::uint64_t field) { return field != 0; })) {
    return invalid_argument(
        "cannot use the H5FD_scr_config_t: a reserved field is not zero; start from "
        "H5FD_SCR_CONFIG_DEFAULT");
  }
  if (std::ranges::find(config.settings, '\0') == std::end(config.settings)) {
    return invalid_argument("cannot use the H5FD_scr_config_t: the settings do not end");
  }
  return {};
}

// By name, so that a driver that HDF5 has loaded from the plug-in path already is the one used: two
// registrations of one driver would not see that they have the same file open.
Status set_driver(Hdf5Library& library, hid_t fapl_id, const char* settings) {
  if (library.is_driver_registered_by_name(H5FD_SCR_NAME) <= 0 &&
      library.register_driver(&kDriverClass) < 0) {
    return internal_error("cannot register the driver with HDF5");
  }
  if (library.set_driver_by_name(fapl_id, H5FD_SCR_NAME, settings) < 0) {
    return invalid_argument("cannot set the driver: the id is not a file access property list");
  }
  return {};
}

Status check_driver(Hdf5Library& library, hid_t fapl_id) {
  Status other = invalid_argument("cannot get the driver's settings: the list has another driver");
  if (library.is_driver_registered_by_name(H5FD_SCR_NAME) <= 0) return other;
  // HDF5 tells no driver's name by its id, but the same name always gives the same id.
  const hid_t probe = library.copy_list(fapl_id);
  if (probe < 0) return invalid_argument("cannot get the driver's settings: not a property list");
  const bool same = library.set_driver_by_name(probe, H5FD_SCR_NAME, nullptr) >= 0 &&
                    library.get_driver(probe) == library.get_driver(fapl_id);
  library.close_list(probe);
  return same ? Status() : other;
}

}  // namespace
}  // namespace scr::vfd

herr_t H5Pset_fapl_scr(hid_t fapl_id, const H5FD_scr_config_t* config) {
  using namespace scr::vfd;
  Hdf5Library* const library = Hdf5Library::of_caller(__builtin_return_address(0));
  if (library == nullptr) return -1;
  library->prepare_errors();
  return guarded(*library, {"H5Pset_fapl_scr", Failure::kProperty}, [&]() -> scr::Status {
    if (config != nullptr) SCR_RETURN_IF_ERROR(check(*config));
    const bool has_settings = config != nullptr && config->settings[0] != '\0';
    return set_driver(*library, fapl_id, has_settings ? config->settings : nullptr);
  });
}

herr_t H5Pget_fapl_scr(hid_t fapl_id, H5FD_scr_config_t* config) {
  using namespace scr::vfd;
  Hdf5Library* const library = Hdf5Library::of_caller(__builtin_return_address(0));
  if (library == nullptr) return -1;
  library->prepare_errors();
  return guarded(*library, {"H5Pget_fapl_scr", Failure::kArguments}, [&]() -> scr::Status {
    if (config == nullptr)
      return scr::invalid_argument("cannot return the settings: no place given");
    SCR_RETURN_IF_ERROR(check_driver(*library, fapl_id));
    *config = H5FD_SCR_CONFIG_DEFAULT;
    library->get_driver_config_string(fapl_id, config->settings, sizeof config->settings);
    return {};
  });
}
