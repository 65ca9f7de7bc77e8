/* Cost of the bookkeeping alone: SCR_Start_output + SCR_Complete_output with one empty file a rank.
 * Baseline in the same run: the same number of MPI barriers and atomic file replacements as plain
 * code would need at least (two barriers, one create and one rename a rank). Prints one line with
 * the ratio. Then what it costs to register a file, with 100 to 10,000 of them. */
#include <fcntl.h>
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

static double baseline(int rank, const char* directory) {
  char temporary[512], final[512];
  snprintf(temporary, sizeof temporary, "%s/b%d.tmp", directory, rank);
  snprintf(final, sizeof final, "%s/b%d", directory, rank);
  double start = MPI_Wtime();
  MPI_Barrier(MPI_COMM_WORLD);
  int fd = open(temporary, O_CREAT | O_WRONLY, 0600);
  if (fd < 0 || close(fd) != 0 || rename(temporary, final) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

static double dataset(int rank, int step) {
  char name[64], file[64], path[SCR_MAX_FILENAME];
  snprintf(name, sizeof name, "d%d", step);
  snprintf(file, sizeof file, "f%d", rank);
  double start = MPI_Wtime();
  if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  SCR_Route_file(file, path);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  if (fd < 0 || close(fd) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  if (SCR_Complete_output(1) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  return MPI_Wtime() - start;
}

/* Processor time, in seconds, that SCR_Route_file takes for each of `files` files. */
static double route(int rank, int step, int files) {
  char name[64], file[64], path[SCR_MAX_FILENAME];
  snprintf(name, sizeof name, "r%d", step);
  if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  clock_t start = clock();
  for (int i = 0; i < files; ++i) {
    snprintf(file, sizeof file, "f%d.%d", rank, i);
    if (SCR_Route_file(file, path) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  SCR_Complete_output(0); /* nothing was written, so it is dropped */
  return seconds / files;
}

int main(int argc, char** argv) {
  enum { ROUNDS = 50 };
  double ours[ROUNDS], plain[ROUNDS];
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 2 || SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < ROUNDS; ++i) {
    plain[i] = baseline(rank, argv[1]);
    ours[i] = dataset(rank, i + 1);
  }
  double a = median(ours, ROUNDS), b = median(plain, ROUNDS);
  if (rank == 0) {
    printf(
        "%3d ranks: Start+Complete %.3f ms, ratio to the plain minimum %.1f (aim at 4 ranks: 2 "
        "ms)\n",
        ranks, a * 1e3, a / b);
  }
  for (int files = 100; files <= 10000; files *= 10) {
    double seconds = route(rank, files, files);
    if (rank == 0) {
      printf(
          "%3d ranks: SCR_Route_file %.1f us of processor time a file with %d files a rank (aim: "
          "flat)\n",
          ranks, seconds * 1e6, files);
    }
  }
  SCR_Finalize();
  MPI_Finalize();
  return 0;
}
