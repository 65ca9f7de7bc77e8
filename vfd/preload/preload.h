/* What the preloads of h5scr (libscr_mpiio, libscr_hdf5_legacy) share.
 *
 * A preload reaches every shell and every gzip of a job: it is C, needs libc only, has no
 * constructor, and loads the rest of h5scr from its own folder when the program first does
 * something of interest. */
#ifndef SCR_PRELOAD_H
#define SCR_PRELOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int scr_preload_enabled(void) {
  const char* enable = getenv("SCR_ENABLE");
  return enable == NULL || strcmp(enable, "0") != 0;
}

/* Loads a library from the folder of the preload. NULL: dlerror() says why. */
static inline void* scr_preload_load(const char* library) {
  Dl_info self;
  char path[PATH_MAX];
  int length = 0;
  if (dladdr((void*)scr_preload_load, &self) != 0 && self.dli_fname != NULL) {
    const char* slash = strrchr(self.dli_fname, '/');
    length = slash != NULL ? (int)(slash + 1 - self.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s%s", length, self.dli_fname, library);
  } else {
    snprintf(path, sizeof path, "%s", library);
  }
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

#endif
