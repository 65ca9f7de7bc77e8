/* Time of an MPI_Barrier, a small MPI_Allreduce, a message to the rank itself and an
 * MPI_File_get_size of a file that h5scr does not serve: "NAME SECONDS" on rank 0. run.sh compares
 * runs with and without the preload of h5scr. */
#include <mpi.h>
#include <stdio.h>

enum { kCalls = 20000 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double value = 1, sum;
  for (int i = 0; i < 1000; i++) MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < kCalls; i++) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("barrier %.9f\n", (MPI_Wtime() - start) / kCalls);
  start = MPI_Wtime();
  for (int i = 0; i < kCalls; i++) {
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("allreduce %.9f\n", (MPI_Wtime() - start) / kCalls);
  start = MPI_Wtime();
  for (int i = 0; i < kCalls; i++) {
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, rank, 0, &sum, 1, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
  if (rank == 0) printf("message %.9f\n", (MPI_Wtime() - start) / kCalls);
  MPI_File file;
  MPI_Offset size;
  MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  start = MPI_Wtime();
  for (int i = 0; i < kCalls; i++) MPI_File_get_size(file, &size);
  if (rank == 0) printf("file_call %.9f\n", (MPI_Wtime() - start) / kCalls);
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
