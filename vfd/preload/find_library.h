/* Finds a library of the program, also where it is private to a Python module (RTLD_LOCAL), which
 * RTLD_NEXT and RTLD_DEFAULT do not see. C, because preloads need it before anything else of h5scr
 * is loaded. Any thread may call. */
#ifndef SCR_FIND_LIBRARY_H
#define SCR_FIND_LIBRARY_H

#ifdef __cplusplus
extern "C" {
#endif

/* A handle for dlsym of the library that defines `symbol`, and not of something linked with it, so
 * that what preloads define is not found in it; it stays valid. The library is the one that
 * contains `code`, else the one that the object with `code` is linked with, else the first in the
 * process. NULL if there is none. `symbol` must be one that no preload defines. */
__attribute__((visibility("hidden"))) void* scr_find_library(const void* code, const char* symbol);

#ifdef __cplusplus
}
#endif

#endif
