/* misuse: a program that makes every mistake scr.h allows, and checks that each ends in an error
 * code at once, that nobody waits, and that the checkpoints written before are untouched.
 *
 *   misuse write     makes the mistakes; the last good checkpoint is "second"
 *   misuse restart   restarts from it and checks the bytes
 *
 * Run it with at least two ranks; rank 1 is the one that makes the mistakes of a single rank. */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, checks, failures;
static char long_name[3000];

static void check(int good, const char* text, int line) {
  ++checks;
  if (good) return;
  ++failures;
  fprintf(stderr, "misuse.c:%d: rank %d: FAIL: %s\n", line, rank, text);
}
#define CHECK(condition) check((condition), #condition, __LINE__)
#define GOOD(call) check((call) == SCR_SUCCESS, #call " must succeed", __LINE__)
#define BAD(call) check((call) != SCR_SUCCESS, #call " must fail", __LINE__)

static void calls_before_init(void) {
  int flag = 7;
  char name[SCR_MAX_FILENAME] = "x", path[SCR_MAX_FILENAME];
  BAD(SCR_Finalize());
  BAD(SCR_Route_file("file", path));
  BAD(SCR_Have_restart(&flag, name));
  CHECK(flag == 0);
  BAD(SCR_Start_restart(name));
  BAD(SCR_Complete_restart(1));
  BAD(SCR_Need_checkpoint(&flag));
  BAD(SCR_Should_exit(&flag));
  BAD(SCR_Start_checkpoint());
  BAD(SCR_Complete_checkpoint(1));
  BAD(SCR_Start_output("name", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Complete_output(1));
  BAD(SCR_Current("name"));
  BAD(SCR_Drop("name"));
  BAD(SCR_Delete("name"));
}

static void configuration(void) {
  const char* value;
  CHECK(SCR_Config(NULL) == NULL);
  CHECK(SCR_Config("SCR_SET_SIZE=5") == NULL);
  value = SCR_Config("SCR_SET_SIZE");
  CHECK(value != NULL && strcmp(value, "5") == 0);
  CHECK(SCR_Configf("%s=%d", "SCR_SET_SIZE", 6) == NULL);
  value = SCR_Configf("SCR_%s", "SET_SIZE");
  CHECK(value != NULL && strcmp(value, "6") == 0);
  CHECK(SCR_Config("SCR_SET_SIZE=") == NULL);
  value = SCR_Config("SCR_SET_SIZE");
  CHECK(value == NULL || strcmp(value, "6") != 0);
  CHECK(SCR_Config("SCR_NO_SUCH_THING=1") == NULL);
  CHECK(SCR_Config("") == NULL);
  CHECK(SCR_Config("=") == NULL);
}

static int write_file(const char* name) {
  char file[256], path[SCR_MAX_FILENAME];
  snprintf(file, sizeof file, "%s.%d", name, rank);
  if (SCR_Route_file(file, path) != SCR_SUCCESS) return 0;
  FILE* out = fopen(path, "w");
  if (out == NULL) return 0;
  fprintf(out, "%s of rank %d\n", name, rank);
  return fclose(out) == 0;
}

static int file_is_right(const char* name) {
  char file[256], path[SCR_MAX_FILENAME], text[256] = "", expected[256];
  snprintf(file, sizeof file, "%s.%d", name, rank);
  if (SCR_Route_file(file, path) != SCR_SUCCESS) return 0;
  FILE* in = fopen(path, "r");
  if (in == NULL) return 0;
  if (fgets(text, sizeof text, in) == NULL) text[0] = '\0';
  fclose(in);
  snprintf(expected, sizeof expected, "%s of rank %d\n", name, rank);
  return strcmp(text, expected) == 0;
}

/* The checkpoint offered for a restart is this one. */
static void check_newest(const char* expected, int line) {
  int flag = 0;
  char name[SCR_MAX_FILENAME] = "";
  check(SCR_Have_restart(&flag, name) == SCR_SUCCESS && flag == 1 && strcmp(name, expected) == 0,
        "the previous checkpoint is no longer offered", line);
}

static void wrong_arguments(void) {
  int flag;
  unsigned long long done, total;
  char path[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME];
  const int one = rank == 1; /* the rank that errs */
  /* Outside a dataset. */
  BAD(SCR_Complete_output(1));
  BAD(SCR_Complete_checkpoint(1));
  BAD(SCR_Complete_restart(1));
  BAD(SCR_Start_output(NULL, SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_output("", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_output(long_name, SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_output("flags", 1024));
  BAD(SCR_Current(NULL));
  BAD(SCR_Delete(long_name));
  BAD(SCR_Drop(""));
  BAD(SCR_Current("no such dataset"));
  BAD(SCR_Delete("no such dataset"));
  BAD(SCR_Drop("no such dataset"));
  BAD(SCR_Flush_progress("no such dataset", &done, &total));
  BAD(SCR_Flush_progress(NULL, &done, &total));
  BAD(SCR_Flush_progress("second", NULL, &total));
  BAD(SCR_Flush_progress("second", &done, NULL));
  BAD(SCR_Flush_wait("no such dataset"));
  BAD(SCR_Should_exit(NULL));
  BAD(SCR_Need_checkpoint(NULL));
  BAD(SCR_Have_restart(NULL, name));
  GOOD(SCR_Have_restart(&flag, NULL));
  BAD(SCR_Route_file("not in the checkpoint", path));
  /* One rank errs: the others are told. Calls that fail on that rank alone must leave nobody
   * waiting. */
  BAD(SCR_Start_output(one ? NULL : "one", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_output(one ? long_name : "one", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_output("one", one ? -1 : SCR_FLAG_CHECKPOINT));
  BAD(SCR_Delete(one ? NULL : "second"));
  BAD(SCR_Current(one ? "" : "second"));
  CHECK(SCR_Should_exit(one ? NULL : &flag) == (one ? SCR_FAILURE : SCR_SUCCESS));
  CHECK(SCR_Need_checkpoint(one ? NULL : &flag) == (one ? SCR_FAILURE : SCR_SUCCESS));
  CHECK(SCR_Have_restart(one ? NULL : &flag, name) == (one ? SCR_FAILURE : SCR_SUCCESS));
  GOOD(SCR_Should_exit(&flag));
  BAD(SCR_Complete_output(1)); /* none of these has started a dataset */
}

static void mistakes_while_writing(void) {
  int flag;
  char path[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME] = "", text[2000];
  GOOD(SCR_Start_output("second", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Init());
  BAD(SCR_Start_output("third", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_checkpoint());
  BAD(SCR_Have_restart(&flag, name));
  BAD(SCR_Start_restart(name));
  BAD(SCR_Complete_restart(1));
  BAD(SCR_Current("first"));
  BAD(SCR_Delete("first"));
  BAD(SCR_Drop("first"));
  BAD(SCR_Route_file(NULL, path));
  BAD(SCR_Route_file("file", NULL));
  BAD(SCR_Route_file("", path));
  BAD(SCR_Route_file(long_name, path));
  BAD(SCR_Route_file("/elsewhere/file", path));
  BAD(SCR_Route_file("../file", path));
  BAD(SCR_Route_file("a/../../file", path));
  BAD(SCR_Route_file(".", path));
  BAD(SCR_Route_file(".scr/index.scr", path));
  /* Short enough as it is, too long as a path in the cache. */
  memset(text, 'a', sizeof text);
  for (int i = 100; i < 1000; i += 100) text[i] = '/';
  text[1010] = '\0';
  BAD(SCR_Route_file(text, path));
  CHECK(write_file("second"));
  GOOD(SCR_Complete_output(1));
  check_newest("second", __LINE__);
}

static void mistakes_while_restarting(void) {
  char name[SCR_MAX_FILENAME] = "", path[SCR_MAX_FILENAME];
  GOOD(SCR_Start_restart(name));
  CHECK(strcmp(name, "second") == 0);
  BAD(SCR_Start_restart(name));
  BAD(SCR_Start_output("third", SCR_FLAG_CHECKPOINT));
  BAD(SCR_Start_checkpoint());
  BAD(SCR_Complete_output(1));
  BAD(SCR_Route_file("no such file", path));
  CHECK(file_is_right("second"));
  GOOD(SCR_Complete_restart(1));
  BAD(SCR_Complete_restart(1));
}

/* Datasets that end badly on rank 1 are dropped everywhere. */
static void bad_datasets(void) {
  char path[SCR_MAX_FILENAME];
  GOOD(SCR_Start_output("invalid", SCR_FLAG_CHECKPOINT));
  CHECK(write_file("invalid"));
  BAD(SCR_Complete_output(rank != 1));
  check_newest("second", __LINE__);
  GOOD(SCR_Start_output("unwritten", SCR_FLAG_CHECKPOINT));
  if (rank == 1) GOOD(SCR_Route_file("registered and never written", path));
  BAD(SCR_Complete_output(1));
  check_newest("second", __LINE__);
  GOOD(SCR_Start_checkpoint());
  CHECK(write_file("old idiom"));
  BAD(SCR_Complete_checkpoint(rank != 1));
  check_newest("second", __LINE__);
}

static void write_mode(void) {
  char long_text[SCR_MAX_FILENAME];
  memset(long_name, 'n', sizeof long_name - 1);
  memset(long_text, 'x', sizeof long_text);
  calls_before_init();
  configuration();
  GOOD(SCR_Init());
  BAD(SCR_Init());
  CHECK(SCR_Config("SCR_DEBUG=1") == NULL);
  GOOD(SCR_Start_output("first", SCR_FLAG_CHECKPOINT));
  CHECK(write_file("first"));
  GOOD(SCR_Complete_output(1));
  check_newest("first", __LINE__);
  mistakes_while_writing();
  wrong_arguments();
  mistakes_while_restarting();
  bad_datasets();
  /* A dataset that is never completed is dropped at the end; a second run of the runtime in this
   * process. */
  GOOD(SCR_Start_output("open", SCR_FLAG_CHECKPOINT));
  CHECK(write_file("open"));
  SCR_Finalize();
  BAD(SCR_Finalize());
  BAD(SCR_Start_checkpoint());
  GOOD(SCR_Init());
  check_newest("second", __LINE__);
  GOOD(SCR_Finalize());
}

static void restart_mode(void) {
  char name[SCR_MAX_FILENAME] = "";
  int flag = 0;
  GOOD(SCR_Init());
  GOOD(SCR_Have_restart(&flag, name));
  CHECK(flag == 1 && strcmp(name, "second") == 0);
  GOOD(SCR_Start_restart(name));
  CHECK(file_is_right("second"));
  GOOD(SCR_Complete_restart(1));
  GOOD(SCR_Delete("second"));
  GOOD(SCR_Have_restart(&flag, name));
  CHECK(flag == 0);
  GOOD(SCR_Finalize());
}

int main(int argc, char** argv) {
  const char* version = SCR_Get_version();
  CHECK(version != NULL && version[0] == 'v');
  BAD(SCR_Init()); /* before MPI_Init */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2 || ranks < 2) {
    fprintf(stderr, "usage: mpirun -n 2 misuse write|restart\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (strcmp(argv[1], "write") == 0)
    write_mode();
  else
    restart_mode();
  int counts[2] = {checks, failures};
  MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d passed, %d failed\n", counts[0] - counts[1], counts[1]);
  MPI_Finalize();
  return counts[1] == 0 ? 0 : 1;
}
