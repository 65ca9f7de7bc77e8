/* A shared file that is nearly all hole: every rank writes one number, far from the others', and
 * the file ends far behind the last. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const MPI_Offset apart = (MPI_Offset)512 << 20;
  int rank, ranks;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_File_open(MPI_COMM_WORLD, "holes.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                &file);
  MPI_File_write_at(file, apart * rank + 1000, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_set_size(file, apart * ranks);
  MPI_File_close(&file);
  if (rank == 0) printf("DONE\n");
  MPI_Finalize();
  return 0;
}
