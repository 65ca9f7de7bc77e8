/* Time of an MPI_Barrier and a small MPI_Allreduce: "NAME SECONDS" on rank 0. run.sh compares runs
 * with and without the preload of h5scr. */
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
  MPI_Finalize();
  return 0;
}
