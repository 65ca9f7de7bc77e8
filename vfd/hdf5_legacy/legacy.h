/* What the driver for old HDF5 (libscr_hdf5_legacy_driver, C++) offers to its preload
 * (libscr_hdf5_legacy), which loads it at the first file that the program opens. `hdf5` is an
 * address in the libhdf5 in question. Ours; not installed. */
#ifndef SCR_HDF5_LEGACY_H
#define SCR_HDF5_LEGACY_H

#include <hdf5.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_LEGACY_DRIVER_VERSION 1

typedef struct scr_legacy_driver {
  int version;
  /* A copy of a file access property list, with the driver scr in place of HDF5's default driver.
   * The list itself if it has another driver, or if h5scr cannot work with this HDF5. */
  hid_t (*list_with_driver)(const void* hdf5, hid_t list);
  /* Ends the use of such a list, and leaves HDF5's error stack as it is. */
  void (*close_list)(const void* hdf5, hid_t list);
  /* Whether a file is an HDF5 file: 1, 0, -1 with a reason on the error stack; SCR_LEGACY_NOT_OURS
   * if HDF5 itself can say. */
  htri_t (*is_hdf5)(const void* hdf5, const char* name);
  /* Deletes a file: 0, -1 or SCR_LEGACY_NOT_OURS. */
  herr_t (*delete_file)(const void* hdf5, const char* name, hid_t list);
} scr_legacy_driver;

#define SCR_LEGACY_NOT_OURS (-1000)

/* By dlsym. NULL if `version` is not known. */
const scr_legacy_driver* scr_get_legacy_driver(int version);

#ifdef __cplusplus
}
#endif

#endif
