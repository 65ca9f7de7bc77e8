/* What libscr offers to the MPI layer (vfd/mpiio), which loads it at MPI_Init and has no C++.
 *
 * All functions are called by threads that may call MPI. Ours; not installed. */
#ifndef SCR_MPI_HOOKS_H
#define SCR_MPI_HOOKS_H

#include <mpi.h>

#include "core/mpiio/file_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_MPI_HOOKS_VERSION 3

typedef struct scr_mpi_hooks {
  int version;
  /* After MPI_Init, collective over the program: starts the runtime. 0 if files are routed, or may
   * be later; if not, the reason has been said, and no other function is called but that which
   * opens files. */
  int (*start)(void);
  /* Does MPI_Barrier on a communicator that holds all ranks of the program, and what is due there.
   */
  int (*barrier)(MPI_Comm comm);
  /* Before another blocking collective call on such a communicator. */
  void (*collective)(MPI_Comm comm);
  /* True if the communicator holds all ranks of the program. */
  int (*is_world)(MPI_Comm comm);
  /* Has `end` called in MPI_Finalize, after all that the program and its libraries have attached to
   * MPI_COMM_SELF since: parallel HDF5 closes there the files that the program has not. Called
   * right after start(). 0 if it will be. */
  int (*at_end)(void (*end)(void));
  /* At the end of MPI, collective. */
  void (*finish)(void);
  /* Not 0 while this process has written to shared files what others cannot see yet: then publish()
   * must be called before any call that could tell another process something. */
  const unsigned long* unpublished;
  void (*publish)(void);
  /* MPI-IO. */
  const scr_file_calls* files;
} scr_mpi_hooks;

/* By dlsym. NULL if `version` is not known. */
const scr_mpi_hooks* scr_get_mpi_hooks(int version);

#ifdef __cplusplus
}
#endif

#endif
