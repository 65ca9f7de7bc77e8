/* libscr_mpiio: the layer between an unmodified MPI program and MPI.
 *
 * Load it with LD_PRELOAD, or link it before MPI. A preload reaches every shell and every gzip of a
 * job, so it needs no library, has no constructor, and does nothing until the program calls
 * MPI_Init.
 *
 * It defines both MPI_X and PMPI_X: C and mpi4py call the first, the Fortran bindings the second.
 * Each forwards to the next library's function of the same name.
 *
 * At present it hooks the start and the end of MPI and passes everything through; SCR_DEBUG=1 makes
 * it say so. SCR_ENABLE=0 silences it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "h5scr/version.hpp"

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

/* Set once MPI is initialised, by whichever of the two names was called first. */
static int announced;

static void after_init(void) {
  const char* enable = getenv("SCR_ENABLE");
  const char* debug = getenv("SCR_DEBUG");
  if (announced || (enable != NULL && strcmp(enable, "0") == 0)) return;
  announced = 1;
  if (debug == NULL || atoi(debug) < 1) return;
  int rank = -1;
  char host[256] = "";
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  gethostname(host, sizeof host - 1);
  fprintf(stderr, "SCR %s: rank %d on %s: MPI-IO layer loaded, all files pass through\n",
          H5SCR_VERSION, rank, host);
}

#define DEFINE_INIT(name)                                                      \
  int name(int* argc, char*** argv) {                                          \
    int (*next)(int*, char***) = (int (*)(int*, char***))next_function(#name); \
    int result = next(argc, argv);                                             \
    if (result == MPI_SUCCESS) after_init();                                   \
    return result;                                                             \
  }

#define DEFINE_INIT_THREAD(name)                                   \
  int name(int* argc, char*** argv, int required, int* provided) { \
    int (*next)(int*, char***, int, int*) =                        \
        (int (*)(int*, char***, int, int*))next_function(#name);   \
    int result = next(argc, argv, required, provided);             \
    if (result == MPI_SUCCESS) after_init();                       \
    return result;                                                 \
  }

DEFINE_INIT(MPI_Init)
DEFINE_INIT(PMPI_Init)
DEFINE_INIT_THREAD(MPI_Init_thread)
DEFINE_INIT_THREAD(PMPI_Init_thread)
