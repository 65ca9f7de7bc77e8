/* Ranks that tell each other of their writes without MPI: by files. With the hint scr_order=strict
 * the other rank sees what was written.
 *
 *   order FILE ORDER     ORDER: what MPI_File_get_info must say; strict is also given as a hint
 *
 * Prints SEEN or "NOT SEEN" for what rank 1 read while rank 0 was outside of MPI. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void signal_by(const char* name) {
  FILE* file = fopen(name, "w");
  if (file != NULL) fclose(file);
}

static int wait_for(const char* name) {
  for (int i = 0; i < 3000; i++) {
    if (access(name, F_OK) == 0) return 1;
    usleep(10000);
  }
  return 0;
}

int main(int argc, char** argv) {
  int rank, wrong = 0, flag = 0, number = 0;
  char value[32] = "";
  MPI_File file;
  MPI_Info info, now;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) return 2;
  MPI_Info_create(&info);
  if (strcmp(argv[2], "strict") == 0) MPI_Info_set(info, "scr_order", "strict");
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
  MPI_File_get_info(file, &now);
  MPI_Info_get(now, "scr_order", 31, value, &flag);
  if (!flag || strcmp(value, argv[2]) != 0) wrong = 1;
  if (rank == 0) {
    number = 42;
    MPI_File_write_at(file, 100, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    signal_by("written");
    if (!wait_for("read")) wrong = 1;
  } else if (rank == 1) {
    if (!wait_for("written")) wrong = 1;
    MPI_File_read_at(file, 100, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    signal_by("read");
    printf(number == 42 ? "SEEN\n" : "NOT SEEN\n");
  }
  MPI_Info_free(&now);
  MPI_Info_free(&info);
  MPI_File_close(&file);
  MPI_Finalize();
  if (rank == 0) printf(wrong ? "WRONG\n" : "DONE\n");
  return wrong;
}
