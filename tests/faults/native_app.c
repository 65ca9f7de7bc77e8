/* native_app: a program that calls SCR_*, made to be killed.
 *
 *   native_app STEPS FILES BYTES [options]
 *
 * Each rank writes FILES files of about BYTES bytes (sizes differ by rank and file; with --uneven
 * very much) in each of STEPS checkpoints. What a byte must be follows from step, rank, file and
 * offset alone, so a restart checks every byte by itself, without trusting anybody's checksum.
 * Prints one line that scripts read: "RESTARTED <step>" or "FRESH", "FAILED <step>" for a
 * checkpoint that could not be written, "DONE <step>" at the end. It ends with status 3 if anything
 * is wrong that no failure excuses: a wrong byte, or two ranks that are told different things.
 * After each completed checkpoint rank 0 appends the step to the file named by
 * --record and syncs it: the memory of what was complete, outside all caches.
 *
 *   --record FILE      see above
 *   --uneven           sizes from 0 bytes to three times BYTES
 *   --empty            every second file is empty
 *   --sleep MS         pause between checkpoints
 *   --invalid STEP     rank 1 marks its files of this step invalid
 *   --unwritten STEP   rank 1 routes a file in this step that it never writes
 *   --big STEP         files of this step are 50 times as large
 *   --no-files RANK    this rank writes no files
 *   --old-idiom        SCR_Start/Complete_checkpoint, and SCR_Route_file alone at restart
 *   --check-only       restart, verify, write nothing
 *   --tell FILE        rank 0 writes there which steps are done, through stdio, and never flushes
 * it
 *   --die-at STEP      rank 0 kills itself between start and complete of this step
 */
#include <fcntl.h>
#include <mpi.h>
#include <scr.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
  int steps, files, uneven, empty, old_idiom, check_only, sleep_ms;
  long bytes;
  int invalid_step, unwritten_step, no_files_rank, die_step, big_step;
  const char* record;
  FILE* told;
};

static int rank, ranks;

