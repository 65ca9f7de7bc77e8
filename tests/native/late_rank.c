/* late_rank RANK SECONDS: one rank comes SECONDS too late to SCR_Need_checkpoint. */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, flag = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3 || SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
  if (rank == atoi(argv[1])) usleep((useconds_t)(atof(argv[2]) * 1e6));
  if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
  if (SCR_Finalize() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Finalize();
  if (rank == 0) printf("END\n");
  return 0;
}
