/* optional_scr: a program that is linked with the native API and does not use it: its SCR support
 * is switched off. What it writes, it writes with MPI-IO.
 *
 *   optional_scr together NAME   all ranks write one file
 *   optional_scr check NAME      all ranks read it
 *   optional_scr each NAME       each rank writes NAME.1.<rank>, and after a barrier NAME.2.<rank>
 *   optional_scr scr             calls SCR_Init after all
 */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <string.h>

enum { kCount = 1000 };
static int rank;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "optional_scr: rank %d: cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void transfer(MPI_Comm comm, const char* name, int position, int write) {
  MPI_File file;
  int numbers[kCount];
  const MPI_Offset offset = (MPI_Offset)position * (MPI_Offset)sizeof numbers;
  for (int i = 0; i < kCount; ++i) numbers[i] = write ? i * (rank + 1) : -1;
  must(MPI_File_open(comm, name, write ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY,
                     MPI_INFO_NULL, &file),
       "open");
  must(write ? MPI_File_write_at_all(file, offset, numbers, kCount, MPI_INT, MPI_STATUS_IGNORE)
             : MPI_File_read_at_all(file, offset, numbers, kCount, MPI_INT, MPI_STATUS_IGNORE),
       "transfer");
  must(MPI_File_close(&file), "close");
  for (int i = 0; i < kCount; ++i) must(numbers[i] != i * (rank + 1), "find the numbers again");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* what = argc > 1 ? argv[1] : "";
  const char* name = argc > 2 ? argv[2] : "file";
  if (strcmp(what, "scr") == 0) must(SCR_Init() || SCR_Finalize(), "use the native API");
  if (strcmp(what, "together") == 0) transfer(MPI_COMM_WORLD, name, rank, 1);
  if (strcmp(what, "check") == 0) transfer(MPI_COMM_WORLD, name, rank, 0);
  for (int i = 1; i <= 2 && strcmp(what, "each") == 0; ++i) {
    char own[1000];
    snprintf(own, sizeof own, "%s.%d.%d", name, i, rank);
    transfer(MPI_COMM_SELF, own, 0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
