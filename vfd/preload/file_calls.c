/* rename, unlink, truncate and their kin, for every preload of h5scr: the session of the process
 * has a say in them (core/routing/file_hooks.h). If several preloads are loaded, the first one does
 * it and the others pass its calls on. What hdf5_open.c sees goes to the same session. */
#undef _FILE_OFFSET_BITS /* with 64 there, truncate would be another name of truncate64 */
#include "vfd/preload/preload.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/routing/file_hooks.h"
#include "vfd/preload/hdf5_open.h"

/* The session of this process, once there is one; it comes with the HDF5 driver or with libscr. */
static const scr_file_hooks* file_hooks;

void scr_register_file_hooks(const scr_file_hooks* table) { file_hooks = table; }

/* A name relative to a directory that is open; only such as are relative to the working directory
 * or absolute can be routed. */
static int is_plain(int directory, const char* path) {
  return directory == AT_FDCWD || (path != NULL && path[0] == '/');
}

/* 1: done; 0: the system call is to be made; -1: failed, errno is set. */
static int try_unlink(const char* path) {
  return file_hooks != NULL && scr_preload_enabled() ? file_hooks->unlink(path) : 0;
}

static int try_rename(const char* from, const char* to) {
  return file_hooks != NULL && scr_preload_enabled() ? file_hooks->rename(from, to) : 0;
}

static int try_truncate(const char* path, long long size) {
  if (file_hooks == NULL || size < 0 || !scr_preload_enabled()) return 0;
  return file_hooks->truncate(path, (unsigned long long)size);
}

unsigned long scr_routed_opens(void) { return file_hooks != NULL ? file_hooks->opens() : 0; }

void scr_opened_hdf5(const char* name, unsigned long before) {
  if (file_hooks != NULL && scr_preload_enabled() && file_hooks->opens() == before)
    file_hooks->went_past(name);
}

#define NEXT(type, name) \
  static type next;      \
  if (next == NULL) next = (type)dlsym(RTLD_NEXT, name)

typedef int (*path_function)(const char*);
typedef int (*two_path_function)(const char*, const char*);
typedef int (*truncate_function)(const char*, off_t);
typedef int (*truncate64_function)(const char*, off64_t);
typedef int (*unlinkat_function)(int, const char*, int);
typedef int (*renameat_function)(int, const char*, int, const char*);
typedef int (*renameat2_function)(int, const char*, int, const char*, unsigned);

int unlink(const char* path) {
  NEXT(path_function, "unlink");
  const int done = try_unlink(path);
  return done == 0 ? next(path) : done > 0 ? 0 : -1;
}

int remove(const char* path) {
  NEXT(path_function, "remove");
  const int done = try_unlink(path);
  return done == 0 ? next(path) : done > 0 ? 0 : -1;
}

int unlinkat(int directory, const char* path, int flags) {
  NEXT(unlinkat_function, "unlinkat");
  const int done = (flags & AT_REMOVEDIR) == 0 && is_plain(directory, path) ? try_unlink(path) : 0;
  return done == 0 ? next(directory, path, flags) : done > 0 ? 0 : -1;
}

int rename(const char* from, const char* to) {
  NEXT(two_path_function, "rename");
  const int done = try_rename(from, to);
  return done == 0 ? next(from, to) : done > 0 ? 0 : -1;
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  NEXT(renameat_function, "renameat");
  const int ours = is_plain(from_directory, from) && is_plain(to_directory, to);
  const int done = ours ? try_rename(from, to) : 0;
  return done == 0 ? next(from_directory, from, to_directory, to) : done > 0 ? 0 : -1;
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) {
  NEXT(renameat2_function, "renameat2");
  const int ours = flags == 0 && is_plain(from_directory, from) && is_plain(to_directory, to);
  const int done = ours ? try_rename(from, to) : 0;
  return done == 0 ? next(from_directory, from, to_directory, to, flags) : done > 0 ? 0 : -1;
}

int truncate(const char* path, off_t size) {
  NEXT(truncate_function, "truncate");
  const int done = try_truncate(path, size);
  return done == 0 ? next(path, size) : done > 0 ? 0 : -1;
}

int truncate64(const char* path, off64_t size) {
  NEXT(truncate64_function, "truncate64");
  const int done = try_truncate(path, size);
  return done == 0 ? next(path, size) : done > 0 ? 0 : -1;
}
