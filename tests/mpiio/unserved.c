/* Opens a file whose data is in the cache by processes that h5scr does not serve; it knows nothing
 * of h5scr.
 *
 *   unserved FILE write             all processes write FILE, and each one FILE.<rank>
 *   unserved FILE refused           opens of FILE fail with MPI_ERR_IO, for reading and for writing
 *   mpirun -n 2 unserved FILE first : -n 2 unserved FILE second     the first program writes FILE
 *                                   (bare: one without the preload)
 *   unserved FILE spawn             the same for children of the program, and for both together
 *
 * Prints DONE. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kBlock = 5000 };

static int rank;
static int wrong;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void write_file(MPI_Comm comm, const char* name) {
  MPI_File file = MPI_FILE_NULL;
  char bytes[kBlock];
  int place = 0;
  MPI_Comm_rank(comm, &place);
  must(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
  memset(bytes, 'a' + rank, sizeof bytes);
  must(MPI_File_write_at_all(file, (MPI_Offset)kBlock * place, bytes, kBlock, MPI_BYTE,
                             MPI_STATUS_IGNORE),
       "write");
  must(MPI_File_close(&file), "close");
}

static void is_refused_as(MPI_Comm comm, const char* name, int amode, const char* by, int any) {
  MPI_File file = MPI_FILE_NULL;
  int class = MPI_SUCCESS;
  const int result = MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file);
  if (result != MPI_SUCCESS) MPI_Error_class(result, &class);
  if (class == MPI_ERR_IO || (any && result != MPI_SUCCESS)) return;
  fprintf(stderr, "WRONG rank %d opens '%s' by %s with mode %d: class %d\n", rank, name, by, amode,
          class);
  wrong = 1;
}

static void is_refused(MPI_Comm comm, const char* name, const char* by, int any) {
  is_refused_as(comm, name, MPI_MODE_RDONLY, by, any);
  is_refused_as(comm, name, MPI_MODE_RDWR, by, any);
  is_refused_as(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, by, any);
}

static void spawn(const char* program, const char* name) {
  MPI_Comm parent = MPI_COMM_NULL, other = MPI_COMM_NULL, all = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    char* arguments[] = {(char*)name, "spawn", NULL};
    write_file(MPI_COMM_WORLD, name);
    must(MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                        MPI_ERRCODES_IGNORE),
         "spawn");
  } else {
    other = parent;
    is_refused(MPI_COMM_WORLD, name, "children", 0);
  }
  MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &all);
  MPI_Comm_rank(all, &rank);
  is_refused(all, name, "parents and children", 0);
  MPI_Barrier(all);
  MPI_Comm_disconnect(&other);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* name = argv[1];
  const char* what = argc > 2 ? argv[2] : "";
  const int bare = strcmp(what, "bare") == 0;
  if (strcmp(what, "write") == 0) {
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", name, rank);
    write_file(MPI_COMM_SELF, own);
    write_file(MPI_COMM_WORLD, name);
  } else if (strcmp(what, "refused") == 0) {
    is_refused(MPI_COMM_WORLD, name, "all", 0);
  } else if (strcmp(what, "spawn") == 0) {
    spawn(argv[0], name);
  } else {
    MPI_Comm program;
    const int first = strcmp(what, "first") == 0;
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &program);
    if (first) write_file(program, name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!first && !bare) is_refused(program, name, "the second program", 0);
    if (!first && !bare) is_refused(MPI_COMM_SELF, name, "one of the second program", 0);
    MPI_Barrier(MPI_COMM_WORLD);
    is_refused(MPI_COMM_WORLD, name, "both programs", bare);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&program);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && !wrong) printf("DONE\n");
  MPI_Finalize();
  return wrong;
}
