/* heat_hdf5: a 2-D heat equation with one HDF5 file per process, which knows nothing of h5scr.
 *
 *   heat_hdf5 STEPS CHECKPOINT_EVERY OUTPUT.pgm [MILLISECONDS_PER_STEP]
 *
 * Each rank owns some rows of the plate and writes them to ckpt_<step>.<rank>.h5 at each checkpoint.
 * Started again, it looks for its files and goes on from the newest step of which every rank finds
 * one. At the end rank 0 writes the field as a picture.
 *
 *   without h5scr:  mpirun -n 4 heat_hdf5 200 20 heat.pgm
 *   with h5scr:     . build/env.sh
 *                   HDF5_DRIVER=scr LD_PRELOAD=libscr_mpiio.so mpirun -n 4 heat_hdf5 200 20 heat.pgm
 */
#include <glob.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 256, HEIGHT = 256 };

static int rank, ranks, rows;
/* rows + 2 lines of WIDTH: the first and the last belong to the neighbours */
static double *field, *next;

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
  char name[64];
  hsize_t size[2] = {(hsize_t)rows, WIDTH};
  sprintf(name, "ckpt_%04d.%d.h5", step, rank);
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(2, size, NULL);
  hid_t data = H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT,
                          H5P_DEFAULT);
  herr_t written =
      H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, line(field, 0));
  H5Dclose(data);
  H5Sclose(space);
  if (H5Fclose(file) < 0 || written < 0) {
    fprintf(stderr, "rank %d: cannot write %s\n", rank, name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("step %d: checkpoint written\n", step);
    fflush(stdout);
  }
}

/* The newest step below `limit` of which this rank finds a file, 0 if there is none. */
static int newest_file(int limit) {
  char pattern[64];
  glob_t found;
  int newest = 0, step = 0;
  sprintf(pattern, "ckpt_*.%d.h5", rank);
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    if (sscanf(found.gl_pathv[i], "ckpt_%d.", &step) == 1 && step < limit && step > newest)
      newest = step;
  }
  globfree(&found);
  return newest;
}

static int read_field(int step) {
  char name[64];
  sprintf(name, "ckpt_%04d.%d.h5", step, rank);
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return 0;
  hid_t data = H5Dopen2(file, "field", H5P_DEFAULT);
  herr_t done = H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, line(field, 0));
  H5Dclose(data);
  H5Fclose(file);
  return done >= 0;
}

/* Returns the step of the checkpoint that was read, 0 if there is none. */
static int restart(void) {
  int step = newest_file(1 << 30), common = 0;
  for (;;) { /* until all ranks agree on one */
    MPI_Allreduce(&step, &common, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (common == 0) return 0;
    int mine = newest_file(common + 1) == common && read_field(common), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) break;
    step = newest_file(common);
  }
  if (rank == 0) printf("restarted from step %d\n", common);
  return common;
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
      fprintf(stderr, "usage: heat_hdf5 STEPS EVERY OUTPUT.pgm [MS]; ranks must divide %d\n",
              HEIGHT);
    MPI_Finalize();
    return 2;
  }
  int steps = atoi(argv[1]), every = atoi(argv[2]), pause = argc > 4 ? atoi(argv[4]) : 0;
  rows = HEIGHT / ranks;
  field = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));
  next = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));
  start_field();
  for (int step = restart(); step < steps;) {
    compute_step();
    ++step;
    if (pause > 0) usleep((useconds_t)pause * 1000);
    if (step % every == 0) checkpoint(step);
  }
  write_picture(argv[3]);
  if (rank == 0) printf("done: %d steps\n", steps);
  MPI_Finalize();
  free(field);
  free(next);
  return 0;
}
