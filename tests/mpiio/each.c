/* Processes that open files each by itself (MPI_COMM_SELF), all of them the same ones; it knows
 * nothing of h5scr.
 *
 *   mpirun -n N each FILE
 *
 * Makes FILE.new, changes it (FILE.changed, after a copy of FILE.new), with two handles in each
 * process (FILE.twice), and leaves FILE.unclosed open at the end. Prints DONE. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kBlock = 100000 };

static int rank, size;
static char path[4096];

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s '%s'\n", rank, what, path);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File open_self(const char* name, const char* suffix, int mode) {
  MPI_File file = MPI_FILE_NULL;
  snprintf(path, sizeof path, "%s%s", name, suffix);
  must(MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file), "open");
  return file;
}

static void write_block(MPI_File file, int place, int byte) {
  static char bytes[kBlock];
  memset(bytes, byte, sizeof bytes);
  must(MPI_File_write_at(file, (MPI_Offset)place * kBlock, bytes, kBlock, MPI_BYTE,
                         MPI_STATUS_IGNORE),
       "write");
}

/* One rank after the other opens and writes; they close when all have. */
static void make_in_turns(const char* name) {
  MPI_File file = MPI_FILE_NULL;
  for (int turn = 0; turn < size; turn++) {
    if (turn == rank) {
      file = open_self(name, ".new", MPI_MODE_CREATE | MPI_MODE_WRONLY);
      write_block(file, rank, 'a' + rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  must(MPI_File_close(&file), "close");
}

/* All at the same time; the file is there, of all ranks, and some of its blocks stay. */
static void change(const char* name) {
  MPI_File file = MPI_FILE_NULL;
  snprintf(path, sizeof path, "%s.changed", name);
  must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
       "make");
  write_block(file, 2 * rank, '0' + rank);
  write_block(file, 2 * rank + 1, '.');
  must(MPI_File_close(&file), "close");
  MPI_Barrier(MPI_COMM_WORLD);
  file = open_self(name, ".changed", MPI_MODE_RDWR);
  MPI_Barrier(MPI_COMM_WORLD);
  write_block(file, 2 * rank, 'A' + rank);
  MPI_Barrier(MPI_COMM_WORLD);
  must(MPI_File_close(&file), "close");
}

static void write_twice(const char* name) {
  MPI_File one = open_self(name, ".twice", MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_File two = open_self(name, ".twice", MPI_MODE_CREATE | MPI_MODE_RDWR);
  write_block(one, 2 * rank, 'k' + rank);
  write_block(two, 2 * rank + 1, 'K' + rank);
  must(MPI_File_close(&one), "close");
  must(MPI_File_close(&two), "close");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  make_in_turns(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  change(argv[1]);
  write_twice(argv[1]);
  MPI_File open = open_self(argv[1], ".unclosed", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  write_block(open, rank, 'a' + rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("DONE\n");
  MPI_Finalize();
  return 0;
}
