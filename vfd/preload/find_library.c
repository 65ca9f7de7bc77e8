#define _GNU_SOURCE
#include "vfd/preload/find_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* A reference to an object that is loaded already; the program itself has no name that dlopen
 * knows. */
static void* open_loaded(const char* file) {
  void* handle = *file == '\0' ? NULL : dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  return handle != NULL ? handle : dlopen(NULL, RTLD_LAZY);
}

/* A handle of the library with `symbol` that the object `file` is or is linked with. */
static void* library_of(const char* file, const char* symbol) {
  void* handle = open_loaded(file);
  if (handle == NULL) return NULL;
  void* place = dlsym(handle, symbol);
  Dl_info library;
  void* found = place != NULL && dladdr(place, &library) != 0 && library.dli_fname != NULL
                    ? open_loaded(library.dli_fname)
                    : NULL;
  dlclose(handle);
  return found;
}

/* The names of all objects, one after the other. They are looked at later: dlopen must not be
 * called while dl_iterate_phdr holds its lock. */
struct names {
  char* text;
  size_t size;
};

static int add_name(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct names* names = data;
  const size_t length = strlen(object->dlpi_name) + 1;
  char* text = realloc(names->text, names->size + length);
  if (text == NULL) return 1;
  memcpy(text + names->size, object->dlpi_name, length);
  names->text = text;
  names->size += length;
  return 0;
}

void* scr_find_library(const void* code, const char* symbol) {
  Dl_info caller;
  void* found = NULL;
  if (code != NULL && dladdr(code, &caller) != 0 && caller.dli_fname != NULL)
    found = library_of(caller.dli_fname, symbol);
  if (found != NULL) return found;
  struct names names = {NULL, 0};
  dl_iterate_phdr(add_name, &names);
  for (size_t at = 0; found == NULL && at < names.size; at += strlen(names.text + at) + 1) {
    found = library_of(names.text + at, symbol);
  }
  free(names.text);
  return found;
}
