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
 * sealed (core/api/mpi_hooks.h), and rename, unlink and their kin (vfd/preload/file_calls.c).
 * SCR_ENABLE=0 makes it a no-op. */
#include "vfd/preload/preload.h"

#include <mpi.h>

#include "core/api/mpi_hooks.h"
#include "core/routing/file_hooks.h"
#include "vfd/preload/find_library.h"

/* Says that this preload, and not only another one of h5scr, is in the process. */
const int scr_mpi_layer = 1;

/* A symbol of the program's MPI, which is private to mpi4py in Python. */
static void* mpi_symbol(const char* name) {
  void* mpi = scr_find_library(NULL, "MPI_Wtime");
  return mpi != NULL ? dlsym(mpi, name) : NULL;
}

/* The definition of `name` in the libraries after this one; ends the program if there is none, for
 * then the program has no MPI and could not have called us. */
static void* next_function(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) function = mpi_symbol(name);
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

/* MPI libraries have different handles behind the same names. */
static int same_mpi(void) {
#ifdef OPEN_MPI
  return mpi_symbol("ompi_mpi_comm_world") != NULL;
#else
  return mpi_symbol("ompi_mpi_comm_world") == NULL;
#endif
}

static void give_up(const char* why) {
  fprintf(stderr, "h5scr: libscr_mpiio does nothing: %s\n", why);
}

static const scr_mpi_hooks* load_hooks(void) {
  void* library = scr_preload_load("libscr.so.0");
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
  if (hooks != NULL || !scr_preload_enabled()) return;
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
