/* H5Fopen and H5Fcreate, for every preload of h5scr: a program that chooses another driver for a
 * file that a ROUTE rule is for goes past h5scr, which must be said. If libscr_hdf5_legacy is
 * loaded, it puts the driver scr into the list. Names and types of HDF5 1.10 and later; no header
 * of HDF5 is needed. */
#include "vfd/preload/preload.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "vfd/preload/find_library.h"
#include "vfd/preload/hdf5_open.h"

#define H5F_ACC_RDWR 1U

/* Calls from the program itself, which is never unloaded, so that its addresses stay its own. The
 * search is slow, and programs open their files at a few places. */
enum { KNOWN = 16 };
struct known {
  const void* caller;
  const char* name;
  void* function;
};
static _Atomic(const struct known*) known[KNOWN]; /* each is set once, and then stays */

static int is_in_program(const void* code) {
  static const void* program; /* the same whoever sets it */
  Dl_info found;
  if (program == NULL) {
    const void* entry = (const void*)getauxval(AT_ENTRY);
    if (entry != NULL && dladdr(entry, &found) != 0) program = found.dli_fbase;
  }
  return program != NULL && dladdr(code, &found) != 0 && found.dli_fbase == program;
}

static void remember(_Atomic(const struct known*)* place, const void* caller, const char* name,
                     void* function) {
  struct known* mine = malloc(sizeof *mine);
  if (mine == NULL) return;
  *mine = (struct known){caller, name, function};
  const struct known* nobody = NULL;
  if (!atomic_compare_exchange_strong(place, &nobody, mine)) free(mine);
}

static void* find_function(const char* name, const void* caller) {
  void* hdf5 = scr_find_library(caller, "H5get_libversion");
  void* function = hdf5 != NULL ? dlsym(hdf5, name) : NULL;
  if (function == NULL) {
    fprintf(stderr, "h5scr: cannot find %s behind the preload: HDF5 is not to be seen\n", name);
    abort();
  }
  return function;
}

/* The function of the HDF5 that the program called with this name. It is found from the place of
 * the call: a Python module's HDF5 is private to it, and there may be several. */
void* scr_hdf5_function(const char* name, const void* caller) {
  _Atomic(const struct known*)* place = &known[((uintptr_t)caller >> 2) % KNOWN];
  const struct known* before = atomic_load(place);
  if (before != NULL && before->caller == caller && before->name == name) return before->function;
  void* function = find_function(name, caller);
  if (before == NULL && is_in_program(caller)) remember(place, caller, name, function);
  return function;
}

static hid_t list_with_driver(const void* hdf5, hid_t list) {
  return scr_legacy_list != NULL ? scr_legacy_list(hdf5, list) : list;
}

static void close_list(const void* hdf5, hid_t list, hid_t own) {
  if (list != own) scr_legacy_close_list(hdf5, list);
}

hid_t H5Fopen(const char* name, unsigned flags, hid_t list) {
  typedef hid_t (*function)(const char*, unsigned, hid_t);
  const function real = (function)scr_hdf5_function("H5Fopen", __builtin_return_address(0));
  const hid_t used = list_with_driver((const void*)real, list);
  const unsigned long before = scr_routed_opens();
  const hid_t file = real(name, flags, used);
  close_list((const void*)real, used, list);
  if (file >= 0 && (flags & H5F_ACC_RDWR) != 0) scr_opened_hdf5(name, before);
  return file;
}

hid_t H5Fcreate(const char* name, unsigned flags, hid_t creation, hid_t list) {
  typedef hid_t (*function)(const char*, unsigned, hid_t, hid_t);
  const function real = (function)scr_hdf5_function("H5Fcreate", __builtin_return_address(0));
  const hid_t used = list_with_driver((const void*)real, list);
  const unsigned long before = scr_routed_opens();
  const hid_t file = real(name, flags, creation, used);
  close_list((const void*)real, used, list);
  if (file >= 0) scr_opened_hdf5(name, before);
  return file;
}
