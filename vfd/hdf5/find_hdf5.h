/* Finds the libhdf5 that a piece of code belongs to or uses. C, because the preload for old HDF5
 * needs it before anything else of h5scr is loaded. Any thread may call. */
#ifndef SCR_FIND_HDF5_H
#define SCR_FIND_HDF5_H

#ifdef __cplusplus
extern "C" {
#endif

/* A handle for dlsym, of libhdf5 itself and not of something linked with it, so that symbols of
 * other libraries, such as preloads, are not found in it; it stays valid. The library is the one
 * that contains `code`, else the one that the object with `code` is linked with, else the first in
 * the process, also where it is private to a Python module (RTLD_LOCAL). NULL if there is none. */
__attribute__((visibility("hidden"))) void* scr_find_hdf5(const void* code);

#ifdef __cplusplus
}
#endif

#endif
