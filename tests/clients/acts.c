/* acts: a program that uses HDF5 and MPI as its arguments say, and knows nothing of h5scr.
 *
 *   acts ACT...
 *
 * Each act is one argument: [@WHO] VERB WORD... Ranks do them one after the other; WHO is a rank,
 * !RANK, even or odd. In words %r is the rank, %n and %p the next and the one before, %o a rank on
 * another node (two further), %s the step. A file holds numbers that follow from one VALUE, so a
 * reader notices every wrong byte.
 *
 *   write NAME VALUE [COUNT]     H5Fcreate, a data set "value" of COUNT numbers, H5Fclose
 *   hold NAME VALUE              the same without H5Fclose
 *   latest NAME VALUE            as hold, in the newest format of HDF5, which marks open files
 *   put NAME VALUE               writes the data set of a file that is held
 *   flush NAME | close NAME      H5Fflush, H5Fclose of a file that is held
 *   append NAME DATASET VALUE    opens the file for changes and adds a data set
 *   add NAME DATASET VALUE       adds a data set to a file that is held
 *   update NAME                  opens a file for changes and holds it
 *   core NAME VALUE              as write, with HDF5's driver core
 *   family NAME VALUE            the same with the driver family, whose members are NAME-0.h5, ...
 *   family-list NAME VALUE       the same, with a new property list for the members
 *   swmr NAME VALUE              as write, with H5Fstart_swmr_write in between; prints what it says
 *   read NAME VALUE [DATASET]    must find just this
 *   last NAME VALUE              the number of the newest data set "a<number>"
 *   refused NAME                 H5Fopen must fail
 *   missing NAME | exists NAME   by stat
 *   rename FROM TO | unlink NAME | delete NAME (H5Fdelete)
 *   grow NAME BYTES              truncate() to a size that much larger than H5Fget_filesize says
 *   barrier | allreduce | bcast | sub | dup | next    collective calls; sub: on two halves;
 *                                dup: a barrier on a copy of the world; next: a ring of messages
 *   thread ACT | join            in a second thread, which all `thread` acts of a rank go to
 *   fork ACT                     in a child process
 *   system COMMAND               must succeed
 *   finalize | exit STATUS | abort | kill | sleep MILLISECONDS | print TEXT
 *   resume NAME                  prints FOUND VALUE, the value in the file, 0 if there is none by
 *                                stat; all ranks must find the same. The step is this.
 *   resume0 NAME                 the same, but rank 0 alone reads
 *   while LAST ... again         repeats acts with the next step until it is LAST
 *   record FILE                  rank 0 adds the step to a text file
 *
 * What is wrong is printed as WRONG, and the exit status is 1. Rank 0 prints DONE at the end. The
 * variable ACTS_THREADS (multiple, funneled) asks for MPI_Init_thread. */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 8, LENGTH = 512, HELD = 16, COUNT = 2000 };

static int rank, size, failures, finalized, step;
static MPI_Comm half, copy;
static struct {
  char name[LENGTH];
  hid_t file;
} held[HELD];

static void wrong(const char* what, const char* name) {
  printf("WRONG rank %d step %d: %s %s\n", rank, step, what, name);
  fflush(stdout);
  failures++;
}

/* --- files ---------------------------------------------------------------------------------------
 */

