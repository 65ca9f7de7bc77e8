/* What hdf5_open.c shares with the preloads that it is part of. */
#ifndef SCR_HDF5_OPEN_H
#define SCR_HDF5_OPEN_H

#include <stdint.h>

typedef int64_t hid_t; /* as HDF5's header says, which may be included as well */

void* scr_hdf5_function(const char* name, const void* caller);

/* Of libscr_hdf5_legacy, null where that is not loaded: the list, or a copy with the driver scr in
 * it, which is closed afterwards. `hdf5` is an address in the libhdf5 in question. */
__attribute__((weak)) hid_t scr_legacy_list(const void* hdf5, hid_t list);
__attribute__((weak)) void scr_legacy_close_list(const void* hdf5, hid_t list);

/* Of file_calls.c: how many files this thread has opened through h5scr; and that a file was opened
 * for writing when there were `before`. */
unsigned long scr_routed_opens(void);
void scr_opened_hdf5(const char* name, unsigned long before);

#endif
