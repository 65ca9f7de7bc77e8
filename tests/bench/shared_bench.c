/* Shared files of MPI-IO: files that h5scr routes to node-local storage against plain ones, in
 * turns.
 *
 *   shared_bench write DIRECTORY MIB ROUNDS    both kinds in DIRECTORY
 *   shared_bench flush DIRECTORY MIB ROUNDS    routed files that are flushed at once, against dd
 *
 * It knows nothing of h5scr but that a ROUTE rule is for names that begin with "routed". Every rank
 * writes MIB in pieces, which alternate with those of the others (interleaved) or follow each other
 * (segmented); collectively, with a view and one call, or independently, with a call for each
 * piece. A time is that of the slowest rank, a ratio the median over the rounds of routed / plain:
 *
 *   write    from open to close; h5scr protects the file at the close, as SCR_COPY_TYPE says
 *   read     each rank what it wrote;  shifted   what the next rank wrote
 */
#include <fcntl.h>
#include <mpi.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ROUNDS = 64, MEASURES = 3 };
enum { WRITE, READ, SHIFTED };

extern char** environ;

struct shape {
  int collective, interleaved;
  size_t piece;
};

static int rank, ranks;
static size_t size;          /* bytes of a rank */
static unsigned long* data;  /* of this rank */
static unsigned long* other; /* place to read to */

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  fprintf(stderr, "shared_bench: cannot %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned long word(int owner, size_t index) {
  return ((unsigned long)owner << 40U | index) * 0x9E3779B97F4A7C15UL;
}

static void fill(void) {
  for (size_t i = 0; i < size / sizeof *data; i++) data[i] = word(rank, i);
}

