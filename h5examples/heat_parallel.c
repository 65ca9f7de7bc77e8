/* heat_parallel: a 2-D heat equation with one shared HDF5 file per checkpoint, written by all ranks
 * together with parallel HDF5. It knows nothing of h5scr, and restarts on any number of ranks.
 *
 *   heat_parallel STEPS CHECKPOINT_EVERY OUTPUT.pgm [MILLISECONDS_PER_STEP]
 *
 * Each rank owns some rows of the plate; at each checkpoint all of them write their rows to the
 * dataset "field" of ckpt_<step>.h5. Started again, it goes on from the newest such file that can
 * be read. At the end rank 0 writes the field as a picture.
 *
 *   without h5scr:  mpirun -n 4 heat_parallel 200 20 heat.pgm
 *   with h5scr:     . build/env.sh
 *                   mpirun -x LD_PRELOAD=libscr_mpiio.so -n 4 heat_parallel 200 20 heat.pgm
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

static hid_t parallel_access(void) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  return access;
}

static hid_t collective_transfer(void) {
  hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  return transfer;
}

/* This rank's rows of the whole plate. */
static hid_t own_rows(hid_t data) {
  hsize_t start[2] = {(hsize_t)first_row, 0}, count[2] = {(hsize_t)rows, WIDTH};
  hid_t space = H5Dget_space(data);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  return space;
}

static void checkpoint(int step) {
  char name[64];
  hsize_t size[2] = {HEIGHT, WIDTH}, mine[2] = {(hsize_t)rows, WIDTH};
  sprintf(name, "ckpt_%04d.h5", step);
  hid_t access = parallel_access(), transfer = collective_transfer();
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  hid_t space = H5Screate_simple(2, size, NULL), memory = H5Screate_simple(2, mine, NULL);
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(create, 0); /* so that two runs write the same bytes */
  hid_t data =
      H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, create, H5P_DEFAULT);
  hid_t scalar = H5Screate(H5S_SCALAR);
  hid_t note = H5Acreate2(file, "step", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
  herr_t noted = H5Awrite(note, H5T_NATIVE_INT, &step);
  hid_t place = own_rows(data);
  herr_t written = H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, place, transfer, line(field, 0));
  H5Aclose(note);
  H5Sclose(scalar);
  H5Sclose(place);
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(data);
  if (H5Fclose(file) < 0 || written < 0 || noted < 0) {
    fprintf(stderr, "rank %d: cannot write %s\n", rank, name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  H5Pclose(create);
  H5Pclose(transfer);
  H5Pclose(access);
  if (rank == 0) {
    printf("step %d: checkpoint written\n", step);
    fflush(stdout);
  }
}

static int read_field(int step) {
  char name[64];
  hsize_t mine[2] = {(hsize_t)rows, WIDTH};
  sprintf(name, "ckpt_%04d.h5", step);
  hid_t access = parallel_access(), transfer = collective_transfer();
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, access);
  herr_t done = -1;
  if (file >= 0) {
    hid_t data = H5Dopen2(file, "field", H5P_DEFAULT);
    hid_t place = own_rows(data), memory = H5Screate_simple(2, mine, NULL);
    done = H5Dread(data, H5T_NATIVE_DOUBLE, memory, place, transfer, line(field, 0));
    H5Sclose(memory);
    H5Sclose(place);
    H5Dclose(data);
    H5Fclose(file);
  }
  H5Pclose(transfer);
  H5Pclose(access);
  int mine_is_good = done >= 0, all = 0;
  MPI_Allreduce(&mine_is_good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

static int restart(void) { return restart_from_newest("ckpt_*.h5", "ckpt_%d.h5", read_field); }

int main(int argc, char** argv) {
  return run_heat(argc, argv, "heat_parallel", restart, checkpoint);
}
