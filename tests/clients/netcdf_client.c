// A simulation that keeps its state in files of netCDF, one shared by all ranks for each
// checkpoint: with PnetCDF (the classic format, straight on MPI-IO) or with netCDF-4 (on parallel
// HDF5). It knows nothing of h5scr.
//
//   netcdf_client pnetcdf|netcdf4 STEPS EVERY [MILLISECONDS]
//
// The state is a field whose rows are spread over the ranks; a step changes every value. Every
// EVERY steps it is written to ckpt_<step>.nc. The program begins with the newest such file that it
// can open.
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRows = 96, kColumns = 200 };

static int rank, ranks;

static void require(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "rank %d: %s: error %d (%s)\n", rank, what, error, nc_strerror(error));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void name_of(char* name, int step) { sprintf(name, "ckpt_%04d.nc", step); }

static void pnetcdf_write(const char* name, int step, const double* field, MPI_Offset first,
                          MPI_Offset rows) {
  int file, dimensions[2], variable;
  require(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file),
          name);
  require(ncmpi_def_dim(file, "row", kRows, &dimensions[0]), "row");
  require(ncmpi_def_dim(file, "column", kColumns, &dimensions[1]), "column");
  require(ncmpi_def_var(file, "field", NC_DOUBLE, 2, dimensions, &variable), "field");
  require(ncmpi_put_att_int(file, NC_GLOBAL, "step", NC_INT, 1, &step), "step");
  require(ncmpi_enddef(file), "enddef");
  MPI_Offset start[2] = {first, 0}, count[2] = {rows, kColumns};
  require(ncmpi_put_vara_double_all(file, variable, start, count, field), "put");
  require(ncmpi_close(file), "close");
}

static int pnetcdf_read(const char* name, int* step, double* field, MPI_Offset first,
                        MPI_Offset rows) {
  int file, variable;
  if (ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &file) != 0) return 0;
  require(ncmpi_get_att_int(file, NC_GLOBAL, "step", step), "step");
  require(ncmpi_inq_varid(file, "field", &variable), "field");
  MPI_Offset start[2] = {first, 0}, count[2] = {rows, kColumns};
  require(ncmpi_get_vara_double_all(file, variable, start, count, field), "get");
  require(ncmpi_close(file), "close");
  return 1;
}

static void netcdf4_write(const char* name, int step, const double* field, MPI_Offset first,
                          MPI_Offset rows) {
  int file, dimensions[2], variable;
  require(nc_create_par(name, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &file), name);
  require(nc_def_dim(file, "row", kRows, &dimensions[0]), "row");
  require(nc_def_dim(file, "column", kColumns, &dimensions[1]), "column");
  require(nc_def_var(file, "field", NC_DOUBLE, 2, dimensions, &variable), "field");
  require(nc_put_att_int(file, NC_GLOBAL, "step", NC_INT, 1, &step), "step");
  require(nc_enddef(file), "enddef");
  require(nc_var_par_access(file, variable, NC_COLLECTIVE), "collective");
  size_t start[2] = {(size_t)first, 0}, count[2] = {(size_t)rows, kColumns};
  require(nc_put_vara_double(file, variable, start, count, field), "put");
  require(nc_close(file), "close");
}

static int netcdf4_read(const char* name, int* step, double* field, MPI_Offset first,
                        MPI_Offset rows) {
  int file, variable;
  if (nc_open_par(name, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file) != 0) return 0;
  require(nc_get_att_int(file, NC_GLOBAL, "step", step), "step");
  require(nc_inq_varid(file, "field", &variable), "field");
  require(nc_var_par_access(file, variable, NC_COLLECTIVE), "collective");
  size_t start[2] = {(size_t)first, 0}, count[2] = {(size_t)rows, kColumns};
  require(nc_get_vara_double(file, variable, start, count, field), "get");
  require(nc_close(file), "close");
  return 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) {
    fprintf(stderr, "usage: %s pnetcdf|netcdf4 STEPS EVERY [MILLISECONDS]\n", argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int classic = strcmp(argv[1], "pnetcdf") == 0;
  const int steps = atoi(argv[2]), every = atoi(argv[3]), pause = argc > 4 ? atoi(argv[4]) : 0;
  const MPI_Offset first = (MPI_Offset)kRows * rank / ranks;
  const MPI_Offset rows = (MPI_Offset)kRows * (rank + 1) / ranks - first;
  const size_t values = (size_t)rows * kColumns;
  double* field = malloc(values * sizeof *field);
  for (size_t i = 0; i < values; ++i) field[i] = (double)((size_t)first * kColumns + i);

  char name[64];
  int begin = 0;
  for (int step = steps - steps % every; step > 0 && begin == 0; step -= every) {
    int stored = 0;
    name_of(name, step);
    if (!(classic ? pnetcdf_read : netcdf4_read)(name, &stored, field, first, rows)) continue;
    if (stored != step) require(NC_EINVAL, "another step than the name says");
    begin = step;
  }
  if (rank == 0 && begin > 0) printf("restarted from step %d\n", begin);
  for (int step = begin + 1; step <= steps; ++step) {
    for (size_t i = 0; i < values; ++i) field[i] = field[i] * 0.75 + step;
    nanosleep(&(struct timespec){0, pause * 1000000L}, NULL);
    if (step % every != 0) continue;
    name_of(name, step);
    (classic ? pnetcdf_write : netcdf4_write)(name, step, field, first, rows);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  double sum = 0, total = 0;
  for (size_t i = 0; i < values; ++i) sum += field[i];
  MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("done: %d steps, sum %.6f\n", steps, total);
  free(field);
  MPI_Finalize();
  return 0;
}
