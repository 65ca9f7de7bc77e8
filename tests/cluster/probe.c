/*
 * probe: a small MPI program with which cluster_selftest.sh looks at a virtual cluster from within.
 *
 *   probe where          each rank prints "RANK HOST"
 *   probe storage        each rank writes a file to $H5SCR_NODE_LOCAL and prints "RANK HOST FILES",
 * the number of files it finds there once all ranks have written probe turn SECONDS   prints
 * "turning", then all ranks meet in collective calls for that long probe bandwidth      rank 0 and
 * the last rank exchange messages; prints megabytes per second
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char host[256];

static int count_files(const char* directory) {
  DIR* listing = opendir(directory);
  int files = 0;
  if (listing == NULL) return -1;
  for (struct dirent* entry; (entry = readdir(listing)) != NULL;) files += entry->d_name[0] != '.';
  closedir(listing);
  return files;
}

static void storage(void) {
  const char* directory = getenv("H5SCR_NODE_LOCAL");
  char path[4096];
  if (directory == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  snprintf(path, sizeof path, "%s/rank%d", directory, rank);
  FILE* file = fopen(path, "w");
  if (file == NULL || fprintf(file, "%d\n", rank) < 0 || fclose(file) != 0)
    MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("%d %s %d\n", rank, host, count_files(directory));
}

static void turn(double seconds) {
  const double end = MPI_Wtime() + seconds;
  int on = 1;
  if (rank == 0) {
    puts("turning");
    fflush(stdout);
  }
  while (on) {
    int mine = MPI_Wtime() < end;
    MPI_Allreduce(&mine, &on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    usleep(1000);
  }
}

static void bandwidth(void) {
  enum { kBytes = 4 << 20, kRounds = 50 };
  char* data = calloc(1, kBytes);
  const double start = MPI_Wtime();
  for (int i = 0; i < kRounds; i++) {
    if (rank == 0) MPI_Send(data, kBytes, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(data, kBytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == size - 1) printf("%.0f MB/s\n", kRounds * (kBytes / 1e6) / (MPI_Wtime() - start));
  MPI_Barrier(MPI_COMM_WORLD);
  free(data);
}

int main(int argc, char** argv) {
  const char* task = argc > 1 ? argv[1] : "where";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  gethostname(host, sizeof host);
  if (strcmp(task, "storage") == 0) {
    storage();
  } else if (strcmp(task, "turn") == 0) {
    turn(argc > 2 ? atof(argv[2]) : 1.0);
  } else if (strcmp(task, "bandwidth") == 0) {
    bandwidth();
  } else {
    printf("%d %s\n", rank, host);
  }
  MPI_Finalize();
  return 0;
}
