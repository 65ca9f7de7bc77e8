/* soak: writes many checkpoints through the native API, and looks whether memory, work and time
 * stay what they are.
 *
 *   soak CHECKPOINTS
 *
 * Prints for each tenth of the run the milliseconds of a checkpoint, the largest memory of a rank
 * in KiB, and what the calls to read and write of all ranks were and moved, for each checkpoint.
 * Then DONE, or WRONG if memory or work grow. Time is for those who read it: it says something of
 * the machine, too. */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 10, EARLY = 3, BYTES = 4096 };

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

/* Calls to read and write, and their bytes: what grows if some file of ours does. */
typedef struct {
  long long calls, bytes;
} work;

static work work_until_now(void) {
  char line[256];
  work sum = {0, 0};
  long long number;
  FILE* io = fopen("/proc/self/io", "r");
  while (io != NULL && fgets(line, sizeof line, io) != NULL) {
    if (sscanf(line, "rchar: %lld", &number) == 1 || sscanf(line, "wchar: %lld", &number) == 1)
      sum.bytes += number;
    if (sscanf(line, "syscr: %lld", &number) == 1 || sscanf(line, "syscw: %lld", &number) == 1)
      sum.calls += number;
  }
  if (io != NULL) fclose(io);
  return sum;
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
  work done[PARTS];
  const int each = checkpoints / PARTS;
  for (int part = 0; part < PARTS; part++) {
    const work before = work_until_now();
    const double start = MPI_Wtime();
    for (int i = 0; i < each; i++)
      if (!write_checkpoint(part * each + i + 1)) MPI_Abort(MPI_COMM_WORLD, 1);
    const double seconds = MPI_Wtime() - start;
    const work after = work_until_now();
    const long long own[2] = {after.calls - before.calls, after.bytes - before.bytes};
    long long all[2];
    long mine = resident_kib();
    MPI_Allreduce(&mine, &memory[part], 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(own, all, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    done[part].calls = all[0] / each;
    done[part].bytes = all[1] / each;
    if (rank == 0)
      printf("part %d: %.2f ms a checkpoint, %ld KiB, %lld calls, %lld bytes\n", part + 1,
             seconds * 1e3 / each, memory[part], done[part].calls, done[part].bytes);
    fflush(stdout);
  }
  SCR_Finalize();
  /* Room for what the allocator does not give back, for flushes that fall into one part or the
   * next, and for MPI's own. */
  const work early = done[EARLY], late = done[PARTS - 1];
  const int flat = memory[PARTS - 1] <= memory[EARLY] + memory[EARLY] / 10 + 2048;
  const int same = late.calls <= early.calls + early.calls / 4 + 20 &&
                   late.bytes <= early.bytes + early.bytes / 4 + 4096;
  if (rank == 0) puts(!flat ? "WRONG: memory grows" : same ? "DONE" : "WRONG: work grows");
  MPI_Finalize();
  return flat && same ? 0 : 1;
}
