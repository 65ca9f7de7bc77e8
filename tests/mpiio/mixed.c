/* Files of communicators with processes that h5scr does not serve; it knows nothing of h5scr.
 *
 *   mpirun -n 2 mixed FILE : -n 1 mixed FILE      two programs in one launch
 *   mpirun -n 2 mixed FILE spawn                  a child, which is of another world
 *
 * Three processes write FILE together, the first of the launch FILE.first with the third, and the
 * first two FILE.two. Prints DONE. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kBlock = 1000 };

static int rank;

static void must(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "WRONG rank %d cannot %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void write_file(MPI_Comm comm, const char* name, const char* suffix) {
  char path[4096], bytes[kBlock], next[kBlock];
  int size = 0, place = 0;
  MPI_File file = MPI_FILE_NULL;
  snprintf(path, sizeof path, "%s%s", name, suffix);
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &size);
  must(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
  memset(bytes, 'a' + rank, sizeof bytes);
  must(MPI_File_write_at_all(file, (MPI_Offset)kBlock * place, bytes, kBlock, MPI_BYTE,
                             MPI_STATUS_IGNORE),
       "write");
  must(MPI_File_sync(file), "sync");
  MPI_Barrier(comm);
  must(MPI_File_sync(file), "sync");
  const int other = (place + 1) % size;
  must(
      MPI_File_read_at(file, (MPI_Offset)kBlock * other, next, kBlock, MPI_BYTE, MPI_STATUS_IGNORE),
      "read");
  must(next[0] != bytes[0] && next[0] >= 'a' && next[0] <= 'c' ? MPI_SUCCESS : MPI_ERR_IO,
       "find what the next one wrote");
  must(MPI_File_close(&file), "close");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm parent = MPI_COMM_NULL, child = MPI_COMM_NULL, all = MPI_COMM_WORLD, part;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    MPI_Intercomm_merge(parent, 1, &all);
  } else if (argc > 2) {
    char* arguments[] = {argv[1], NULL};
    must(MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child,
                        MPI_ERRCODES_IGNORE),
         "spawn");
    MPI_Intercomm_merge(child, 0, &all);
  }
  MPI_Comm_rank(all, &rank);
  write_file(all, argv[1], "");
  /* As many processes as the program has, but others. */
  MPI_Comm_split(all, rank == 1 ? MPI_UNDEFINED : 0, rank, &part);
  if (part != MPI_COMM_NULL) {
    for (int i = 0; i < 3; i++) MPI_Barrier(part);
    write_file(part, argv[1], ".first");
    MPI_Comm_free(&part);
  }
  MPI_Comm_split(all, rank == 2 ? MPI_UNDEFINED : 0, rank, &part);
  if (part != MPI_COMM_NULL) {
    write_file(part, argv[1], ".two");
    MPI_Comm_free(&part);
  }
  MPI_Barrier(all);
  if (rank == 0) printf("DONE\n");
  if (child != MPI_COMM_NULL) MPI_Comm_disconnect(&child);
  if (parent != MPI_COMM_NULL) MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return 0;
}
