/* Two threads of each rank write to and close two files, each rank in another order: no lock of the
 * library may keep one thread's collective call from coming to the other ranks.
 *
 *   mpirun -n N threads FILE */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 20 };

static int rank, size, wrong;
static pthread_barrier_t both;

struct work {
  MPI_Comm comm;
  char name[4096];
  int number; /* of the file; its bytes are those of no other */
  int late;
};

static void* run(void* argument) {
  struct work* work = argument;
  for (int round = 0; round < kRounds; round++) {
    MPI_File file;
    MPI_File_open(work->comm, work->name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    const int base = round + 1000 * work->number;
    int number = rank + base, other = -1;
    MPI_File_write_at(file, 4 * rank, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(work->comm);
    MPI_File_read_at(file, 4 * ((rank + 1) % size), &other, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (other != (rank + 1) % size + base) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    MPI_Barrier(work->comm);
    pthread_barrier_wait(&both);
    if (work->late) {
      /* Until the other thread has most likely begun to close its file. */
      for (volatile int i = 0; i < 1000000; i++) {
      }
    }
    MPI_File_close(&file);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (level != MPI_THREAD_MULTIPLE) {
    printf("no threads\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  pthread_barrier_init(&both, NULL, 2);
  struct work works[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
    snprintf(works[i].name, sizeof works[i].name, "%s.%d", argv[1], i);
    works[i].number = i;
    works[i].late = (rank + i) % 2;
  }
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, &works[i]);
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    MPI_Comm_free(&works[i].comm);
  }
  int all = 0;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf(all == 0 ? "DONE\n" : "WRONG: %d reads\n", all);
  MPI_Finalize();
  return all != 0;
}
