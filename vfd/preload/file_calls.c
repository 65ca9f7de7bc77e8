/* rename, link, unlink, truncate and their kin, and commands of the program, for every preload of
 * h5scr: the session of the process has a say in them (core/routing/file_hooks.h). If several
 * preloads are loaded, the first one does it and the others pass its calls on. What hdf5_open.c
 * sees goes to the same session. */
#undef _FILE_OFFSET_BITS /* with 64 there, truncate would be another name of truncate64 */
#include "vfd/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/routing/file_hooks.h"
#include "vfd/preload/hdf5_open.h"

/* The session of this process, once there is one; it comes with the HDF5 driver or with libscr. */
static const scr_file_hooks* file_hooks;

void scr_register_file_hooks(const scr_file_hooks* table) { file_hooks = table; }

/* A name relative to a directory that is open, as a path; the name itself if that is not needed or
 * not possible. */
static const char* path_at(int directory, const char* path, char* buffer) {
  if (file_hooks == NULL || directory == AT_FDCWD || path == NULL || path[0] == '/' ||
      path[0] == '\0')
    return path;
  char link[40];
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  const ssize_t length = readlink(link, buffer, PATH_MAX);
  const size_t size = strlen(path) + 1;
  if (length <= 0 || buffer[0] != '/' || (size_t)length + 1 + size > PATH_MAX) return NULL;
  buffer[length] = '/';
  memcpy(buffer + length + 1, path, size);
  return buffer;
}

static int is_on(void) { return file_hooks != NULL && scr_preload_enabled(); }

/* 1: done; 0: the system call is to be made; -1: failed, errno is set. */
static int try_unlink(const char* path) {
  return is_on() && path != NULL ? file_hooks->unlink(path) : 0;
}

static int try_rename(const char* from, const char* to, unsigned flags) {
  return is_on() && from != NULL && to != NULL ? file_hooks->rename(from, to, flags) : 0;
}

static int try_link(const char* from, const char* to) {
  return is_on() && from != NULL && to != NULL ? file_hooks->link(from, to) : 0;
}

static void tell_end(void) {
  if (is_on()) file_hooks->ends_command();
}

static void tell_command(const char* command) {
  if (is_on() && command != NULL) file_hooks->starts_command(command);
}

static int try_truncate(const char* path, long long size) {
  if (!is_on() || path == NULL || size < 0) return 0;
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
typedef int (*linkat_function)(int, const char*, int, const char*, int);
typedef FILE* (*popen_function)(const char*, const char*);
typedef int (*pclose_function)(FILE*);

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
  char buffer[PATH_MAX];
  const int done = (flags & AT_REMOVEDIR) == 0 ? try_unlink(path_at(directory, path, buffer)) : 0;
  return done == 0 ? next(directory, path, flags) : done > 0 ? 0 : -1;
}

int rename(const char* from, const char* to) {
  NEXT(two_path_function, "rename");
  const int done = try_rename(from, to, 0);
  return done == 0 ? next(from, to) : done > 0 ? 0 : -1;
}

static int try_renameat(int from_directory, const char* from, int to_directory, const char* to,
                        unsigned flags) {
  char from_buffer[PATH_MAX];
  char to_buffer[PATH_MAX];
  return try_rename(path_at(from_directory, from, from_buffer),
                    path_at(to_directory, to, to_buffer), flags);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  NEXT(renameat_function, "renameat");
  const int done = try_renameat(from_directory, from, to_directory, to, 0);
  return done == 0 ? next(from_directory, from, to_directory, to) : done > 0 ? 0 : -1;
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) {
  NEXT(renameat2_function, "renameat2");
  const int done = try_renameat(from_directory, from, to_directory, to, flags);
  return done == 0 ? next(from_directory, from, to_directory, to, flags) : done > 0 ? 0 : -1;
}

int link(const char* from, const char* to) {
  NEXT(two_path_function, "link");
  const int done = try_link(from, to);
  return done == 0 ? next(from, to) : done > 0 ? 0 : -1;
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  NEXT(linkat_function, "linkat");
  char from_buffer[PATH_MAX];
  char to_buffer[PATH_MAX];
  const int named = (flags & AT_EMPTY_PATH) == 0; /* else a descriptor gets a name */
  const int done = named ? try_link(path_at(from_directory, from, from_buffer),
                                    path_at(to_directory, to, to_buffer))
                         : 0;
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

/* Commands of the program: they know nothing of the cache, and must find the files that they are
 * about at their names. */
int system(const char* command) {
  NEXT(path_function, "system");
  tell_command(command);
  const int status = next(command);
  const int error = errno;
  tell_end();
  errno = error;
  return status;
}

FILE* popen(const char* command, const char* mode) {
  NEXT(popen_function, "popen");
  tell_command(command);
  FILE* const stream = next(command, mode);
  if (stream == NULL) { /* nobody will close it */
    const int error = errno;
    tell_end();
    errno = error;
  }
  return stream;
}

int pclose(FILE* stream) {
  NEXT(pclose_function, "pclose");
  const int status = next(stream);
  const int error = errno;
  tell_end();
  errno = error;
  return status;
}
