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

#include "heat.h"

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

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (!make_field() || argc < 4) {
    if (rank == 0)
      fprintf(stderr, "usage: heat_native STEPS EVERY OUTPUT.pgm [MS]; at most %d ranks\n", HEIGHT);
    MPI_Finalize();
    return 2;
  }
  int steps = atoi(argv[1]), every = atoi(argv[2]), pause = argc > 4 ? atoi(argv[4]) : 0;

  int protected_run = SCR_Init() == SCR_SUCCESS;
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
  free_field();
  return 0;
}
