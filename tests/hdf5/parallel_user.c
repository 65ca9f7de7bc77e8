/* A parallel HDF5 program that chooses its driver as the first argument says, and is otherwise the
 * same, so that its files must be.
 *   parallel_user mpio|property|name FILE [SETTINGS]
 * mpio is HDF5's own; property and name are the driver scr with H5Pset_mpi_params, name with the
 * settings. Prints DONE. */
#include <h5fd_scr.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 300 };

static int rank, size;

static void must(long long result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "parallel_user: rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t access_list(const char* driver, const char* settings) {
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  if (strcmp(driver, "mpio") == 0) {
    must(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL), "choose mpio");
    return list;
  }
  if (strcmp(driver, "name") == 0)
    must(H5Pset_driver_by_name(list, "scr", settings), "choose the driver by name");
  else
    must(H5Pset_fapl_scr(list, NULL), "choose the driver");
  must(H5Pset_mpi_params(list, MPI_COMM_WORLD, MPI_INFO_NULL), "set the communicator");
  return list;
}

/* Rows of all ranks, one after the other. */
static hid_t own_rows(hid_t space) {
  const hsize_t start[2] = {(hsize_t)rank * ROWS, 0}, count[2] = {ROWS, COLUMNS};
  must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "select");
  return H5Screate_simple(2, count, NULL);
}

static void transfer(hid_t file, const char* name, int collective, double* values, int writes) {
  const hsize_t dims[2] = {(hsize_t)size * ROWS, COLUMNS}, chunk[2] = {ROWS / 2, COLUMNS / 3};
  hid_t space = H5Screate_simple(2, dims, NULL), layout = H5Pcreate(H5P_DATASET_CREATE);
  hid_t how = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_obj_track_times(layout, 0); /* so that files can be compared */
  if (collective) H5Pset_chunk(layout, 2, chunk);
  must(H5Pset_dxpl_mpio(how, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT),
       "choose the transfer");
  hid_t data = writes
                   ? H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, layout, H5P_DEFAULT)
                   : H5Dopen2(file, name, H5P_DEFAULT);
  must(data, "open a data set");
  hid_t memory = own_rows(space);
  must(writes ? H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, how, values)
              : H5Dread(data, H5T_NATIVE_DOUBLE, memory, space, how, values),
       "transfer");
  H5Sclose(memory);
  H5Dclose(data);
  H5Pclose(how);
  H5Pclose(layout);
  H5Sclose(space);
}

static void check(hid_t file, const char* name, int collective, const double* expected) {
  static double found[ROWS * COLUMNS];
  memset(found, 0, sizeof found);
  transfer(file, name, collective, found, 0);
  must(memcmp(found, expected, sizeof found) == 0 ? 0 : -1, "read back what was written");
}

int main(int argc, char** argv) {
  static double values[ROWS * COLUMNS];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3 && argc != 4) must(-1, "start: give a driver and a file");
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = rank * 1e6 + i;
  hid_t list = access_list(argv[1], argc > 3 ? argv[3] : NULL);
  hid_t file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, list);
  must(file, "create the file");
  transfer(file, "chunked", 1, values, 1);
  transfer(file, "contiguous", 0, values, 1);
  hbool_t atomic = 0;
  must(H5Fset_mpi_atomicity(file, 1), "make it atomic");
  must(H5Fget_mpi_atomicity(file, &atomic), "ask whether it is");
  must(atomic ? 0 : -1, "find it atomic");
  must(H5Fset_mpi_atomicity(file, 0), "make it not atomic");
  hid_t again = H5Fget_access_plist(file);
  must(H5Fclose(file), "close the file");
  MPI_Barrier(MPI_COMM_WORLD);
  file = H5Fopen(argv[2], H5F_ACC_RDONLY, again);
  must(file, "open the file with the list that it gave");
  check(file, "chunked", 1, values);
  check(file, "contiguous", 0, values);
  must(H5Fclose(file), "close the file");
  H5Pclose(again);
  /* A second one, which does not stay. */
  char other[600];
  snprintf(other, sizeof other, "%s.gone", argv[2]);
  file = H5Fcreate(other, H5F_ACC_TRUNC, H5P_DEFAULT, list);
  must(file, "create a second file");
  must(H5Fclose(file), "close it");
  must(H5Fdelete(other, list), "delete it");
  H5Pclose(list);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) puts("DONE");
  return 0;
}
