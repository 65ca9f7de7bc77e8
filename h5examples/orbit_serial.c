/* orbit_serial: planets around a sun, a serial program with HDF5, which knows nothing of h5scr.
 *
 *   orbit_serial STEPS CHECKPOINT_EVERY [DIE_AFTER_STEP]
 *
 * Writes places and speeds to ckpt_<step>.h5 at each checkpoint. Started again, it goes on from the
 * newest one that it can read. With DIE_AFTER_STEP it is killed (kill -9) after that step.
 *
 *   without h5scr:  orbit_serial 2000 200
 *   with h5scr:     . build/env.sh
 *                   HDF5_DRIVER=scr orbit_serial 2000 200
 */
#include <glob.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLANETS = 100, NUMBERS = 4 }; /* of each: x, y and their speeds */

static double planet[PLANETS][NUMBERS];

static void begin(void) {
  for (int i = 0; i < PLANETS; ++i) {
    const double radius = 1 + 0.1 * i;
    planet[i][0] = radius;
    planet[i][3] = 1 / sqrt(radius); /* a circle */
  }
}

/* One step of leapfrog: half of the speed, the place, the other half. */
static void move(double* p) {
  const double time = 0.01;
  for (int half = 0; half < 2; ++half) {
    const double cube = pow(p[0] * p[0] + p[1] * p[1], 1.5);
    p[2] -= time / 2 * p[0] / cube;
    p[3] -= time / 2 * p[1] / cube;
    if (half == 1) break;
    p[0] += time * p[2];
    p[1] += time * p[3];
  }
}

static void checkpoint(int step) {
  char name[64];
  const hsize_t size[2] = {PLANETS, NUMBERS};
  snprintf(name, sizeof name, "ckpt_%06d.h5", step);
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(2, size, NULL);
  hid_t data =
      H5Dcreate2(file, "planets", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const herr_t written = H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, planet);
  H5Dclose(data);
  H5Sclose(space);
  if (H5Fclose(file) < 0 || written < 0) {
    fprintf(stderr, "orbit_serial: cannot write %s\n", name);
    exit(1);
  }
}

static int read_planets(const char* name) {
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return 0;
  hid_t data = H5Dopen2(file, "planets", H5P_DEFAULT);
  const herr_t got = H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, planet);
  H5Dclose(data);
  H5Fclose(file);
  return got >= 0;
}

/* The step that the newest readable checkpoint is of, 0 if there is none. */
static int restart(void) {
  glob_t found;
  int step = 0;
  if (glob("ckpt_*.h5", 0, NULL, &found) != 0) return 0;
  for (size_t i = found.gl_pathc; i > 0 && step == 0; --i) { /* sorted by name, and so by step */
    const char* name = found.gl_pathv[i - 1];
    int number = 0;
    if (sscanf(name, "ckpt_%d.h5", &number) != 1 || !read_planets(name)) continue;
    step = number;
    printf("restarted from step %d\n", step);
  }
  globfree(&found);
  return step;
}

int main(int argc, char** argv) {
  if (argc < 3 || atoi(argv[2]) < 1) {
    fprintf(stderr, "usage: orbit_serial STEPS CHECKPOINT_EVERY [DIE_AFTER_STEP]\n");
    return 2;
  }
  const int steps = atoi(argv[1]), every = atoi(argv[2]), death = argc > 3 ? atoi(argv[3]) : -1;
  begin();
  for (int step = restart() + 1; step <= steps; ++step) {
    for (int i = 0; i < PLANETS; ++i) move(planet[i]);
    if (step % every == 0) checkpoint(step);
    fflush(stdout);
    if (step == death) raise(SIGKILL);
  }
  double sum = 0;
  for (int i = 0; i < PLANETS; ++i) sum += planet[i][0] * (i + 1) + planet[i][1];
  printf("done: %d steps, sum %.12e\n", steps, sum);
  return 0;
}
