/* Times of HDF5 operations in this process, with the driver that the environment names: one line
 * "NAME SECONDS" for each, in CPU time, which is all there is on a tmpfs, and which other programs
 * of the machine disturb least. vfd_bench.sh compares processes with and without h5scr.
 *
 *   vfd_bench FOLDER MEGABYTES */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kSmallSets = 2000, kOpens = 3000 };

static char path[4096];
static double* values;
static hsize_t count;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(hid_t result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "vfd_bench: %s failed\n", what);
  exit(1);
}

static hid_t new_file(void) {
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  check(file, "H5Fcreate");
  return file;
}

static hid_t old_file(void) {
  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  check(file, "H5Fopen");
  return file;
}

static void write_set(hid_t file, const char* name, hsize_t size, hsize_t chunk) {
  const hid_t space = H5Screate_simple(1, &size, NULL);
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  if (chunk != 0) H5Pset_chunk(list, 1, &chunk);
  const hid_t set =
      H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  check(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
  H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
}

static void read_set(hid_t file, const char* name) {
  const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
  check(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dread");
  H5Dclose(set);
}

/* Closing is not in the time of a write: there h5scr protects the file, which is measured
 * elsewhere.
 */
static void large(const char* name, hsize_t chunk) {
  hid_t file = new_file();
  double start = now();
  write_set(file, "set", count, chunk);
  H5Fflush(file, H5F_SCOPE_LOCAL);
  printf("%s-write %.9f\n", name, now() - start);
  H5Fclose(file);
  file = old_file();
  start = now();
  read_set(file, "set");
  printf("%s-read %.9f\n", name, now() - start);
  H5Fclose(file);
}

static void small(void) {
  char name[32];
  hid_t file = new_file();
  double start = now();
  for (int i = 0; i < kSmallSets; i++) {
    snprintf(name, sizeof name, "set%d", i);
    write_set(file, name, 128, 0);
  }
  H5Fflush(file, H5F_SCOPE_LOCAL);
  printf("small-write %.9f\n", now() - start);
  H5Fclose(file);
  file = old_file();
  start = now();
  for (int i = 0; i < kSmallSets; i++) {
    snprintf(name, sizeof name, "set%d", i);
    read_set(file, name);
  }
  printf("small-read %.9f\n", now() - start);
  H5Fclose(file);
}

static void opens(void) {
  const double start = now();
  for (int i = 0; i < kOpens; i++) H5Fclose(old_file());
  printf("open-close %.9f\n", (now() - start) / kOpens);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  snprintf(path, sizeof path, "%s/bench.h5", argv[1]);
  count = (hsize_t)atoi(argv[2]) * 1024 * 1024 / sizeof(double);
  values = malloc(count * sizeof(double));
  if (values == NULL) return 1;
  for (hsize_t i = 0; i < count; i++) values[i] = (double)i;
  large("warm-up", 0);
  large("warm-up", 0); /* the first pays for the memory of the file, and for the start of h5scr */
  large("contiguous", 0);
  large("chunked", 64 * 1024);
  small();
  opens();
  H5close();
  unlink(path);
  free(values);
  return 0;
}
