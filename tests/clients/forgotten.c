/* A parallel HDF5 program that does not close its file, as scripts do: HDF5 does it for them in
 * MPI_Finalize. It knows nothing of h5scr.
 *
 *   forgotten FILE     the data set "value" has the numbers 0, 1, 2, ... */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 5000 };

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  const hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t all[1] = {(hsize_t)size * COUNT}, mine[1] = {COUNT};
  const hsize_t start[1] = {(hsize_t)rank * COUNT};
  const hid_t space = H5Screate_simple(1, all, NULL), part = H5Screate_simple(1, mine, NULL);
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(how, 0); /* two runs make the same bytes */
  const hid_t dataset =
      H5Dcreate2(file, "value", H5T_NATIVE_LLONG, space, H5P_DEFAULT, how, H5P_DEFAULT);
  static long long values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (long long)start[0] + i;
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, mine, NULL);
  if (H5Dwrite(dataset, H5T_NATIVE_LLONG, part, space, H5P_DEFAULT, values) < 0) {
    printf("WRONG rank %d cannot write\n", rank);
  }
  MPI_Finalize();
  if (rank == 0) puts("DONE");
  return 0;
}