static void check(int owner, const char* name) {
  for (size_t i = 0; i < size / sizeof *other; i++) {
    if (other[i] == word(owner, i)) continue;
    fprintf(stderr, "shared_bench: wrong data in %s at word %zu of rank %d\n", name, i, owner);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static MPI_Offset place(const struct shape* shape, int owner, size_t piece) {
  const size_t pieces = size / shape->piece;
  const size_t number =
      shape->interleaved ? piece * (size_t)ranks + (size_t)owner : (size_t)owner * pieces + piece;
  return (MPI_Offset)(number * shape->piece);
}

static void set_view(MPI_File file, const struct shape* shape, int owner) {
  MPI_Datatype type, piece;
  const int length = (int)shape->piece, pieces = (int)(size / shape->piece);
  const MPI_Aint stride = shape->interleaved ? (MPI_Aint)length * ranks : length;
  MPI_Type_contiguous(length, MPI_BYTE, &piece);
  MPI_Type_create_hvector(pieces, 1, stride, piece, &type);
  MPI_Type_commit(&type);
  must(MPI_File_set_view(file, place(shape, owner, 0), MPI_BYTE, type, "native", MPI_INFO_NULL),
       "set a view");
  MPI_Type_free(&type);
  MPI_Type_free(&piece);
}

static void transfer(MPI_File file, const struct shape* shape, int owner, int writes) {
  char* buffer = (char*)(writes ? data : other);
  if (shape->collective) {
    set_view(file, shape, owner);
    must(writes ? MPI_File_write_all(file, buffer, (int)size, MPI_BYTE, MPI_STATUS_IGNORE)
                : MPI_File_read_all(file, buffer, (int)size, MPI_BYTE, MPI_STATUS_IGNORE),
         "transfer collectively");
    return;
  }
  const int length = (int)shape->piece;
  for (size_t i = 0; i < size / shape->piece; i++) {
    const MPI_Offset at = place(shape, owner, i);
    char* from = buffer + i * shape->piece;
    must(writes ? MPI_File_write_at(file, at, from, length, MPI_BYTE, MPI_STATUS_IGNORE)
                : MPI_File_read_at(file, at, from, length, MPI_BYTE, MPI_STATUS_IGNORE),
         "transfer");
  }
}

static double slowest(double seconds) {
  double all = 0;
  MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/* `closing`: the part of the close. */
static double write_file(const char* name, const struct shape* shape, double* closing) {
  MPI_File file;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  must(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
       "create a file");
  transfer(file, shape, rank, 1);
  const double written = MPI_Wtime();
  must(MPI_File_close(&file), "close a file");
  const double closed = MPI_Wtime();
  *closing = slowest(closed - written);
  return slowest(closed - start);
}

static double read_file(const char* name, const struct shape* shape, int owner) {
  MPI_File file;
  memset(other, 0, size);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  must(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open a file");
  transfer(file, shape, owner, 0);
  must(MPI_File_close(&file), "close a file");
  const double seconds = slowest(MPI_Wtime() - start);
  check(owner, name);
  return seconds;
}

static void delete_file(const char* name) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) must(MPI_File_delete(name, MPI_INFO_NULL), "delete a file");
  MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const char* name, const struct shape* shape, double* seconds) {
  double closing = 0;
  seconds[WRITE] = write_file(name, shape, &closing);
  seconds[READ] = read_file(name, shape, rank);
  seconds[SHIFTED] = read_file(name, shape, (rank + 1) % ranks);
  delete_file(name);
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

static void compare(const char* directory, const struct shape* shape, int rounds) {
  char plain[512], routed[512];
  snprintf(plain, sizeof plain, "%s/plain.dat", directory);
  snprintf(routed, sizeof routed, "%s/routed.dat", directory);
  double ratios[MEASURES][MAX_ROUNDS], times[MAX_ROUNDS];
  for (int round = -1; round < rounds; round++) { /* the first one warms up */
    double ours[MEASURES], theirs[MEASURES];
    measure(plain, shape, theirs);
    measure(routed, shape, ours);
    if (round < 0) continue;
    times[round] = theirs[WRITE];
    for (int i = 0; i < MEASURES; i++) ratios[i][round] = ours[i] / theirs[i];
  }
  if (rank != 0) return;
  printf(
      "%-11s %-11s %5zu KiB  plain %7.1f ms  write %.2f (aim <= %.1f)  read %.2f  "
      "shifted %.2f\n",
      shape->collective ? "collective" : "independent",
      shape->interleaved ? "interleaved" : "segmented", shape->piece >> 10U,
      median(times, rounds) * 1e3, median(ratios[WRITE], rounds), shape->interleaved ? 0.7 : 1.0,
      median(ratios[READ], rounds), median(ratios[SHIFTED], rounds));
  fflush(stdout);
}

/* What was removed is off the disk before the next one is timed. */
static void settle(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) sync();
  MPI_Barrier(MPI_COMM_WORLD);
}

/* dd with fsync, of as many bytes, by as many processes. */
static double copy_with_dd(const char* directory) {
  char from[600], to[600];
  snprintf(from, sizeof from, "if=%s/plain.%d", directory, rank);
  snprintf(to, sizeof to, "of=%s/copy.%d", directory, rank);
  char* arguments[] = {"dd", from, to, "bs=4M", "conv=fsync", "status=none", NULL};
  const int source = open(from + 3, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (source < 0 || write(source, data, size) != (ssize_t)size || close(source) != 0)
    must(MPI_ERR_IO, "write the source of dd");
  unlink(to + 3);
  settle();
  const double start = MPI_Wtime();
  pid_t process = 0;
  int status = -1;
  if (posix_spawnp(&process, "dd", NULL, NULL, arguments, environ) != 0 ||
      waitpid(process, &status, 0) != process || status != 0)
    must(MPI_ERR_IO, "run dd");
  const double seconds = slowest(MPI_Wtime() - start);
  unlink(from + 3);
  unlink(to + 3);
  return seconds;
}

static double flush_file(const char* name) {
  const struct shape shape = {1, 1, 65536};
  double closing = 0;
  settle();
  (void)write_file(name, &shape, &closing);
  delete_file(name);
  return closing;
}

/* They take turns to be first. */
static void compare_flush(const char* directory, int rounds) {
  double ratios[MAX_ROUNDS];
  for (int round = -1; round < rounds; round++) {
    char name[512];
    double copied = 0, flushed = 0;
    snprintf(name, sizeof name, "%s/routed.%d", directory, round + 1);
    for (int turn = 0; turn < 2; turn++) {
      if ((round + turn) % 2 == 0)
        flushed = flush_file(name);
      else
        copied = copy_with_dd(directory);
    }
    if (round >= 0) ratios[round] = flushed / copied;
  }
  if (rank == 0)
    printf("flush of a shared file (64 KiB interleaved) / dd of the same bytes: %.2f\n",
           median(ratios, rounds));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc == 5 ? atoi(argv[4]) : 0;
  if (rounds < 1 || rounds > MAX_ROUNDS || atoi(argv[3]) < 1) {
    fprintf(stderr, "usage: shared_bench write|flush DIRECTORY MIB ROUNDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  size = (size_t)atoi(argv[3]) << 20U;
  data = malloc(size);
  other = malloc(size);
  if (data == NULL || other == NULL) must(MPI_ERR_NO_MEM, "get memory");
  fill();
  if (strcmp(argv[1], "flush") == 0) {
    compare_flush(argv[2], rounds);
  } else {
    for (int collective = 1; collective >= 0; collective--)
      for (int interleaved = 1; interleaved >= 0; interleaved--)
        for (size_t piece = 1024; piece <= 4194304; piece *= 64) {
          const struct shape shape = {collective, interleaved, piece};
          compare(argv[2], &shape, rounds);
        }
  }
  free(data);
  free(other);
  MPI_Finalize();
  return 0;
}
