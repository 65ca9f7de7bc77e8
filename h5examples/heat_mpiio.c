/* heat_mpiio: a 2-D heat equation with one shared file per checkpoint, written by all ranks with
 * plain MPI-IO. It knows nothing of h5scr, and restarts on any number of ranks.
 *
 *   heat_mpiio STEPS CHECKPOINT_EVERY OUTPUT.pgm [MILLISECONDS_PER_STEP]
 *
 * A checkpoint ckpt_<step>.dat is the field, row after row. Started again, the program goes on from
 * the newest such file of the right size.
 *
 *   without h5scr:  mpirun -n 4 heat_mpiio 200 20 heat.pgm
 *   with h5scr:     . build/env.sh
 *                   mpirun -x LD_PRELOAD=libscr_mpiio.so -n 4 heat_mpiio 200 20 heat.pgm
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

static MPI_Offset own_place(void) {
  return (MPI_Offset)first_row * WIDTH * (MPI_Offset)sizeof(double);
}

static void checkpoint(int step) {
  char name[64];
  MPI_File file;
  sprintf(name, "ckpt_%04d.dat", step);
  int code =
      MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  if (code == MPI_SUCCESS) {
    code = MPI_File_write_at_all(file, own_place(), line(field, 0), rows * WIDTH, MPI_DOUBLE,
                                 MPI_STATUS_IGNORE);
    int closed = MPI_File_close(&file);
    if (code == MPI_SUCCESS) code = closed;
  }
  if (code != MPI_SUCCESS) {
    fprintf(stderr, "rank %d: cannot write %s\n", rank, name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) {
    printf("step %d: checkpoint written\n", step);
    fflush(stdout);
  }
}

static int read_field(int step) {
  char name[64];
  MPI_File file;
  MPI_Offset size = 0;
  sprintf(name, "ckpt_%04d.dat", step);
  int good = 0, all = 0;
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS) {
    good = MPI_File_get_size(file, &size) == MPI_SUCCESS &&
           size == (MPI_Offset)sizeof(double) * WIDTH * HEIGHT &&
           MPI_File_read_at_all(file, own_place(), line(field, 0), rows * WIDTH, MPI_DOUBLE,
                                MPI_STATUS_IGNORE) == MPI_SUCCESS;
    MPI_File_close(&file);
  }
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

static int restart(void) { return restart_from_newest("ckpt_*.dat", "ckpt_%d.dat", read_field); }

int main(int argc, char** argv) { return run_heat(argc, argv, "heat_mpiio", restart, checkpoint); }
