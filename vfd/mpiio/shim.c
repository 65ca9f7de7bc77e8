/* libscr_mpiio: the layer between an unmodified MPI program and MPI.
 *
 * Load it with LD_PRELOAD, or link it before MPI. A preload reaches every shell and every gzip of a
 * job, so it needs no library, has no constructor, and does nothing until the program calls
 * MPI_Init, where it loads libscr from its own folder.
 *
 * It defines both MPI_X and PMPI_X: C and mpi4py call the first, the Fortran bindings the second.
 * Each forwards to the next library's function of the same name. Calls that MPI, or h5scr itself,
 * makes on the way are forwarded untouched (a guard for each thread).
 *
 * It hooks the start and the end of MPI, the blocking collective calls, at which datasets are
 * sealed (core/api/mpi_hooks.h), and rename, unlink and their kin (core/routing/file_hooks.h).
 * SCR_ENABLE=0 makes it a no-op. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/api/mpi_hooks.h"
#include "core/routing/file_hooks.h"

/* The definition of `name` in the libraries after this one; ends the program if there is none, for
 * then the program has no MPI and could not have called us. */
static void* next_function(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) {
    fprintf(stderr,
            "h5scr: cannot find %s behind libscr_mpiio: the program is not linked with MPI\n",
            name);
    abort();
  }
  return function;
}

/* --- MPI -----------------------------------------------------------------------------------------
 */

static const scr_mpi_hooks* hooks; /* NULL: all passes through */
static __thread int inside;        /* a call of MPI or of h5scr, which is not the program's own */

static int enabled(void) {
  const char* enable = getenv("SCR_ENABLE");
  return enable == NULL || strcmp(enable, "0") != 0;
}

/* MPI libraries have different handles behind the same names. */
static int same_mpi(void) {
#ifdef OPEN_MPI
  return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
#else
  return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") == NULL;
#endif
}

static void give_up(const char* why) {
  fprintf(stderr, "h5scr: libscr_mpiio does nothing: %s\n", why);
}

static const scr_mpi_hooks* load_hooks(void) {
  Dl_info self;
  char path[PATH_MAX];
  if (dladdr((void*)load_hooks, &self) == 0 || self.dli_fname == NULL) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  const int length = slash != NULL ? (int)(slash + 1 - self.dli_fname) : 0;
  snprintf(path, sizeof path, "%.*slibscr.so.0", length, self.dli_fname);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    give_up(dlerror());
    return NULL;
  }
  const scr_mpi_hooks* (*get)(int) =
      (const scr_mpi_hooks* (*)(int))dlsym(library, "scr_get_mpi_hooks");
  const scr_mpi_hooks* found = get != NULL ? get(SCR_MPI_HOOKS_VERSION) : NULL;
  if (found == NULL) give_up("libscr is of another version");
  return found;
}

static void after_init(void) {
  if (hooks != NULL || !enabled()) return;
  if (!same_mpi()) {
    give_up("the program uses another MPI than the one it was built for");
    return;
  }
  inside++;
  const scr_mpi_hooks* found = load_hooks();
  if (found != NULL && found->start() == 0) hooks = found;
  inside--;
}

static void before_finalize(void) {
  if (hooks == NULL) return;
  inside++;
  hooks->finish();
  hooks = NULL;
  inside--;
}

/* Types and arguments are given as lists in parentheses. */
#define FORWARD(name, types, arguments) (((int(*) types)next)arguments)

