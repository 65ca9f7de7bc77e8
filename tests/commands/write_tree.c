/* Writes HDF5 files with one of everything, for the tests of scr_index.
 *   write_tree [keep] TIME FILE...
 * With "keep" a first file is open until all others are written, so that all are one dataset.
 * TIME is the attribute "time" of the root group and shifts the values. A file whose name ends in
 * ".txt" is plain text. */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 100
#define COLUMNS 40

typedef struct {
  double position[3];
  int32_t id;
} Particle;

static void attribute(hid_t id, const char* name, hid_t type, int count, const void* value) {
  const hsize_t size = (hsize_t)count;
  const hid_t space = count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, NULL);
  const hid_t made = H5Acreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(made, type, value);
  H5Aclose(made);
  H5Sclose(space);
}

static void text_attribute(hid_t id, const char* name, const char* value) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(value));
  attribute(id, name, type, 1, value);
  H5Tclose(type);
}

static hid_t dataset(hid_t group, const char* name, hid_t file_type, hid_t memory_type, int rank,
                     const hsize_t* size, hid_t creation, const void* values) {
  const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, size, NULL);
  const hid_t set = H5Dcreate2(group, name, file_type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (values != NULL) H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Sclose(space);
  return set;
}

static void numbers(hid_t group, double time) {
  static double field[ROWS][COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) field[i / COLUMNS][i % COLUMNS] = time + i;
  const hsize_t size[] = {ROWS, COLUMNS};
  const hsize_t chunk[] = {30, 40};
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_shuffle(creation);
  H5Pset_deflate(creation, 6);
  H5Pset_fletcher32(creation);
  const hid_t set =
      dataset(group, "field", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, size, creation, field);
  text_attribute(set, "units", "K");
  H5Dclose(set);
  H5Pclose(creation);

  int32_t list[10];
  for (int i = 0; i < 10; i++) list[i] = i;
  const hsize_t ten = 10;
  H5Dclose(
      dataset(group, "big_endian", H5T_STD_I32BE, H5T_NATIVE_INT32, 1, &ten, H5P_DEFAULT, list));
  H5Dclose(dataset(group, "time", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 0, NULL, H5P_DEFAULT, &time));

  const hid_t compact = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(compact, H5D_COMPACT);
  H5Dclose(dataset(group, "compact", H5T_STD_U8LE, H5T_NATIVE_INT32, 1, &ten, compact, list));
  H5Pclose(compact);

  /* Claims to be huge and has no chunk. */
  const hsize_t huge[] = {1000000000, 1000000000};
  const hid_t empty = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(empty, 2, chunk);
  H5Dclose(dataset(group, "huge", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, huge, empty, NULL));
  H5Pclose(empty);
}

static void structures(hid_t group) {
  const hsize_t three = 3;
  const hid_t position = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &three);
  const hid_t particle = H5Tcreate(H5T_COMPOUND, sizeof(Particle));
  H5Tinsert(particle, "position", HOFFSET(Particle, position), position);
  H5Tinsert(particle, "id", HOFFSET(Particle, id), H5T_NATIVE_INT32);
  Particle particles[2];
  memset(particles, 0, sizeof particles);
  particles[1].id = 7;
  const hsize_t two = 2;
  H5Dclose(dataset(group, "particles", particle, particle, 1, &two, H5P_DEFAULT, particles));
  H5Tcommit2(group, "particle", particle, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(particle);
  H5Tclose(position);

  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  const char* words[] = {"one", "two words"};
  H5Dclose(dataset(group, "words", text, text, 1, &two, H5P_DEFAULT, words));
  H5Tclose(text);

  const hid_t sequence = H5Tvlen_create(H5T_NATIVE_INT);
  int some[] = {1, 2, 3};
  const hvl_t lists[] = {{1, some}, {3, some}};
  H5Dclose(dataset(group, "lists", sequence, sequence, 1, &two, H5P_DEFAULT, lists));
  H5Tclose(sequence);
}

static hid_t write_hdf5(const char* name, double time) {
  const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0) return -1;
  attribute(file, "time", H5T_NATIVE_DOUBLE, 1, &time);
  const int step = (int)(time * 100);
  attribute(file, "step", H5T_NATIVE_INT, 1, &step);
  text_attribute(file, "code", "write_tree");
  const int grid[] = {ROWS, COLUMNS};
  attribute(file, "grid", H5T_NATIVE_INT, 2, grid);
  const hid_t group = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  attribute(group, "level", H5T_NATIVE_INT, 1, &step);
  numbers(group, time);
  structures(group);
  H5Lcreate_soft("/data/field", file, "shortcut", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("/etc/hostname", "/x", file, "outside", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "/", group, "circle", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  return file;
}

static int write_text(const char* name) {
  FILE* file = fopen(name, "w");
  if (file == NULL) return -1;
  fputs("not HDF5\n", file);
  return fclose(file);
}

int main(int argc, char** argv) {
  const int keep = argc > 1 && strcmp(argv[1], "keep") == 0;
  hid_t kept = -1;
  int failed = argc < 3 + keep;
  for (int i = 2 + keep; i < argc; i++) {
    const char* end = strrchr(argv[i], '.');
    if (end != NULL && strcmp(end, ".txt") == 0) {
      if (write_text(argv[i]) < 0) failed = 1;
      continue;
    }
    const hid_t file = write_hdf5(argv[i], atof(argv[1 + keep]));
    if (keep && kept < 0) {
      kept = file;
    } else if (file < 0 || H5Fclose(file) < 0) {
      failed = 1;
    }
  }
  if (keep && (kept < 0 || H5Fclose(kept) < 0)) failed = 1;
  return failed;
}
