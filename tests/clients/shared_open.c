/* A program with a file that stays open for the whole run, beside checkpoints that it closes; it
 * knows nothing of h5scr.
 *
 *   shared_open FILE STEPS SECONDS [sync] [kill]
 *
 * In each step all ranks write a row of numbers to FILE, each its own part, and a checkpoint
 * FILE.<step>; then they sleep. sync: MPI_File_sync after each row. kill: rank 0 kills itself after
 * the last step. Prints ROWS n for each step that all have done, and DONE. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERS = 4096 };

static int rank, size;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Offset place(int step) {
  return ((MPI_Offset)step * size + rank) * (MPI_Offset)(NUMBERS * sizeof(long long));
}

static void fill(long long* row, int step) {
  for (int i = 0; i < NUMBERS; i++) row[i] = (step * 1000LL + rank) * 10000 + i;
}

/* The rows so far, of the next rank, as all must see them. */
static void check_rows(MPI_File file, int steps) {
  long long found[NUMBERS], expected[NUMBERS];
  const int own = rank;
  rank = (own + 1) % size;
  for (int step = 0; step < steps; step++) {
    must(MPI_File_read_at(file, place(step), found, NUMBERS, MPI_LONG_LONG, MPI_STATUS_IGNORE),
         "read a row");
    fill(expected, step);
    must(memcmp(found, expected, sizeof found) == 0 ? MPI_SUCCESS : MPI_ERR_IO,
         "find the row of the next rank");
  }
  rank = own;
}

static void write_checkpoint(const char* name, int step) {
  char path[600];
  long long row[NUMBERS];
  MPI_File file;
  snprintf(path, sizeof path, "%s.%d", name, step);
  fill(row, step);
  must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
       "create a checkpoint");
  must(MPI_File_write_at_all(file, place(0), row, NUMBERS, MPI_LONG_LONG, MPI_STATUS_IGNORE),
       "write a checkpoint");
  must(MPI_File_close(&file), "close a checkpoint");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int syncs = 0, kills = 0;
  for (int i = 4; i < argc; i++) {
    syncs |= strcmp(argv[i], "sync") == 0;
    kills |= strcmp(argv[i], "kill") == 0;
  }
  must(argc >= 4 ? MPI_SUCCESS : MPI_ERR_ARG, "start: shared_open FILE STEPS SECONDS");
  MPI_File file;
  must(
      MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
      "create the file");
  for (int step = 0; step < atoi(argv[2]); step++) {
    long long row[NUMBERS];
    fill(row, step);
    must(MPI_File_write_at(file, place(step), row, NUMBERS, MPI_LONG_LONG, MPI_STATUS_IGNORE),
         "write a row");
    if (syncs) must(MPI_File_sync(file), "sync the file");
    write_checkpoint(argv[1], step);
    MPI_Barrier(MPI_COMM_WORLD);
    check_rows(file, step + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("ROWS %d\n", step + 1);
    fflush(stdout);
    usleep((useconds_t)(atof(argv[3]) * 1e6));
  }
  if (kills && rank == 0) raise(SIGKILL);
  MPI_Barrier(MPI_COMM_WORLD);
  must(MPI_File_close(&file), "close the file");
  MPI_Finalize();
  if (rank == 0) puts("DONE");
  return 0;
}
