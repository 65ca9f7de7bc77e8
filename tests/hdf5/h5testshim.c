/* Preload that lets HDF5's own test programs run with a driver that they do not know.
 *
 *   cc -shared -fPIC -o libh5testshim.so h5testshim.c
 *   LD_PRELOAD=libh5testshim.so HDF5_DRIVER=scr HDF5_PLUGIN_PATH=<folder of libh5fd_scr.so> <test
 * program>
 *
 * It needs no header of HDF5: ids are 64-bit integers since HDF5 1.10, status codes are int. */
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
