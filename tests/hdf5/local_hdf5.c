/* Uses HDF5 as a Python module does: libhdf5 is loaded at run time, private to its loader
 * (RTLD_LOCAL), and possibly more than once, when two modules each bring their own. HDF5_DRIVER=scr
 * local_hdf5 DIRECTORY LIBHDF5... With each library: makes DIRECTORY/<n>.h5, reads it back, and
 * then opens a file that is not there; prints the class and text of the innermost error. Exits 1
 * when something else happens. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

#define DECLARE(function) __typeof__(&function) function##_
#define RESOLVE(function) *(void**)&api.function##_ = symbol(handle, #function)

struct api {
  DECLARE(H5Fcreate);
  DECLARE(H5Fopen);
  DECLARE(H5Fclose);
  DECLARE(H5Eset_auto2);
  DECLARE(H5Ewalk2);
  DECLARE(H5Eget_class_name);
};

struct found {
  char text[512];
  hid_t error_class;
};

static void* symbol(void* handle, const char* name) {
  void* address = dlsym(handle, name);
  if (address == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return address;
}

static struct api load(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  struct api api;
  RESOLVE(H5Fcreate);
  RESOLVE(H5Fopen);
  RESOLVE(H5Fclose);
  RESOLVE(H5Eset_auto2);
  RESOLVE(H5Ewalk2);
  RESOLVE(H5Eget_class_name);
  return api;
}

static herr_t take_first(unsigned n, const H5E_error2_t* entry, void* result) {
  (void)n;
  struct found* found = result;
  snprintf(found->text, sizeof(found->text), "%s", entry->desc);
  found->error_class = entry->cls_id;
  return 1;
}

static void use(const struct api* api, const char* directory, int n) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d.h5", directory, n);
  hid_t file = api->H5Fcreate_(path, 2u /* H5F_ACC_TRUNC */, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0 || api->H5Fclose_(file) < 0) exit(1);
  file = api->H5Fopen_(path, 0u /* H5F_ACC_RDONLY */, H5P_DEFAULT);
  if (file < 0 || api->H5Fclose_(file) < 0) exit(1);

  api->H5Eset_auto2_(H5E_DEFAULT, NULL, NULL);
  struct found found = {"", -1};
  char error_class[64] = "";
  if (api->H5Fopen_("missing.h5", 0u, H5P_DEFAULT) >= 0) exit(1);
  api->H5Ewalk2_(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &found);
  api->H5Eget_class_name_(found.error_class, error_class, sizeof(error_class));
  printf("%s: %s\n", error_class, found.text);
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const struct api api = load(argv[i]);
    use(&api, argv[1], i - 1);
  }
  return 0;
}