static int write_values(hid_t file, const char* dataset, long long value, size_t count) {
  long long* values = malloc(count * sizeof *values);
  hsize_t extent[1] = {count};
  for (size_t i = 0; i < count; i++) values[i] = value + 7 * (long long)i;
  hid_t data;
  if (H5Lexists(file, dataset, H5P_DEFAULT) > 0) {
    data = H5Dopen2(file, dataset, H5P_DEFAULT);
  } else {
    hid_t space = H5Screate_simple(1, extent, NULL);
    data =
        H5Dcreate2(file, dataset, H5T_NATIVE_LLONG, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
  }
  const int ok =
      data >= 0 && H5Dwrite(data, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  if (data >= 0) H5Dclose(data);
  free(values);
  return ok;
}

/* The value of a data set; -1 if it cannot be read, -2 if the numbers do not belong together. */
static long long read_values(hid_t file, const char* dataset) {
  hid_t data = H5Dopen2(file, dataset, H5P_DEFAULT);
  if (data < 0) return -1;
  hid_t space = H5Dget_space(data);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  H5Sclose(space);
  long long* values = malloc((size_t)count * sizeof *values);
  long long value = -1;
  if (H5Dread(data, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0) {
    value = values[0];
    for (hssize_t i = 0; i < count; i++) {
      if (values[i] != values[0] + 7 * (long long)i) value = -2;
    }
  }
  free(values);
  H5Dclose(data);
  return value;
}

static long long read_file(const char* name, const char* dataset) {
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return -1;
  const long long value = read_values(file, dataset);
  H5Fclose(file);
  return value;
}

static int slot_of(const char* name) {
  for (int i = 0; i < HELD; i++) {
    if (strcmp(held[i].name, name) == 0) return i;
  }
  return -1;
}

static void hold(const char* name, hid_t file) {
  const int free_slot = slot_of("");
  strcpy(held[free_slot].name, name);
  held[free_slot].file = file;
}

static hid_t held_file(const char* name) {
  const int slot = slot_of(name);
  return slot < 0 ? -1 : held[slot].file;
}

static void create(const char* name, long long value, size_t count, int keep) {
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0 || !write_values(file, "value", value, count)) wrong("cannot write", name);
  if (file < 0) return;
  if (keep)
    hold(name, file);
  else if (H5Fclose(file) < 0)
    wrong("cannot close", name);
}

static void create_latest(const char* name, long long value) {
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
  if (file < 0 || !write_values(file, "value", value, COUNT)) wrong("cannot write", name);
  if (file >= 0) hold(name, file);
  H5Pclose(list);
}

static void create_with_driver(const char* driver, const char* name, long long value) {
  char members[LENGTH + 16];
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  if (strcmp(driver, "core") == 0) {
    H5Pset_fapl_core(list, 65536, 1);
  } else {
    snprintf(members, sizeof members, "%s-%%d.h5", name);
    /* H5P_DEFAULT stands for sec2 here, whatever the default driver is. */
    hid_t own = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_family(list, 4096, strcmp(driver, "family") == 0 ? H5P_DEFAULT : own);
    H5Pclose(own);
    name = members;
  }
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
  if (file < 0 || !write_values(file, "value", value, COUNT) || H5Fclose(file) < 0)
    wrong("cannot write", name);
  H5Pclose(list);
}

static void create_with_swmr(const char* name, long long value) {
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
  if (file < 0) wrong("cannot create", name);
  printf("SWMR %s\n", H5Fstart_swmr_write(file) >= 0 ? "begins" : "refused");
  if (!write_values(file, "value", value, COUNT) || H5Fclose(file) < 0) wrong("cannot write", name);
  H5Pclose(list);
}

static void append(const char* name, const char* dataset, long long value) {
  hid_t file = H5Fopen(name, H5F_ACC_RDWR, H5P_DEFAULT);
  if (file < 0 || !write_values(file, dataset, value, COUNT)) wrong("cannot append to", name);
  if (file >= 0 && H5Fclose(file) < 0) wrong("cannot close", name);
}

static void check_read(const char* name, long long value, const char* dataset) {
  char text[LENGTH + 64];
  const long long found = read_file(name, dataset);
  if (found == value) return;
  snprintf(text, sizeof text, "%s: %lld, not %lld, in", name, found, value);
  wrong(text, dataset);
}

static void grow(const char* name, long long bytes) {
  hsize_t size = 0, grown = 0;
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0 || H5Fget_filesize(file, &size) < 0) wrong("cannot ask for the size of", name);
  if (file >= 0) H5Fclose(file);
  if (truncate(name, (off_t)((long long)size + bytes)) != 0) wrong("cannot truncate", name);
  file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0 || H5Fget_filesize(file, &grown) < 0 || grown != size + (hsize_t)bytes)
    wrong("not truncated to the size asked for:", name);
  if (file >= 0) H5Fclose(file);
}

static int there(const char* name) {
  struct stat info;
  return stat(name, &info) == 0;
}

/* --- acts ----------------------------------------------------------------------------------------
 */

