/* A file that all ranks write and read together; it knows nothing of h5scr.
 *
 *   mpirun -n N one_rank write FILE BLOCKS      writes so many blocks, in turns
 *   mpirun -n N one_rank read FILE BLOCKS       all ranks read all of them
 *   mpirun -n N one_rank sync FILE BLOCKS       each rank by itself writes FILE.<rank> and syncs it
 * after each block, more often than before a close; then all kill themselves
 *
 * Prints DONE, or WRONG and what. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 5000 };

static int rank, size;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File open_file(MPI_Comm comm, const char* path, int mode) {
  MPI_File file = MPI_FILE_NULL;
  must(MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file), "open");
  return file;
}

static void fill(char* bytes, int block) { memset(bytes, 'A' + block % 26, kBlock); }

static void write_block(MPI_File file, int block) {
  char bytes[kBlock];
  fill(bytes, block);
  must(MPI_File_write_at(file, (MPI_Offset)kBlock * block, bytes, kBlock, MPI_BYTE,
                         MPI_STATUS_IGNORE),
       "write");
}

static void write_all(const char* path, int blocks) {
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  for (int block = rank; block < blocks; block += size) write_block(file, block);
  must(MPI_File_close(&file), "close");
}

static void read_all(const char* path, int blocks) {
  char found[kBlock], expected[kBlock];
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
  for (int block = 0; block < blocks; block++) {
    memset(found, 0, sizeof found);
    must(MPI_File_read_at(file, (MPI_Offset)kBlock * block, found, kBlock, MPI_BYTE,
                          MPI_STATUS_IGNORE),
         "read");
    fill(expected, block);
    must(memcmp(found, expected, kBlock) == 0 ? MPI_SUCCESS : MPI_ERR_IO, "find what was written");
  }
  must(MPI_File_close(&file), "close");
}

static void sync_and_die(const char* path, int blocks) {
  char own[4096];
  snprintf(own, sizeof own, "%s.%d", path, rank);
  MPI_File file = open_file(MPI_COMM_SELF, own, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  for (int block = 0; block < blocks; block++) {
    write_block(file, block);
    must(MPI_File_sync(file), "sync");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  raise(SIGKILL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  must(argc == 4 ? MPI_SUCCESS : MPI_ERR_ARG, "start: one_rank write|read|sync FILE BLOCKS");
  if (strcmp(argv[1], "write") == 0) write_all(argv[2], atoi(argv[3]));
  if (strcmp(argv[1], "read") == 0) read_all(argv[2], atoi(argv[3]));
  if (strcmp(argv[1], "sync") == 0) sync_and_die(argv[2], atoi(argv[3]));
  if (rank == 0) printf("DONE\n");
  MPI_Finalize();
  return 0;
}
