/* Preload that lets HDF5's own test programs run with a driver that they do not know.
 *
 *   cc -shared -fPIC -o libh5testshim.so h5testshim.c
 *   LD_PRELOAD=libh5testshim.so HDF5_DRIVER=scr HDF5_PLUGIN_PATH=<folder of libh5fd_scr.so> <test
 * program>
 *
 * It needs no header of HDF5: ids are 64-bit integers since HDF5 1.10, status codes are int. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* The programs call this to put the driver named by HDF5_DRIVER into a file access property list;
 * theirs fails for all names but those of HDF5's own drivers. A list made by H5Pcreate has the
 * driver already, because libhdf5 itself reads the variable: there is nothing left to do. */
int h5_get_vfd_fapl(int64_t fapl_id) {
  (void)fapl_id;
  return 0;
}

/* The programs leave out what they believe works with the default driver alone (SWMR, symbolic
 * links, sizes of files on disk). A driver that claims to be as good as the default one is tested
 * on all of it: H5TESTSHIM_DRIVER says by which name they are to know it. */
const char* h5_get_test_driver_name(void) {
  const char* name = getenv("H5TESTSHIM_DRIVER");
  return name != NULL ? name : "sec2";
}

/* Most programs ask for the size of a file that they closed, with stat(). A file that h5scr has put
 * into its cache is not at its name: the driver knows the size. Other drivers' files are asked for
 * as before. */
void* H5FDopen(const char* name, unsigned flags, int64_t fapl_id, uint64_t maxaddr);
int H5FDclose(void* file);
uint64_t H5FDget_eof(void* file, int type);
int64_t H5Pget_driver(int64_t plist_id);
extern int64_t H5P_LST_FILE_ACCESS_ID_g __attribute__((weak)); /* a program may have no libhdf5 */

int64_t h5_get_file_size(const char* filename, int64_t fapl_id) {
  if (fapl_id != 0 && H5Pget_driver(fapl_id) != H5Pget_driver(H5P_LST_FILE_ACCESS_ID_g)) {
    int64_t (*next)(const char*, int64_t) =
        (int64_t(*)(const char*, int64_t))dlsym(RTLD_NEXT, "h5_get_file_size");
    return next(filename, fapl_id);
  }
  void* file = H5FDopen(filename, 0, fapl_id, UINT64_MAX);
  if (file == NULL) return -1;
  const int64_t size = (int64_t)H5FDget_eof(file, 0);
  H5FDclose(file);
  return size;
}