static void collective(const char* verb) {
  int one = 1, sum = 0;
  if (strcmp(verb, "barrier") == 0) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(verb, "sub") == 0) MPI_Barrier(half);
  if (strcmp(verb, "dup") == 0) MPI_Barrier(copy);
  if (strcmp(verb, "bcast") == 0) MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (strcmp(verb, "next") == 0) {
    MPI_Sendrecv(&one, 1, MPI_INT, (rank + 1) % size, 0, &sum, 1, MPI_INT, (rank + size - 1) % size,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (strcmp(verb, "allreduce") == 0) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size) wrong("sum of", "MPI_Allreduce");
  }
}

static void resume(const char* name, int all) {
  long long value = (all || rank == 0) && there(name) ? read_file(name, "value") : 0;
  if (value < 0) wrong("cannot read", name);
  if (!all) MPI_Bcast(&value, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
  long long range[2] = {value, -value};
  MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
  if (range[0] != -range[1] && value != range[0]) wrong("DISAGREE on the newest", name);
  step = (int)range[0];
  if (rank == 0) printf("FOUND %d\n", step);
  fflush(stdout);
}

static void add_line(const char* name) {
  if (rank != 0) return;
  char line[32];
  const int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
  const int length = sprintf(line, "%d\n", step);
  if (write(file, line, (size_t)length) != length) wrong("cannot write", name);
  close(file);
}

static void do_act(const char* text);

static pthread_t thread;
static char queued[WORDS][LENGTH];
static int queue_length, thread_runs;

static void* run_thread(void* unused) {
  for (int i = 0; i < queue_length; i++) do_act(queued[i]);
  return unused;
}

/* The thread starts with the first act that is not for it, so that it has them all. */
static void start_thread(void) {
  if (queue_length == 0 || thread_runs) return;
  thread_runs = 1;
  pthread_create(&thread, NULL, run_thread, NULL);
}

static void join_thread(void) {
  if (thread_runs) pthread_join(thread, NULL);
  thread_runs = queue_length = 0;
}

static void in_child(const char* act) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    do_act(act);
    fflush(stdout);
    _exit(failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) wrong("the child failed:", act);
}

static void finalize(void) {
  if (!finalized) {
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Finalize();
  }
  finalized = 1;
}

static int is_meant(const char* who) {
  if (strcmp(who, "even") == 0) return rank % 2 == 0;
  if (strcmp(who, "odd") == 0) return rank % 2 == 1;
  return who[0] == '!' ? rank != atoi(who + 1) : rank == atoi(who);
}

static void expand(const char* text, char* to) {
  for (; *text != '\0'; text++) {
    if (text[0] != '%' || strchr("rnpos", text[1]) == NULL) {
      *to++ = *text;
      continue;
    }
    const int number = *++text == 'r' ? rank
                       : *text == 'n' ? (rank + 1) % size
                       : *text == 'p' ? (rank + size - 1) % size
                       : *text == 'o' ? (rank + 2) % size
                                      : step;
    to += sprintf(to, "%d", number);
  }
  *to = '\0';
}

