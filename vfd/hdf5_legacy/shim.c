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
#include "vfd/preload/find_library.h"

/* Not in HDF5 1.10. */
htri_t H5Fis_accessible(const char* name, hid_t list);
herr_t H5Fdelete(const char* name, hid_t list);

/* The function of the HDF5 that the program called with this name. It is found from the place of
 * the call: a Python module's HDF5 is private to it, and there may be several. */
static void* real_function(const char* name, const void* caller) {
  void* hdf5 = scr_find_library(caller, "H5get_libversion");
  void* function = hdf5 != NULL ? dlsym(hdf5, name) : NULL;
  if (function == NULL) {
    fprintf(stderr, "h5scr: cannot find %s behind libscr_hdf5_legacy: HDF5 is not to be seen\n",
            name);
    abort();
  }
  return function;
}

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

/* Calls `call`, which uses `list`, with the driver in the list. */
#define WITH_DRIVER(result, real, list, call)                                       \
  do {                                                                              \
    const scr_legacy_driver* driver_ = wanted_driver();                             \
    const hid_t own_ = list;                                                        \
    if (driver_ != NULL) list = driver_->list_with_driver((const void*)real, list); \
    result = call;                                                                  \
    if (list != own_) driver_->close_list((const void*)real, list);                 \
  } while (0)

#define REAL(name) \
  __typeof__(&name) real = (__typeof__(&name))real_function(#name, __builtin_return_address(0))

hid_t H5Fopen(const char* name, unsigned flags, hid_t list) {
  REAL(H5Fopen);
  hid_t file;
  WITH_DRIVER(file, real, list, real(name, flags, list));
  return file;
}

hid_t H5Fcreate(const char* name, unsigned flags, hid_t creation, hid_t list) {
  REAL(H5Fcreate);
  hid_t file;
  WITH_DRIVER(file, real, list, real(name, flags, creation, list));
  return file;
}

htri_t H5Fis_accessible(const char* name, hid_t list) {
  REAL(H5Fis_accessible);
  htri_t answer;
  WITH_DRIVER(answer, real, list, real(name, list));
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
