/* heat_hdf5: a 2-D heat equation with one HDF5 file per process, which knows nothing of h5scr.
 *
 *   heat_hdf5 STEPS CHECKPOINT_EVERY OUTPUT.pgm [MILLISECONDS_PER_STEP]
 *
 * Each rank owns some rows of the plate and writes them to ckpt_<step>.<rank>.h5 at each
 * checkpoint. Started again, it looks for its files and goes on from the newest step of which every
 * rank finds one. At the end rank 0 writes the field as a picture.
 *
 *   without h5scr:  mpirun -n 4 heat_hdf5 200 20 heat.pgm
 *   with h5scr:     . build/env.sh
 *                   mpirun -x HDF5_DRIVER=scr -x LD_PRELOAD=libscr_mpiio.so -n 4 \
 *                     heat_hdf5 200 20 heat.pgm
 */
#include <glob.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

static void checkpoint(int step) {
  char name[64];
  hsize_t size[2] = {(hsize_t)rows, WIDTH};
  sprintf(name, "ckpt_%04d.%d.h5", step, rank);
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(2, size, NULL);
  hid_t data =
      H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  herr_t written = H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, line(field, 0));
  H5Dclose(data);
  H5Sclose(space);
  if (H5Fclose(file) < 0 || written < 0) {
    fprintf(stderr, "rank %d: cannot write %s\n", rank, name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("step %d: checkpoint written\n", step);
    fflush(stdout);
  }
}

/* The newest step below `limit` of which this rank finds a file, 0 if there is none. */
static int newest_file(int limit) {
  char pattern[64];
  glob_t found;
  int newest = 0, step = 0;
  sprintf(pattern, "ckpt_*.%d.h5", rank);
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    if (sscanf(found.gl_pathv[i], "ckpt_%d.", &step) == 1 && step < limit && step > newest)
      newest = step;
  }
  globfree(&found);
  return newest;
}

static int read_field(int step) {
  char name[64];
  sprintf(name, "ckpt_%04d.%d.h5", step, rank);
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return 0;
  hid_t data = H5Dopen2(file, "field", H5P_DEFAULT);
  herr_t done = H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, line(field, 0));
  H5Dclose(data);
  H5Fclose(file);
  return done >= 0;
}

/* Returns the step of the checkpoint that was read, 0 if there is none. */
static int restart(void) {
  int step = newest_file(1 << 30), common = 0;
  for (;;) { /* until all ranks agree on one */
    MPI_Allreduce(&step, &common, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (common == 0) return 0;
    int mine = newest_file(common + 1) == common && read_field(common), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) break;
    step = newest_file(common);
  }
  if (rank == 0) printf("restarted from step %d\n", common);
  return common;
}

int main(int argc, char** argv) { return run_heat(argc, argv, "heat_hdf5", restart, checkpoint); }