/* Acts on files. */
static int do_file_act(const char* verb, char** word, int words) {
  const char* name = word[0];
  const hid_t file = held_file(name);
  const long long last = words > 1 ? atoll(word[words - 1]) : 0;
  if (strcmp(verb, "write") == 0)
    create(name, atoll(word[1]), words > 2 ? (size_t)last : COUNT, 0);
  else if (strcmp(verb, "hold") == 0)
    create(name, last, COUNT, 1);
  else if (strcmp(verb, "latest") == 0)
    create_latest(name, last);
  else if (strcmp(verb, "core") == 0 || strncmp(verb, "family", 6) == 0)
    create_with_driver(verb, name, last);
  else if (strcmp(verb, "swmr") == 0)
    create_with_swmr(name, last);
  else if (strcmp(verb, "put") == 0 && !write_values(file, "value", last, COUNT))
    wrong("cannot write", name);
  else if (strcmp(verb, "add") == 0 && !write_values(file, word[1], last, COUNT))
    wrong("cannot add to", name);
  else if (strcmp(verb, "flush") == 0 && H5Fflush(file, H5F_SCOPE_LOCAL) < 0)
    wrong("cannot flush", name);
  else if (strcmp(verb, "close") == 0) {
    if (H5Fclose(file) < 0) wrong("cannot close", name);
    if (file >= 0) held[slot_of(name)].name[0] = '\0';
  } else if (strcmp(verb, "update") == 0) {
    hid_t opened = H5Fopen(name, H5F_ACC_RDWR, H5P_DEFAULT);
    if (opened < 0) wrong("cannot open", name);
    hold(name, opened);
  } else if (strcmp(verb, "append") == 0)
    append(name, word[1], last);
  else if (strcmp(verb, "read") == 0)
    check_read(name, atoll(word[1]), words > 2 ? word[2] : "value");
  else if (strcmp(verb, "refused") == 0) {
    hid_t opened = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (opened >= 0) wrong("opened", name);
  } else if (strcmp(verb, "missing") == 0 && there(name))
    wrong("there is", name);
  else if (strcmp(verb, "exists") == 0 && !there(name))
    wrong("there is no", name);
  else if (strcmp(verb, "rename") == 0 && rename(name, word[1]) != 0)
    wrong("cannot rename", name);
  else if (strcmp(verb, "unlink") == 0 && unlink(name) != 0)
    wrong("cannot unlink", name);
  else if (strcmp(verb, "grow") == 0)
    grow(name, last);
  else if (strcmp(verb, "delete") == 0 && H5Fdelete(name, H5P_DEFAULT) < 0)
    wrong("cannot delete", name);
  return 1;
}

static void do_act(const char* text) {
  char buffer[LENGTH], verb[LENGTH], *word[WORDS], *rest = NULL;
  expand(text, buffer);
  char* first = strtok_r(buffer, " ", &rest);
  if (first[0] == '@') {
    if (!is_meant(first + 1)) return;
    first = strtok_r(NULL, " ", &rest);
  }
  strcpy(verb, first);
  if (strcmp(verb, "thread") == 0) {
    strcpy(queued[queue_length++], rest);
    return;
  }
  if (thread_runs == 0 || !pthread_equal(thread, pthread_self())) start_thread();
  if (strcmp(verb, "fork") == 0) {
    in_child(rest);
    return;
  }
  if (strcmp(verb, "system") == 0) {
    fflush(stdout);
    if (system(rest) != 0) wrong("failed:", rest);
    return;
  }
  if (strcmp(verb, "print") == 0) {
    printf("%s\n", rest);
    fflush(stdout);
    return;
  }
  int words = 0;
  while (words < WORDS && (word[words] = strtok_r(NULL, " ", &rest)) != NULL) words++;
  if (strcmp(verb, "join") == 0) {
    join_thread();
  } else if (strcmp(verb, "finalize") == 0) {
    finalize();
  } else if (strcmp(verb, "exit") == 0) {
    exit(atoi(word[0]));
  } else if (strcmp(verb, "abort") == 0) {
    MPI_Abort(MPI_COMM_WORLD, 3);
  } else if (strcmp(verb, "kill") == 0) {
    raise(SIGKILL);
  } else if (strcmp(verb, "sleep") == 0) {
    usleep((useconds_t)atoi(word[0]) * 1000);
  } else if (strcmp(verb, "resume") == 0) {
    resume(word[0], 1);
  } else if (strcmp(verb, "resume0") == 0) {
    resume(word[0], 0);
  } else if (strcmp(verb, "record") == 0) {
    add_line(word[0]);
  } else if (words == 0) {
    collective(verb);
  } else {
    do_file_act(verb, word, words);
  }
}

int main(int argc, char** argv) {
  const char* threads = getenv("ACTS_THREADS");
  if (threads != NULL) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv,
                    strcmp(threads, "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
                    &provided);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int loop = 0;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "while ", 6) == 0) {
      loop = i;
      if (step >= atoi(argv[i] + 6)) {
        while (i < argc - 1 && strcmp(argv[i], "again") != 0) i++;
      } else {
        step++;
      }
    } else if (strcmp(argv[i], "again") == 0) {
      i = loop - 1;
    } else {
      do_act(argv[i]);
    }
  }
  join_thread();
  finalize();
  if (rank == 0) printf("DONE\n");
  return failures > 0;
}
