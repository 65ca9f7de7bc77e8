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
 * It hooks the start and the end of MPI (here); calls that communicate (communication.c), before
 * which writes to shared files are published, and at some of which datasets are sealed; MPI-IO
 * (files.c); and rename, unlink and their kin (vfd/preload/file_calls.c). What there is to do is
 * libscr's (core/api/mpi_hooks.h). SCR_ENABLE=0 makes it a no-op. */
#include "vfd/preload/preload.h"

#include "vfd/mpiio/shim.h"
#include "vfd/preload/find_library.h"

/* Says that this preload, and not only another one of h5scr, is in the process. */
const int scr_mpi_layer = 1;

/* A symbol of the program's MPI, which is private to mpi4py in Python. */
static void* mpi_symbol(const char* name) {
  void* mpi = scr_find_library(NULL, "MPI_Wtime");
  return mpi != NULL ? dlsym(mpi, name) : NULL;
}

/* Ends the program if there is none, for then the program has no MPI and could not have called us.
 */
void* scr_mpi_next(const char* name) {
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

static const unsigned long nothing_unpublished = 0;
static const int no_open_files = 0;

const scr_mpi_hooks* scr_hooks;
const scr_mpi_hooks* scr_unserved;
__thread int scr_inside;
const unsigned long* scr_unpublished = &nothing_unpublished;
const int* scr_open_files = &no_open_files;

static void use_hooks(const scr_mpi_hooks* found) {
  scr_hooks = found;
  scr_unpublished = found != NULL ? found->unpublished : &nothing_unpublished;
  scr_open_files = found != NULL ? found->files->open_files : &no_open_files;
}

static int ends_by_itself; /* in MPI_Finalize, see at_end() of the table */

static void end(void) {
  if (scr_hooks == NULL) return;
  scr_inside++;
  scr_hooks->finish();
  use_hooks(NULL);
  scr_inside--;
}

static void after_init(void) {
  if (scr_hooks != NULL || !scr_preload_enabled()) return;
  if (!same_mpi()) {
    give_up("the program uses another MPI than the one it was built for");
    return;
  }
  scr_inside++;
  const scr_mpi_hooks* found = load_hooks();
  if (found != NULL && found->start() == 0) {
    use_hooks(found);
    ends_by_itself = found->at_end(end) == 0;
  } else {
    scr_unserved = found; /* what others have in a cache is not at its name */
  }
  scr_inside--;
}

void scr_publish(void) {
  if (scr_hooks == NULL || scr_inside) return;
  scr_inside++;
  scr_hooks->publish();
  scr_inside--;
}

#define DEFINE_INIT(name, ...)                              \
  int name(SCR_PARAMETERS(__VA_ARGS__)) {                   \
    SCR_NEXT(name)                                          \
    scr_inside++;                                           \
    int result = next(SCR_NAMES(__VA_ARGS__));              \
    scr_inside--;                                           \
    if (result == MPI_SUCCESS && !scr_inside) after_init(); \
    return result;                                          \
  }

DEFINE_INIT(MPI_Init, int*, char***)
DEFINE_INIT(PMPI_Init, int*, char***)
DEFINE_INIT(MPI_Init_thread, int*, char***, int, int*)
DEFINE_INIT(PMPI_Init_thread, int*, char***, int, int*)

/* What libraries do in MPI_Finalize before our end, closing files, is the program's. */
#define DEFINE_FINALIZE(name)                                              \
  int name(void) {                                                         \
    SCR_NEXT(name)                                                         \
    if (scr_hooks != NULL && ends_by_itself && !scr_inside) return next(); \
    if (!scr_inside) end();                                                \
    scr_inside++;                                                          \
    int result = next();                                                   \
    scr_inside--;                                                          \
    return result;                                                         \
  }

DEFINE_FINALIZE(MPI_Finalize)
DEFINE_FINALIZE(PMPI_Finalize)
