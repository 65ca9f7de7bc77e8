/* libscr_hdf5_legacy: the driver scr for programs with HDF5 1.10 or 1.12, which load no drivers.
 *
 *   HDF5_DRIVER=scr LD_PRELOAD=libscr_hdf5_legacy.so program
 *
 * It puts the driver into the property list of every file that is opened with HDF5's default
 * driver. Without HDF5_DRIVER=scr, with SCR_ENABLE=0 and with another HDF5 all calls pass through.
 * A preload: see vfd/preload/preload.h for what it may not do. With MPI, load libscr_mpiio as well.
 *
 * It cannot serve programs that HDF5 is linked into statically, nor an HDF5 that hides its symbols.
 */
#include "vfd/preload/preload.h"

#include "vfd/hdf5_legacy/legacy.h"
#include "vfd/preload/hdf5_open.h"

/* Not in HDF5 1.10. */
htri_t H5Fis_accessible(const char* name, hid_t list);
herr_t H5Fdelete(const char* name, hid_t list);

static const scr_legacy_driver* load_driver(void) {
  static const scr_legacy_driver* driver;
  static int failed;
  if (driver != NULL || failed) return driver;
  void* library = scr_preload_load("libscr_hdf5_legacy_driver.so");
  const char* why = library == NULL ? dlerror() : "the driver is of another version";
  const scr_legacy_driver* (*get)(int) =
      library != NULL ? (const scr_legacy_driver* (*)(int))dlsym(library, "scr_get_legacy_driver")
                      : NULL;
  driver = get != NULL ? get(SCR_LEGACY_DRIVER_VERSION) : NULL;
  if (driver == NULL) {
    failed = 1;
    fprintf(stderr, "h5scr: libscr_hdf5_legacy does nothing: %s\n", why);
  }
  return driver;
}

/* NULL: pass through. */
static const scr_legacy_driver* wanted_driver(void) {
  const char* driver = getenv("HDF5_DRIVER");
  if (driver == NULL || strcmp(driver, "scr") != 0 || !scr_preload_enabled()) return NULL;
  return load_driver();
}

hid_t scr_legacy_list(const void* hdf5, hid_t list) {
  const scr_legacy_driver* driver = wanted_driver();
  return driver != NULL ? driver->list_with_driver(hdf5, list) : list;
}

void scr_legacy_close_list(const void* hdf5, hid_t list) { load_driver()->close_list(hdf5, list); }

#define REAL(name) \
  __typeof__(&name) real = (__typeof__(&name))scr_hdf5_function(#name, __builtin_return_address(0))

htri_t H5Fis_accessible(const char* name, hid_t list) {
  REAL(H5Fis_accessible);
  const hid_t used = scr_legacy_list((const void*)real, list);
  const htri_t answer = real(name, used);
  if (used != list) scr_legacy_close_list((const void*)real, used);
  return answer;
}

/* Without a property list, so there is no place for the driver. */
htri_t H5Fis_hdf5(const char* name) {
  REAL(H5Fis_hdf5);
  const scr_legacy_driver* driver = wanted_driver();
  const htri_t answer =
      driver != NULL ? driver->is_hdf5((const void*)real, name) : SCR_LEGACY_NOT_OURS;
  return answer != SCR_LEGACY_NOT_OURS ? answer : real(name);
}

/* HDF5 1.12 has the function, but its drivers cannot delete. */
herr_t H5Fdelete(const char* name, hid_t list) {
  REAL(H5Fdelete);
  const scr_legacy_driver* driver = wanted_driver();
  const herr_t done =
      driver != NULL ? driver->delete_file((const void*)real, name, list) : SCR_LEGACY_NOT_OURS;
  return done != SCR_LEGACY_NOT_OURS ? done : real(name, list);
}
