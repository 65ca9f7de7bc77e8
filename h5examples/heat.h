/* The heat equation of the examples: a plate of WIDTH x HEIGHT, some rows for each rank. What
 * differs between the examples, and is in their own files, is how they checkpoint. */
#ifndef HEAT_H
#define HEAT_H

#include <glob.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WIDTH = 256, HEIGHT = 256 };

static int rank, ranks, rows, first_row;
/* rows + 2 lines of WIDTH: the first and the last belong to the neighbours */
static double *field, *next;

static double* line(double* f, int row) { return f + (size_t)(row + 1) * WIDTH; }

static void start_field(void) {
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < WIDTH; ++x) {
      int y = first_row + row;
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

/* Takes this rank's rows, nearly as many as the others; returns 0 if there are too many ranks. */
static int make_field(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  rows = HEIGHT / ranks + (rank < HEIGHT % ranks);
  first_row = rank * (HEIGHT / ranks) + (rank < HEIGHT % ranks ? rank : HEIGHT % ranks);
  field = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));
  next = calloc((size_t)(rows + 2) * WIDTH, sizeof(double));
  start_field();
  return ranks <= HEIGHT;
}

static void free_field(void) {
  free(field);
  free(next);
}

static void write_picture(const char* name) {
  unsigned char* mine = malloc((size_t)rows * WIDTH);
  unsigned char* all = rank == 0 ? malloc((size_t)HEIGHT * WIDTH) : NULL;
  for (int i = 0; i < rows * WIDTH; ++i) mine[i] = (unsigned char)line(field, 0)[i];
  int *counts = malloc((size_t)ranks * sizeof(int)), *starts = malloc((size_t)ranks * sizeof(int));
  int count = rows * WIDTH, start = first_row * WIDTH;
  MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gather(&start, 1, MPI_INT, starts, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gatherv(mine, count, MPI_UNSIGNED_CHAR, all, counts, starts, MPI_UNSIGNED_CHAR, 0,
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
  free(counts);
  free(starts);
  free(mine);
  free(all);
}

/* For checkpoints that are one file of all ranks, whose names match `pattern` and have the step
 * where `format` has %d. The newest step below `limit` of which there is a file, 0 if there is
 * none. */
static inline int newest_shared_file(const char* pattern, const char* format, int limit) {
  glob_t found;
  int newest = 0, step = 0;
  if (rank == 0 && glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      if (sscanf(found.gl_pathv[i], format, &step) == 1 && step < limit && step > newest)
        newest = step;
    }
    globfree(&found);
  }
  MPI_Bcast(&newest, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return newest;
}

/* Reads the newest of them that all ranks can read; returns its step, 0 if there is none. */
static inline int restart_from_newest(const char* pattern, const char* format,
                                      int (*read_field)(int step)) {
  int step = newest_shared_file(pattern, format, 1 << 30);
  while (step > 0 && !read_field(step)) step = newest_shared_file(pattern, format, step);
  if (step > 0 && rank == 0) printf("restarted from step %d\n", step);
  return step;
}

/* The life of a program that checkpoints by itself: goes on from the step that `restart` has read
 * (0: from the start), and calls `checkpoint` every few steps. */
static inline int run_heat(int argc, char** argv, const char* name, int (*restart)(void),
                           void (*checkpoint)(int step)) {
  MPI_Init(&argc, &argv);
  if (!make_field() || argc < 4) {
    if (rank == 0)
      fprintf(stderr, "usage: %s STEPS EVERY OUTPUT.pgm [MS]; at most %d ranks\n", name, HEIGHT);
    MPI_Finalize();
    return 2;
  }
  int steps = atoi(argv[1]), every = atoi(argv[2]), pause = argc > 4 ? atoi(argv[4]) : 0;
  for (int step = restart(); step < steps;) {
    compute_step();
    ++step;
    if (pause > 0) usleep((useconds_t)pause * 1000);
    if (step % every == 0) checkpoint(step);
  }
  write_picture(argv[3]);
  if (rank == 0) printf("done: %d steps\n", steps);
  MPI_Finalize();
  free_field();
  return 0;
}

#endif
