/* soak: writes many checkpoints through the native API, and looks whether memory and time stay what
 * they are.
 *
 *   soak CHECKPOINTS
 *
 * Prints for each fifth of the run the milliseconds of a checkpoint and the largest memory of a
 * rank in KiB; then DONE, or WRONG if memory grows from the second fifth to the last. */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 5, BYTES = 4096 };

static int rank;

static long resident_kib(void) {
  char line[256];
  long kib = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  if (status != NULL) fclose(status);
  return kib;
}

static int write_checkpoint(int number) {
  char name[64], file[96], path[SCR_MAX_FILENAME], data[BYTES];
  memset(data, number & 0xff, sizeof data);
  snprintf(name, sizeof name, "soak.%d", number);
  snprintf(file, sizeof file, "soak/%d.%d", number, rank);
  if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) return 0;
  int valid = SCR_Route_file(file, path) == SCR_SUCCESS;
  FILE* out = valid ? fopen(path, "wb") : NULL;
  valid = out != NULL && fwrite(data, 1, sizeof data, out) == sizeof data;
  if (out != NULL && fclose(out) != 0) valid = 0;
  return SCR_Complete_output(valid) == SCR_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int checkpoints = argc > 1 ? atoi(argv[1]) : 0;
  if (checkpoints < PARTS || SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
  long memory[PARTS];
  for (int part = 0; part < PARTS; part++) {
    const double start = MPI_Wtime();
    for (int i = 0; i < checkpoints / PARTS; i++)
      if (!write_checkpoint(part * (checkpoints / PARTS) + i + 1)) MPI_Abort(MPI_COMM_WORLD, 1);
    const double seconds = MPI_Wtime() - start;
    long mine = resident_kib();
    MPI_Allreduce(&mine, &memory[part], 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
      printf("part %d: %.2f ms a checkpoint, %ld KiB\n", part + 1,
             seconds * 1e3 / (checkpoints / PARTS), memory[part]);
    fflush(stdout);
  }
  SCR_Finalize();
  /* Room for what the allocator does not give back. */
  const int flat = memory[PARTS - 1] <= memory[1] + memory[1] / 10 + 2048;
  if (rank == 0) puts(flat ? "DONE" : "WRONG: memory grows");
  MPI_Finalize();
  return flat ? 0 : 1;
}
