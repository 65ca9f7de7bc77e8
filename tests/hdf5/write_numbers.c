/* Writes COUNT integers from FIRST on to the dataset data/numbers of a new file, or more than one
 * file, one after the other. Goes on after an error, closes what it has opened, and exits with 1.
 *   write_numbers FIRST COUNT FILE...
 * With MPI (write_numbers_mpi) each rank writes FILE.<rank>, with a barrier after each file. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

static void name_of(const char* given, char* name, size_t size) {
#ifdef WITH_MPI
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, size, "%s.%d", given, rank);
#else
  snprintf(name, size, "%s", given);
#endif
}

static void after_file(void) {
#ifdef WITH_MPI
  MPI_Barrier(MPI_COMM_WORLD);
#endif
}

static int write_file(const char* name, const int* values, hsize_t count) {
  const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0) return -1;
  const hid_t group = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &count, NULL);
  const hid_t set =
      H5Dcreate2(group, "numbers", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  int written = H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  if (H5Dclose(set) < 0) written = -1; /* HDF5 may have held the data back until now */
  H5Sclose(space);
  H5Gclose(group);
  return H5Fclose(file) < 0 ? -1 : written;
}

int main(int argc, char** argv) {
  char name[4096];
  if (argc < 4) return 2;
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
#endif
  const int first = atoi(argv[1]);
  const int count = atoi(argv[2]);
  int* values = malloc((size_t)count * sizeof(int));
  int failed = values == NULL;
  for (int i = 0; !failed && i < count; i++) values[i] = first + i;
  for (int i = 3; values != NULL && i < argc; i++) {
    name_of(argv[i], name, sizeof name);
    if (write_file(name, values, (hsize_t)count) < 0) failed = 1;
    after_file();
  }
  free(values);
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  return failed;
}
