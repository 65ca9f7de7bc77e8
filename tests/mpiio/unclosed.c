/* A program that does not close its files: one of all ranks, one of the first two, and one that it
 * closes. It knows nothing of h5scr.
 *
 *   mpirun -n N unclosed FILE      (N >= 2) makes FILE, FILE.two and FILE.closed */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kBlock = 1000 };

static int rank, size;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File write_file(MPI_Comm comm, const char* name, const char* suffix) {
  char path[4096], bytes[kBlock];
  MPI_File file = MPI_FILE_NULL;
  snprintf(path, sizeof path, "%s%s", name, suffix);
  must(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
  memset(bytes, 'a' + rank, sizeof bytes);
  /* Interleaved, with a hole; the last of them after the last collective call. */
  for (int i = 0; i < 3; i++) {
    const MPI_Offset at = (MPI_Offset)kBlock * (i * size + rank + (i == 2 ? 5 : 0));
    must(MPI_File_write_at(file, at, bytes, kBlock, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    if (i == 1) MPI_Barrier(comm);
  }
  return file;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm two;
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &two);
  MPI_File closed = write_file(MPI_COMM_WORLD, argv[1], ".closed");
  (void)write_file(MPI_COMM_WORLD, argv[1], "");
  if (rank < 2) (void)write_file(two, argv[1], ".two");
  must(MPI_File_close(&closed), "close");
  if (rank == 0) printf("DONE\n");
  MPI_Finalize();
  return 0;
}
