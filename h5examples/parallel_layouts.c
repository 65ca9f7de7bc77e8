/* parallel_layouts: the ways in which parallel HDF5 programs lay out a shared file, one file for
 * each. It knows nothing of h5scr.
 *
 *   parallel_layouts write [LAYOUT...]    writes layout_<LAYOUT>.h5, all of them if none is named
 *   parallel_layouts read [LAYOUT...]     reads them on any number of ranks, and compares
 *
 *   contiguous   rows that alternate between the ranks, written together in one call
 *   independent  the same, each row with a call of its own, which no other rank takes part in
 *   chunked      a grid of chunks, most of which belong to several ranks
 *   compressed   the same with the filters shuffle and deflate
 *   groups       many groups with a small dataset each, and a metadata cache of 64 KiB only, so
 * that ranks drop metadata and read again what other ranks wrote
 *
 *   without h5scr:  mpirun -n 4 parallel_layouts write
 *   with h5scr:     . build/env.sh
 *                   mpirun -x LD_PRELOAD=libscr_mpiio.so -n 4 parallel_layouts write
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 320, COLUMNS = 500, CHUNK_ROWS = 48, CHUNK_COLUMNS = 70 };
enum { GROUPS = 400, CACHE = 65536 };
enum { EVERY = -1 };

static int rank, ranks;
static int numbers[ROWS * COLUMNS];

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int number(int row, int column) { return row * 7919 + column / 3; }

static hid_t access_of(int small_cache) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  if (small_cache) {
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    H5Pget_mdc_config(access, &cache);
    cache.set_initial_size = 1;
    cache.initial_size = cache.min_size = cache.max_size = CACHE;
    cache.incr_mode = H5C_incr__off;
    cache.flash_incr_mode = H5C_flash_incr__off;
    cache.decr_mode = H5C_decr__off;
    cache.dirty_bytes_threshold = CACHE / 2;
    must(H5Pset_mdc_config(access, &cache) >= 0, "set the size of the metadata cache");
  }
  return access;
}

/* Objects without times, so that two runs write the same bytes. */
static hid_t timeless(hid_t class) {
  hid_t create = H5Pcreate(class);
  H5Pset_obj_track_times(create, 0);
  return create;
}

/* Row `row`, or with EVERY those of rank `owner`; writes from `numbers`, or reads to it. */
static void transfer(hid_t data, int owner, int row, int collective, int writes) {
  hsize_t start[2] = {(hsize_t)(row == EVERY ? owner : row), 0}, stride[2] = {(hsize_t)ranks, 1};
  hsize_t count[2] = {row == EVERY ? (hsize_t)((ROWS - owner + ranks - 1) / ranks) : 1, COLUMNS};
  hid_t space = H5Dget_space(data), how = H5Pcreate(H5P_DATASET_XFER);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL);
  H5Pset_dxpl_mpio(how, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
  must((writes ? H5Dwrite(data, H5T_NATIVE_INT, space, space, how, numbers)
               : H5Dread(data, H5T_NATIVE_INT, space, space, how, numbers)) >= 0,
       writes ? "write" : "read");
  H5Pclose(how);
  H5Sclose(space);
}

static void transfer_rows(hid_t data, const char* layout, int owner, int writes) {
  if (strcmp(layout, "independent") == 0) {
    for (int row = owner; row < ROWS; row += ranks) transfer(data, owner, row, 0, writes);
  } else {
    transfer(data, owner, EVERY, 1, writes);
  }
}

static void fill_numbers(void) {
  for (int i = 0; i < ROWS * COLUMNS; ++i) numbers[i] = number(i / COLUMNS, i % COLUMNS);
}