#define DEFINE_INIT(name, parameters, types, arguments) \
  int name parameters {                                 \
    static void* next;                                  \
    if (next == NULL) next = next_function(#name);      \
    inside++;                                           \
    int result = FORWARD(name, types, arguments);       \
    inside--;                                           \
    if (result == MPI_SUCCESS && !inside) after_init(); \
    return result;                                      \
  }

#define DEFINE_BOTH(DEFINE, name, parameters, types, arguments) \
  DEFINE(MPI_##name, parameters, types, arguments)              \
  DEFINE(PMPI_##name, parameters, types, arguments)

DEFINE_BOTH(DEFINE_INIT, Init, (int* argc, char*** argv), (int*, char***), (argc, argv))
DEFINE_BOTH(DEFINE_INIT, Init_thread, (int* argc, char*** argv, int required, int* provided),
            (int*, char***, int, int*), (argc, argv, required, provided))

#define DEFINE_FINALIZE(name, parameters, types, arguments) \
  int name parameters {                                     \
    static void* next;                                      \
    if (next == NULL) next = next_function(#name);          \
    if (!inside) before_finalize();                         \
    inside++;                                               \
    int result = FORWARD(name, types, arguments);           \
    inside--;                                               \
    return result;                                          \
  }

DEFINE_BOTH(DEFINE_FINALIZE, Finalize, (void), (void), ())

static int is_collective_point(MPI_Comm comm) {
  if (hooks == NULL || inside) return 0;
  inside++;
  int result = hooks->is_world(comm);
  inside--;
  return result;
}

#define DEFINE_BARRIER(name, parameters, types, arguments)                      \
  int name parameters {                                                         \
    static void* next;                                                          \
    if (next == NULL) next = next_function(#name);                              \
    const int ours = is_collective_point(comm);                                 \
    inside++;                                                                   \
    int result = ours ? hooks->barrier(comm) : FORWARD(name, types, arguments); \
    inside--;                                                                   \
    return result;                                                              \
  }

DEFINE_BOTH(DEFINE_BARRIER, Barrier, (MPI_Comm comm), (MPI_Comm), (comm))

#define DEFINE_COLLECTIVE(name, parameters, types, arguments) \
  int name parameters {                                       \
    static void* next;                                        \
    if (next == NULL) next = next_function(#name);            \
    const int ours = is_collective_point(comm);               \
    inside++;                                                 \
    if (ours) hooks->collective(comm);                        \
    int result = FORWARD(name, types, arguments);             \
    inside--;                                                 \
    return result;                                            \
  }

DEFINE_BOTH(DEFINE_COLLECTIVE, Bcast,
            (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
            (void*, int, MPI_Datatype, int, MPI_Comm), (buffer, count, type, root, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Reduce,
            (const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root,
             MPI_Comm comm),
            (const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm),
            (send, receive, count, type, op, root, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Allreduce,
            (const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm),
            (const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm),
            (send, receive, count, type, op, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Gather,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm),
            (send, send_count, send_type, receive, receive_count, receive_type, root, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Gatherv,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             const int* receive_counts, const int* displacements, MPI_Datatype receive_type,
             int root, MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, int,
             MPI_Comm),
            (send, send_count, send_type, receive, receive_counts, displacements, receive_type,
             root, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Scatter,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm),
            (send, send_count, send_type, receive, receive_count, receive_type, root, comm))
DEFINE_BOTH(
    DEFINE_COLLECTIVE, Scatterv,
    (const void* send, const int* send_counts, const int* displacements, MPI_Datatype send_type,
     void* receive, int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm),
    (const void*, const int*, const int*, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm),
    (send, send_counts, displacements, send_type, receive, receive_count, receive_type, root, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Allgather,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             int receive_count, MPI_Datatype receive_type, MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm),
            (send, send_count, send_type, receive, receive_count, receive_type, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Allgatherv,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             const int* receive_counts, const int* displacements, MPI_Datatype receive_type,
             MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm),
            (send, send_count, send_type, receive, receive_counts, displacements, receive_type,
             comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Alltoall,
            (const void* send, int send_count, MPI_Datatype send_type, void* receive,
             int receive_count, MPI_Datatype receive_type, MPI_Comm comm),
            (const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm),
            (send, send_count, send_type, receive, receive_count, receive_type, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Alltoallv,
            (const void* send, const int* send_counts, const int* send_displacements,
             MPI_Datatype send_type, void* receive, const int* receive_counts,
             const int* receive_displacements, MPI_Datatype receive_type, MPI_Comm comm),
            (const void*, const int*, const int*, MPI_Datatype, void*, const int*, const int*,
             MPI_Datatype, MPI_Comm),
            (send, send_counts, send_displacements, send_type, receive, receive_counts,
             receive_displacements, receive_type, comm))
DEFINE_BOTH(DEFINE_COLLECTIVE, Scan,
            (const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm),
            (const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm),
            (send, receive, count, type, op, comm))

/* --- files ---------------------------------------------------------------------------------------
 */

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
  return file_hooks != NULL && enabled() ? file_hooks->unlink(path) : 0;
}

static int try_rename(const char* from, const char* to) {
  return file_hooks != NULL && enabled() ? file_hooks->rename(from, to) : 0;
}

#define NEXT(type, name) \
  static type next;      \
  if (next == NULL) next = (type)next_function(name)

typedef int (*path_function)(const char*);
typedef int (*two_path_function)(const char*, const char*);
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
