/* A stand-in for a libhdf5 of a series that the plug-in is not compiled for. It opens a plug-in as
 * HDF5 does, and prints what it gets.
 *   other_hdf5 PLUGIN */
#include <dlfcn.h>
#include <stdio.h>

/* What the plug-in asks. */
int H5get_libversion(unsigned* major, unsigned* minor, unsigned* release);
int H5get_libversion(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 99;
  *release = 3;
  return 0;
}

int main(int argc, char** argv) {
  void* handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const void* (*get_info)(void);
  *(void**)&get_info = dlsym(handle, "H5PLget_plugin_info");
  for (int i = 0; i < 2; ++i) puts(get_info() == NULL ? "refused" : "accepted");
  return 0;
}
