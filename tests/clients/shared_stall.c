/* A rank that is outside MPI must not stall another's read of its bytes.
 *
 * Every rank writes its number to its own part of a shared file. Then all but rank 0 wait, without
 * any call of MPI, for a file that rank 0 makes only after it has read the parts of all: if a read
 * needed the help of the rank that wrote, nobody would ever go on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 10000 };

int main(int argc, char** argv) {
  int rank, ranks, *numbers = malloc(COUNT * sizeof(int)), wrong = 0;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_File_open(MPI_COMM_WORLD, "stall.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  for (int i = 0; i < COUNT; ++i) numbers[i] = rank * COUNT + i;
  MPI_File_write_at(file, (MPI_Offset)rank * COUNT * sizeof(int), numbers, COUNT, MPI_INT,
                    MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    for (int other = 0; other < ranks; ++other) {
      MPI_File_read_at(file, (MPI_Offset)other * COUNT * sizeof(int), numbers, COUNT, MPI_INT,
                       MPI_STATUS_IGNORE);
      for (int i = 0; i < COUNT; ++i) wrong += numbers[i] != other * COUNT + i;
    }
    FILE* signal = fopen("go-on", "w");
    if (signal != NULL) fclose(signal);
    printf(wrong ? "WRONG\n" : "READ\n");
  } else {
    while (access("go-on", F_OK) != 0) usleep(10000);
  }
  MPI_File_close(&file);
  MPI_Finalize();
  free(numbers);
  return wrong != 0;
}