static void fail(const char* what) {
  fprintf(stderr, "native_app: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Fails unless all ranks have the same value. */
static void check_equal(int value, const char* what) {
  int range[2] = {value, -value};
  MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (range[0] != -range[1]) fail(what);
}

static long size_of(const struct options* o, int step, int r, int file) {
  if (step == o->big_step) return 50 * o->bytes + r;
  if (o->empty && file % 2 == 0) return 0;
  if (o->uneven) return r % 3 == 0 ? r + file : o->bytes * (1 + r % 3) + 4099 * file;
  return o->bytes + 37 * r + 11 * file;
}

static unsigned char byte_of(int step, int r, int file, long offset) {
  uint64_t x =
      (uint64_t)step * 1000003u + (uint64_t)r * 7919u + (uint64_t)file * 104729u + (uint64_t)offset;
  x ^= x >> 7;
  x *= 0x9e3779b97f4a7c15ull;
  return (unsigned char)(x >> 56);
}

static void name_of(char* name, int step, int r, int file) {
  sprintf(name, "ckpt.%d/rank_%d.%d.dat", step, r, file);
}

static int write_file(const char* path, int step, int file, long size) {
  FILE* out = fopen(path, "w");
  if (out == NULL) return 0;
  unsigned char buffer[65536];
  int ok = 1;
  for (long done = 0; ok && done < size;) {
    long n = size - done < (long)sizeof buffer ? size - done : (long)sizeof buffer;
    for (long i = 0; i < n; ++i) buffer[i] = byte_of(step, rank, file, done + i);
    ok = fwrite(buffer, 1, (size_t)n, out) == (size_t)n;
    done += n;
  }
  return fclose(out) == 0 && ok;
}

static void check_file(const char* path, int step, int file, long size) {
  FILE* in = fopen(path, "r");
  if (in == NULL) fail("cannot open a restart file");
  unsigned char buffer[65536];
  long done = 0;
  size_t n;
  while ((n = fread(buffer, 1, sizeof buffer, in)) > 0) {
    for (size_t i = 0; i < n; ++i) {
      if (buffer[i] != byte_of(step, rank, file, done + (long)i))
        fail("WRONG BYTE in a restart file");
    }
    done += (long)n;
  }
  fclose(in);
  if (done != size) fail("WRONG SIZE of a restart file");
}

static int my_files(const struct options* o) { return rank == o->no_files_rank ? 0 : o->files; }

/* Returns the step restarted from, 0 if there is none. */
static int restart(const struct options* o) {
  int have = 0, step = 0;
  char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], file_name[256];
  if (SCR_Have_restart(&have, name) != SCR_SUCCESS) fail("SCR_Have_restart");
  check_equal(have, "RANKS DISAGREE about SCR_Have_restart");
  if (!have) return 0;
  if (!o->old_idiom && SCR_Start_restart(name) != SCR_SUCCESS) fail("SCR_Start_restart");
  if (sscanf(name, o->old_idiom ? "scr.dataset.%d" : "step %d", &step) != 1)
    fail("strange name of a checkpoint");
  for (int f = 0; f < my_files(o); ++f) {
    name_of(file_name, step, rank, f);
    if (SCR_Route_file(file_name, path) != SCR_SUCCESS) fail("SCR_Route_file at restart");
    check_file(path, step, f, size_of(o, step, rank, f));
  }
  if (!o->old_idiom && SCR_Complete_restart(1) != SCR_SUCCESS) fail("SCR_Complete_restart");
  return step;
}

static void record(const struct options* o, int step) {
  if (rank != 0 || o->record == NULL) return;
  int fd = open(o->record, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0 || dprintf(fd, "%d\n", step) < 0 || fsync(fd) != 0) fail("cannot write the record");
  close(fd);
}

static void checkpoint(const struct options* o, int step) {
  char name[64], path[SCR_MAX_FILENAME], file_name[256];
  sprintf(name, "step %d", step);
  int started = o->old_idiom ? SCR_Start_checkpoint() : SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
  check_equal(started, "RANKS DISAGREE about SCR_Start");
  if (started != SCR_SUCCESS) {
    if (rank == 0) printf("FAILED %d\n", step);
    return;
  }
  int valid = 1;
  for (int f = 0; f < my_files(o); ++f) {
    name_of(file_name, step, rank, f);
    valid = SCR_Route_file(file_name, path) == SCR_SUCCESS &&
            write_file(path, step, f, size_of(o, step, rank, f)) && valid;
  }
  if (step == o->unwritten_step && rank == 1) SCR_Route_file("never_written", path);
  if (step == o->die_step && rank == 0) kill(getpid(), SIGKILL);
  if (step == o->invalid_step && rank == 1) valid = 0;
  int completed = o->old_idiom ? SCR_Complete_checkpoint(valid) : SCR_Complete_output(valid);
  check_equal(completed, "RANKS DISAGREE about SCR_Complete");
  if (completed == SCR_SUCCESS &&
      (!valid || step == o->invalid_step || step == o->unwritten_step)) {
    fail("SCR_Complete succeeded although it must not");
  }
  if (completed == SCR_SUCCESS) record(o, step);
  if (completed != SCR_SUCCESS && rank == 0) printf("FAILED %d\n", step);
}

static void parse(struct options* o, int argc, char** argv) {
  memset(o, 0, sizeof *o);
  o->no_files_rank = -1;
  if (argc < 4) fail("usage: native_app STEPS FILES BYTES [options]");
  o->steps = atoi(argv[1]);
  o->files = atoi(argv[2]);
  o->bytes = atol(argv[3]);
  for (int i = 4; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--uneven") == 0)
      o->uneven = 1;
    else if (strcmp(argv[i], "--empty") == 0)
      o->empty = 1;
    else if (strcmp(argv[i], "--old-idiom") == 0)
      o->old_idiom = 1;
    else if (strcmp(argv[i], "--check-only") == 0)
      o->check_only = 1;
    else if (strcmp(argv[i], "--tell") == 0)
      o->told = rank == 0 ? fopen(value, "w") : NULL, ++i;
    else if (strcmp(argv[i], "--sleep") == 0)
      o->sleep_ms = atoi(value), ++i;
    else if (strcmp(argv[i], "--invalid") == 0)
      o->invalid_step = atoi(value), ++i;
    else if (strcmp(argv[i], "--unwritten") == 0)
      o->unwritten_step = atoi(value), ++i;
    else if (strcmp(argv[i], "--no-files") == 0)
      o->no_files_rank = atoi(value), ++i;
    else if (strcmp(argv[i], "--big") == 0)
      o->big_step = atoi(value), ++i;
    else if (strcmp(argv[i], "--die-at") == 0)
      o->die_step = atoi(value), ++i;
    else if (strcmp(argv[i], "--record") == 0)
      o->record = value, ++i;
    else
      fail("unknown option");
  }
}

int main(int argc, char** argv) {
  struct options o;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  parse(&o, argc, argv);
  if (SCR_Init() != SCR_SUCCESS) {
    if (rank == 0) printf("INIT FAILED\n");
    MPI_Finalize();
    return 4;
  }
  int step = restart(&o);
  if (rank == 0) {
    if (step > 0)
      printf("RESTARTED %d\n", step);
    else
      printf("FRESH\n");
    fflush(stdout);
  }
  for (int i = 0; !o.check_only && i < o.steps; ++i) {
    checkpoint(&o, ++step);
    if (o.told) fprintf(o.told, "%d\n", step);
    if (o.sleep_ms > 0) usleep((useconds_t)o.sleep_ms * 1000);
  }
  if (SCR_Finalize() != SCR_SUCCESS) fail("SCR_Finalize");
  MPI_Finalize();
  if (rank == 0) printf("DONE %d\n", step);
  return 0;
}
