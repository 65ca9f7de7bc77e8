/* heat_native: a 2-D heat equation that checkpoints through the native API (SCR_*).
 *
 *   heat_native STEPS CHECKPOINT_EVERY OUTPUT.pgm [MILLISECONDS_PER_STEP]
 *
 * Each rank owns some rows of the plate and writes them to its own file at each checkpoint. Started
 * again, it goes on from the newest checkpoint. At the end rank 0 writes the field as a picture.
 *
 *   without h5scr:  SCR_ENABLE=0 mpirun -n 4 heat_native 200 20 heat.pgm   (no checkpoints then)
 *   with h5scr:     mpirun -n 4 heat_native 200 20 heat.pgm
 */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 256, HEIGHT = 256 };

static int rank, ranks, rows;
static double *field,
    *next; /* rows + 2 lines of WIDTH: the first and the last belong to the neighbours */

static double* line(double* f, int row) { return f + (size_t)(row + 1) * WIDTH; }

static void start_field(void) {
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < WIDTH; ++x) {
      int y = rank * rows + row;
      int hot = (x - 80) * (x - 80) + (y - 90) * (y - 90) < 900 ||
                (x > 150 && x < 220 && y > 140 && y < 160);
      line(field, row)[x] = hot ? 255.0 : 0.0;
    }
  }
}

static void exchange_rows(void) {
  int above = rank > 0 ? rank - 1 : MPI_PROC_NULL,
      below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(line(field, 0), WIDTH, MPI_DOUBLE, above, 0, line(field, rows), WIDTH, MPI_DOUBLE,
               below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(line(field, rows - 1), WIDTH, MPI_DOUBLE, below, 1, line(field, -1), WIDTH,
               MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void compute_step(void) {
  exchange_rows();
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < WIDTH; ++x) {
      double left = line(field, row)[x > 0 ? x - 1 : x],
             right = line(field, row)[x < WIDTH - 1 ? x + 1 : x];
      double up = rank == 0 && row == 0 ? line(field, row)[x] : line(field, row - 1)[x];
      double down =
          rank == ranks - 1 && row == rows - 1 ? line(field, row)[x] : line(field, row + 1)[x];
      line(next, row)[x] =
          line(field, row)[x] + 0.2 * (left + right + up + down - 4 * line(field, row)[x]);
    }
  }
  double* old = field;
  field = next;
  next = old;
}

static void checkpoint(int step) {
  char name[64], file[128], path[SCR_MAX_FILENAME];
  sprintf(name, "heat.%d", step);
  if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) return;
  sprintf(file, "heat.%d/rank_%d.bin", step, rank);
  int valid = SCR_Route_file(file, path) == SCR_SUCCESS;
  FILE* out = valid ? fopen(path, "wb") : NULL;
  valid = out != NULL && fwrite(&step, sizeof step, 1, out) == 1 &&
          fwrite(line(field, 0), sizeof(double), (size_t)rows * WIDTH, out) == (size_t)rows * WIDTH;
  if (out != NULL && fclose(out) != 0) valid = 0;
  if (SCR_Complete_output(valid) == SCR_SUCCESS && rank == 0) {
    printf("step %d: checkpoint '%s' is safe\n", step, name);
    fflush(stdout);
  }
}

/* Returns the step of the checkpoint, 0 if there is none. */
static int restart(void) {
  int have = 0, step = 0, wanted = 0;
  char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
  if (SCR_Have_restart(&have, name) != SCR_SUCCESS || !have) return 0;
  SCR_Start_restart(name);
  sscanf(name, "heat.%d", &wanted);
  sprintf(file, "heat.%d/rank_%d.bin", wanted, rank);
  FILE* in = SCR_Route_file(file, path) == SCR_SUCCESS ? fopen(path, "rb") : NULL;
  int valid =
      in != NULL && fread(&step, sizeof step, 1, in) == 1 &&
      fread(line(field, 0), sizeof(double), (size_t)rows * WIDTH, in) == (size_t)rows * WIDTH;
  if (in != NULL) fclose(in);
  if (SCR_Complete_restart(valid) != SCR_SUCCESS) return 0;
  if (rank == 0) printf("restarted from checkpoint '%s'\n", name);
  return step;
}

static void write_picture(const char* name) {
  unsigned char* mine = malloc((size_t)rows * WIDTH);
  unsigned char* all = rank == 0 ? malloc((size_t)HEIGHT * WIDTH) : NULL;
  for (int i = 0; i < rows * WIDTH; ++i) mine[i] = (unsigned char)line(field, 0)[i];
  MPI_Gather(mine, rows * WIDTH, MPI_UNSIGNED_CHAR, all, rows * WIDTH, MPI_UNSIGNED_CHAR, 0,
             MPI_COMM_WORLD);
  if (rank == 0) {
    FILE* out = fopen(name, "wb");
    if (out == NULL) {
      perror(name);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(out, "P5\n%d %d\n255\n", WIDTH, HEIGHT);
    fwrite(all, WIDTH, HEIGHT, out);
    fclose(out);
  }
  free(mine);
  free(all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4 || HEIGHT % ranks != 0) {
    if (rank == 0)
      fprintf(stderr, "usage: heat_native STEPS EVERY OUTPUT.pgm [MS]; ranks must divide %d\n",
              HEIGHT);
    MPI_Finalize();
    return 2;
  }
  int steps = atoi(argv[1]), every = atoi(argv[2]), pause = argc > 4 ? atoi(argv[4]) : 0;
  rows = HEIGHT / ranks;
  field = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));
  next = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));

  int protected_run = SCR_Init() == SCR_SUCCESS;
  start_field();
  int step = protected_run ? restart() : 0;
  while (step < steps) {
    compute_step();
    ++step;
    if (pause > 0) usleep((useconds_t)pause * 1000);
    if (protected_run && step % every == 0) checkpoint(step);
  }
  write_picture(argv[3]);
  if (rank == 0) printf("done: %d steps\n", steps);
  if (protected_run) SCR_Finalize();
  MPI_Finalize();
  free(field);
  free(next);
  return 0;
}
