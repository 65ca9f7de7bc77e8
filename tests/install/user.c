/* A user's program: includes the public header, calls the library. */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  printf("%s\n", SCR_Get_version());
  MPI_Finalize();
  return 0;
}