static void write_table(hid_t file, const char* layout) {
  const hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {CHUNK_ROWS, CHUNK_COLUMNS};
  hid_t create = timeless(H5P_DATASET_CREATE), space = H5Screate_simple(2, size, NULL);
  const int compressed = strcmp(layout, "compressed") == 0;
  if (compressed || strcmp(layout, "chunked") == 0) H5Pset_chunk(create, 2, chunk);
  if (compressed) must(H5Pset_shuffle(create) >= 0 && H5Pset_deflate(create, 6) >= 0, "compress");
  hid_t data = H5Dcreate2(file, "table", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
  must(data >= 0, "create a dataset");
  fill_numbers();
  transfer_rows(data, layout, rank, 1);
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(create);
}

/* Other rows than those that this rank wrote, if there are others. */
static void read_table(hid_t file, const char* layout) {
  hid_t data = H5Dopen2(file, "table", H5P_DEFAULT);
  must(data >= 0, "open a dataset");
  memset(numbers, -1, sizeof numbers);
  const int owner = (rank + 1) % ranks;
  transfer_rows(data, layout, owner, 0);
  for (int row = owner; row < ROWS; row += ranks)
    for (int column = 0; column < COLUMNS; ++column)
      must(numbers[row * COLUMNS + column] == number(row, column), "find what was written");
  H5Dclose(data);
}

/* A group for each number, whose dataset one rank fills: what HDF5 knows of it, all change. */
static void write_groups(hid_t file) {
  const hsize_t size = 16;
  hid_t plain = timeless(H5P_GROUP_CREATE), create = timeless(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(1, &size, NULL), scalar = H5Screate(H5S_SCALAR);
  for (int i = 0; i < GROUPS; ++i) {
    char name[32];
    int values[16];
    sprintf(name, "group_%04d", i);
    for (int k = 0; k < 16; ++k) values[k] = number(i, k);
    hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, plain, H5P_DEFAULT);
    hid_t data =
        H5Dcreate2(group, "values", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    hid_t note = H5Acreate2(group, "index", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
    must(group >= 0 && data >= 0 && note >= 0, "create a group");
    must(H5Awrite(note, H5T_NATIVE_INT, &i) >= 0, "write an attribute");
    if (i % ranks == rank)
      must(H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "write");
    H5Aclose(note);
    H5Dclose(data);
    H5Gclose(group);
  }
  H5Sclose(scalar);
  H5Sclose(space);
  H5Pclose(create);
  H5Pclose(plain);
}

/* Each rank all of them, beginning elsewhere. */
static void read_groups(hid_t file) {
  for (int i = 0; i < GROUPS; ++i) {
    char name[32], note_of[32];
    const int which = (i + rank * 37) % GROUPS;
    int values[16], index = -1;
    sprintf(name, "group_%04d/values", which);
    sprintf(note_of, "group_%04d", which);
    hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t note = H5Aopen_by_name(file, note_of, "index", H5P_DEFAULT, H5P_DEFAULT);
    must(data >= 0 && note >= 0, "open a group");
    must(H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "read");
    must(H5Aread(note, H5T_NATIVE_INT, &index) >= 0, "read an attribute");
    must(index == which, "find what was written");
    for (int k = 0; k < 16; ++k) must(values[k] == number(which, k), "find what was written");
    H5Aclose(note);
    H5Dclose(data);
  }
}

static void run(const char* layout, int writes) {
  char name[64];
  const int groups = strcmp(layout, "groups") == 0;
  snprintf(name, sizeof name, "layout_%s.h5", layout);
  hid_t access = access_of(groups);
  hid_t file = writes ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                      : H5Fopen(name, H5F_ACC_RDONLY, access);
  must(file >= 0, writes ? "create a file" : "open a file");
  if (groups) {
    if (writes) write_groups(file);
    MPI_Barrier(MPI_COMM_WORLD); /* after it all may read what one has written */
    read_groups(file);
  } else if (writes) {
    write_table(file, layout);
  } else {
    read_table(file, layout);
  }
  must(H5Fclose(file) >= 0, "close a file");
  H5Pclose(access);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %s\n", layout, writes ? "written" : "right");
}

int main(int argc, char** argv) {
  static char* all[] = {"contiguous", "independent", "chunked", "compressed", "groups"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int writes = argc > 1 && strcmp(argv[1], "write") == 0;
  if (argc < 2 || (!writes && strcmp(argv[1], "read") != 0) || ranks > ROWS) {
    if (rank == 0)
      fprintf(stderr, "usage: parallel_layouts write|read [LAYOUT...]; at most %d ranks\n", ROWS);
    MPI_Finalize();
    return 2;
  }
  char** layouts = argc > 2 ? argv + 2 : all;
  const int count = argc > 2 ? argc - 2 : (int)(sizeof all / sizeof *all);
  for (int i = 0; i < count; ++i) run(layouts[i], writes);
  MPI_Finalize();
  return 0;
}
