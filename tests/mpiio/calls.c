/* What the standard says of MPI-IO, call by call, on FILE: errors and their handlers, ends of
 * files, modes, pointers, hints. Prints a line for each thing that is not so, and at the end DONE.
 *
 *   mpirun -n N calls FILE [SCHEME]     (N >= 2; SCHEME: redundancy that is in force, SINGLE on one
 * node) */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, wrong;
static const char* name;
static const char* scheme = "SINGLE";

static void expect_at(int line, const char* text, int true) {
  if (true) return;
  wrong++;
  printf("WRONG on rank %d, line %d: %s\n", rank, line, text);
}
#define EXPECT(condition) expect_at(__LINE__, #condition, condition)
#define OK(call) expect_at(__LINE__, #call, (call) == MPI_SUCCESS)

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}
#define FAILS(call, class) expect_at(__LINE__, #call " must give " #class, class_of(call) == class)

static MPI_File open_file(int amode) {
  MPI_File file = MPI_FILE_NULL;
  OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
  return file;
}

static int bytes_of(MPI_Status* status) {
  int bytes = -1;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  return bytes;
}

/* A file of `length` bytes, each its own number. */
static void make_file(int length) {
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_WRONLY);
  OK(MPI_File_set_size(file, 0));
  unsigned char* bytes = malloc((size_t)length + 1);
  for (int i = 0; i < length; i++) bytes[i] = (unsigned char)i;
  if (rank == 0) OK(MPI_File_write(file, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
  free(bytes);
  OK(MPI_File_close(&file));
  EXPECT(file == MPI_FILE_NULL);
}

static void remove_file(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void opening(void) {
  MPI_File file = (MPI_File)-1;
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
        MPI_ERR_NO_SUCH_FILE);
  EXPECT(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL,
                       &file) != MPI_SUCCESS);
  make_file(10);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                      MPI_INFO_NULL, &file),
        MPI_ERR_FILE_EXISTS);
  remove_file();
  if (rank == 0) FAILS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
  file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE |
                   MPI_MODE_UNIQUE_OPEN);
  int amode = 0;
  OK(MPI_File_get_amode(file, &amode));
  EXPECT(amode == (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE |
                   MPI_MODE_UNIQUE_OPEN));
  OK(MPI_File_close(&file));
  MPI_Barrier(MPI_COMM_WORLD);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
        MPI_ERR_NO_SUCH_FILE);
}

static void access_modes(void) {
  make_file(10);
  char byte = 0;
  MPI_Offset number = 0;
  MPI_File file = open_file(MPI_MODE_RDONLY);
  FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  FAILS(MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  FAILS(MPI_File_set_size(file, 3), MPI_ERR_READ_ONLY);
  OK(MPI_File_get_size(file, &number));
  EXPECT(number == 10);
  OK(MPI_File_close(&file));

  file = open_file(MPI_MODE_WRONLY);
  FAILS(MPI_File_read(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  FAILS(MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  FAILS(MPI_File_write_at(file, 0, &byte, -1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
  FAILS(MPI_File_write_at(file, 0, &byte, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
  FAILS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL),
        MPI_ERR_UNSUPPORTED_DATAREP);
  OK(MPI_File_close(&file));
  remove_file();
}

/* Only shared pointers, one way or the other. */
static void sequential(void) {
  make_file(10);
  char bytes[4] = {'a', 'b', 'c', 'd'};
  MPI_Offset number = 0;
  MPI_File file = open_file(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
  FAILS(MPI_File_write(file, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
  FAILS(MPI_File_write_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE),
        MPI_ERR_UNSUPPORTED_OPERATION);
  FAILS(MPI_File_get_position(file, &number), MPI_ERR_UNSUPPORTED_OPERATION);
  FAILS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
  OK(MPI_File_write_ordered(file, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_SHORT, MPI_SHORT, "native",
                       MPI_INFO_NULL));
  OK(MPI_File_write_ordered(file, bytes, 1, MPI_SHORT, MPI_STATUS_IGNORE));
  MPI_Datatype etype, filetype;
  char representation[MPI_MAX_DATAREP_STRING];
  OK(MPI_File_get_view(file, &number, &etype, &filetype, representation));
  EXPECT(number == size && etype == MPI_SHORT && strcmp(representation, "native") == 0);
  OK(MPI_File_close(&file));
  char all[1000];
  file = open_file(MPI_MODE_RDONLY);
  OK(MPI_File_read_at_all(file, 0, all, 3 * size, MPI_BYTE, MPI_STATUS_IGNORE));
  for (int i = 0; i < size; i++) {
    EXPECT(all[i] == 'a' && all[size + 2 * i] == 'a' && all[size + 2 * i + 1] == 'b');
  }
  OK(MPI_File_close(&file));
  remove_file();
}

/* Reads that reach the end. */
static void ends(void) {
  make_file(100);
  MPI_File file = open_file(MPI_MODE_RDWR);
  unsigned char bytes[64];
  MPI_Status status;
  memset(bytes, 255, sizeof bytes);
  OK(MPI_File_read_at(file, 90, bytes, 20, MPI_BYTE, &status));
  EXPECT(bytes_of(&status) == 10 && bytes[9] == 99 && bytes[10] == 255);
  OK(MPI_File_read_at_all(file, 200, bytes, 20, MPI_BYTE, &status));
  EXPECT(bytes_of(&status) == 0 && bytes[0] == 90);
  /* Every other four bytes: 88..91, 96..99, and no more. */
  MPI_Datatype vector, tile;
  MPI_Type_contiguous(4, MPI_BYTE, &vector);
  MPI_Type_create_resized(vector, 0, 8, &tile);
  MPI_Type_commit(&tile);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, tile, "native", MPI_INFO_NULL));
  MPI_Type_free(&vector);
  MPI_Type_free(&tile);
  memset(bytes, 255, sizeof bytes);
  OK(MPI_File_seek(file, -6, MPI_SEEK_END));
  MPI_Offset at = 0, byte = 0;
  OK(MPI_File_get_position(file, &at));
  OK(MPI_File_get_byte_offset(file, at, &byte));
  EXPECT(at == 46 && byte == 90);
  OK(MPI_File_read(file, bytes, 12, MPI_BYTE, &status));
  EXPECT(bytes_of(&status) == 6 && bytes[0] == 90 && bytes[2] == 96 && bytes[5] == 99 &&
         bytes[6] == 255);
  OK(MPI_File_get_position(file, &at));
  EXPECT(at == 58);
  FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  /* Far away: holes are zero, offsets have 64 bits. */
  OK(MPI_File_set_view(file, 5000000000LL, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
  OK(MPI_File_write_at(file, rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  int other = -1;
  OK(MPI_File_read_at(file, (rank + 1) % size, &other, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT(other == (rank + 1) % size);
  OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  OK(MPI_File_read_at(file, 1000000000, &other, 1, MPI_INT, &status));
  EXPECT(other == 0 && bytes_of(&status) == 4);
  MPI_Offset length = 0;
  OK(MPI_File_get_size(file, &length));
  EXPECT(length == 5000000000LL + 4 * size);
  /* Not a whole number of etypes. */
  FAILS(MPI_File_read_at(file, 0, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
  OK(MPI_File_set_size(file, 8));
  OK(MPI_File_get_size(file, &length));
  EXPECT(length == 8);
  OK(MPI_File_close(&file));

  file = open_file(MPI_MODE_RDWR | MPI_MODE_APPEND);
  OK(MPI_File_get_position(file, &at));
  EXPECT(at == 8);
  OK(MPI_File_get_position_shared(file, &at));
  EXPECT(at == 8);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  OK(MPI_File_get_size(file, &length));
  EXPECT(length == 8 + 4 * size);
  OK(MPI_File_close(&file));
  remove_file();
}

static MPI_File told_file;
static int told_code, told_count;

static void handler(MPI_File* file, int* code, ...) {
  told_file = *file;
  told_code = *code;
  told_count++;
}

static void error_handlers(void) {
  make_file(10);
  MPI_Errhandler mine, now;
  MPI_File_create_errhandler(handler, &mine);
  char byte = 0;
  MPI_File file = open_file(MPI_MODE_RDONLY);
  OK(MPI_File_set_errhandler(file, mine));
  FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  EXPECT(told_count == 1 && told_file == file && class_of(told_code) == MPI_ERR_READ_ONLY);
  OK(MPI_File_get_errhandler(file, &now));
  EXPECT(now == mine);
  MPI_Errhandler_free(&now);
  /* The number that Fortran knows it by is one and the same file. */
  MPI_File again = MPI_File_f2c(MPI_File_c2f(file));
  MPI_Offset length = 0;
  OK(MPI_File_get_size(again, &length));
  EXPECT(again == file && length == 10);
  OK(MPI_File_close(&file));
  /* Files inherit the handler of MPI_FILE_NULL, which also learns of failed opens. */
  MPI_File_set_errhandler(MPI_FILE_NULL, mine);
  told_count = 0;
  FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/place", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
        MPI_ERR_NO_SUCH_FILE);
  EXPECT(told_count == 1);
  file = open_file(MPI_MODE_RDONLY);
  told_count = 0;
  FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  EXPECT(told_count == 1);
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
#ifndef MPICH_VERSION /* MPICH 4.0 forgets to count the file that inherited it, and would free it \
                         twice */
  MPI_Errhandler_free(&mine);
#endif
  OK(MPI_File_close(&file));
  remove_file();
}

/* A failure on one rank of a collective call leaves no other waiting. */
static void failures_of_one(void) {
  make_file(100);
  MPI_File file = open_file(MPI_MODE_RDWR);
  int four[4] = {rank, rank, rank, rank};
  const MPI_Datatype type = rank == 1 ? MPI_DATATYPE_NULL : MPI_INT;
  EXPECT((MPI_File_write_ordered(file, four, 1, type, MPI_STATUS_IGNORE) == MPI_SUCCESS) ==
         (rank != 1));
  EXPECT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, rank == 1 ? "no" : "native",
                           MPI_INFO_NULL) != MPI_SUCCESS);
  FAILS(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
  /* Split calls: one at a time. */
  MPI_Status status;
  OK(MPI_File_write_at_all_begin(file, 16 * rank, four, 4, MPI_INT));
  EXPECT(MPI_File_write_all_begin(file, four, 4, MPI_INT) != MPI_SUCCESS);
  EXPECT(MPI_File_write_all_end(file, four, &status) != MPI_SUCCESS);
  OK(MPI_File_write_at_all_end(file, four, &status));
  EXPECT(bytes_of(&status) == 16);
  EXPECT(MPI_File_write_at_all_end(file, four, &status) != MPI_SUCCESS);
  OK(MPI_File_close(&file));
  remove_file();
}

static void requests(void) {
  make_file(0);
  MPI_File file = open_file(MPI_MODE_RDWR);
  int numbers[8];
  MPI_Request all[8];
  MPI_Status statuses[8];
  for (int i = 0; i < 8; i++) {
    numbers[i] = 100 * rank + i;
    OK(MPI_File_iwrite_at(file, 4 * (8 * rank + i), &numbers[i], 1, MPI_INT, &all[i]));
  }
  OK(MPI_Waitall(8, all, statuses));
  for (int i = 0; i < 8; i++) EXPECT(all[i] == MPI_REQUEST_NULL && bytes_of(&statuses[i]) == 4);
  int other = (rank + 1) % size;
  MPI_Barrier(MPI_COMM_WORLD);
  /* Together with a message. */
  int token = -1;
  OK(MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &all[0]));
  OK(MPI_File_iread_at(file, 4 * 8 * other, numbers, 8, MPI_INT, &all[1]));
  OK(MPI_Send(&rank, 1, MPI_INT, other, 0, MPI_COMM_WORLD));
  int flag = 0;
  for (long i = 0; i < 100000000 && !flag; i++) OK(MPI_Testall(2, all, &flag, statuses));
  EXPECT(flag && bytes_of(&statuses[1]) == 32 && token == (rank + size - 1) % size);
  for (int i = 0; i < 8; i++) EXPECT(numbers[i] == 100 * other + i);
  OK(MPI_File_close(&file));
  remove_file();
}

/* Atomic mode: a read sees all of a write or nothing of it. */
static void atomicity(void) {
  make_file(0);
  MPI_File file = open_file(MPI_MODE_RDWR);
  int flag = -1;
  OK(MPI_File_get_atomicity(file, &flag));
  EXPECT(flag == 0);
  OK(MPI_File_set_atomicity(file, 1));
  OK(MPI_File_get_atomicity(file, &flag));
  EXPECT(flag == 1);
  enum { kNumbers = 20000 };
  int* numbers = malloc(sizeof(int) * kNumbers);
  MPI_Datatype every_other;
  MPI_Type_vector(kNumbers, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  OK(MPI_File_set_view(file, 0, MPI_INT, every_other, "native", MPI_INFO_NULL));
  MPI_Type_free(&every_other);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < kNumbers; i++) numbers[i] = 1000 * round + rank;
    OK(MPI_File_write_at(file, 0, numbers, kNumbers, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, numbers, kNumbers, MPI_INT, MPI_STATUS_IGNORE));
    int same = 1;
    for (int i = 1; i < kNumbers; i++) same = same && numbers[i] == numbers[0];
    EXPECT(same);
  }
  free(numbers);
  OK(MPI_File_close(&file));
  remove_file();
}

static void hints(void) {
  MPI_Info info, now;
  MPI_Info_create(&info);
  MPI_Info_set(info, "scr_type", "CKPT");
  MPI_Info_set(info, "scr_no_such_hint", "1");
  MPI_Info_set(info, "scr_copy_type", "XOR");
  MPI_Info_set(info, "scr_set_size", "17");
  MPI_Info_set(info, "scr_flush", "false");
  MPI_Info_set(info, "scr_order", "sometimes");
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
  OK(MPI_File_get_info(file, &now));
  char value[32] = "";
  int flag = 0;
  MPI_Info_get(now, "scr_type", 31, value, &flag);
  EXPECT(flag && strcmp(value, "CKPT") == 0);
  MPI_Info_get(now, "scr_copy_type", 31, value, &flag);
  EXPECT(flag && strcmp(value, scheme) == 0); /* what is in force, whatever was wished */
  MPI_Info_free(&now);
  OK(MPI_File_set_info(file, info));
  OK(MPI_File_close(&file));
  remove_file();
  /* No such type: as if it were not there. */
  MPI_Info_set(info, "scr_type", "FOO");
  OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
  OK(MPI_File_get_info(file, &now));
  MPI_Info_get(now, "scr_type", 31, value, &flag);
  EXPECT(flag && strcmp(value, "CKPT") == 0);
  MPI_Info_free(&now);
  OK(MPI_File_close(&file));
  remove_file();
  /* Not routed at all: MPI's own file, which knows none of our hints. */
  MPI_Info_delete(info, "scr_copy_type");
  MPI_Info_set(info, "scr_type", "BYPASS");
  OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
  OK(MPI_File_get_info(file, &now));
  MPI_Info_get(now, "scr_copy_type", 31, value, &flag);
  EXPECT(!flag);
  MPI_Info_free(&now);
  MPI_Info_free(&info);
  OK(MPI_File_close(&file));
  EXPECT(access(name, F_OK) == 0);
  remove_file();
}

/* An empty view, and one whose parts are of no use. */
static void odd_views(void) {
  make_file(100);
  MPI_File file = open_file(MPI_MODE_RDWR);
  MPI_Datatype empty, backwards;
  MPI_Type_contiguous(0, MPI_BYTE, &empty);
  MPI_Type_commit(&empty);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, empty, "native", MPI_INFO_NULL));
  MPI_Type_free(&empty);
  char bytes[4];
  MPI_Status status;
  OK(MPI_File_read_at_all(file, 0, bytes, 0, MPI_BYTE, &status));
  EXPECT(bytes_of(&status) == 0);
  EXPECT(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, &status) != MPI_SUCCESS);
  const int at[2] = {8, 0};
  MPI_Type_create_indexed_block(2, 4, at, MPI_BYTE, &backwards);
  MPI_Type_commit(&backwards);
  EXPECT(MPI_File_set_view(file, 0, MPI_BYTE, backwards, "native", MPI_INFO_NULL) != MPI_SUCCESS);
  MPI_Type_free(&backwards);
  EXPECT(MPI_File_set_view(file, -7, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) != MPI_SUCCESS);
  OK(MPI_File_close(&file));
  remove_file();
}

/* Some write and sync, and keep the file open; the last rank opens it by itself and reads. */
static void read_while_open(void) {
  const int reads = rank == size - 1;
  MPI_Comm group;
  MPI_Comm_split(MPI_COMM_WORLD, reads, rank, &group);
  MPI_File file = MPI_FILE_NULL;
  for (int round = 1; round <= 4; round++) {
    char mine[100], seen[100];
    memset(mine, 16 * round + rank, sizeof mine);
    if (!reads) {
      if (round == 1)
        OK(MPI_File_open(group, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
      OK(MPI_File_write_at(file, 100 * rank, mine, 100, MPI_BYTE, MPI_STATUS_IGNORE));
      OK(MPI_File_sync(file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (reads) {
      OK(MPI_File_open(group, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
      for (int writer = 0; writer < size - 1; writer++) {
        MPI_Status status;
        OK(MPI_File_read_at(file, 100 * writer, seen, 100, MPI_BYTE, &status));
        memset(mine, 16 * round + writer, sizeof mine);
        EXPECT(bytes_of(&status) == 100 && memcmp(seen, mine, sizeof seen) == 0);
      }
      OK(MPI_File_close(&file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (!reads) OK(MPI_File_close(&file));
  MPI_Comm_free(&group);
  remove_file();
}

enum { kBlock = 100 };

static void write_block(MPI_File file, int block) {
  char bytes[kBlock];
  memset(bytes, 'a' + block, sizeof bytes);
  OK(MPI_File_write_at(file, kBlock * block, bytes, kBlock, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void expect_blocks(MPI_File file, int count) {
  char bytes[kBlock], expected[kBlock];
  MPI_Offset length = 0;
  OK(MPI_File_get_size(file, &length));
  EXPECT(length == kBlock * count);
  for (int block = 0; block < count; block++) {
    memset(expected, 'a' + block, sizeof expected);
    OK(MPI_File_read_at(file, kBlock * block, bytes, kBlock, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(memcmp(bytes, expected, kBlock) == 0);
  }
}

static void expect_file_of_blocks(int count) {
  MPI_File file = open_file(MPI_MODE_RDONLY);
  expect_blocks(file, count);
  OK(MPI_File_close(&file));
}

static MPI_Comm group_of(int first, int second) {
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == first || rank == second ? 1 : MPI_UNDEFINED, rank, &group);
  return group;
}

/* Groups that do not know of each other: one has the file at a time, and nobody's bytes get lost.
 */
static void two_groups(void) {
  MPI_Comm group;
  const int second = rank >= 2;
  MPI_Comm_split(MPI_COMM_WORLD, second, rank, &group);
  const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  MPI_File file = MPI_FILE_NULL;
  if (!second) OK(MPI_File_open(group, name, amode, MPI_INFO_NULL, &file));
  MPI_Barrier(MPI_COMM_WORLD);
  if (second) FAILS(MPI_File_open(group, name, amode, MPI_INFO_NULL, &file), MPI_ERR_FILE_IN_USE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!second) {
    write_block(file, rank);
    OK(MPI_File_close(&file));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (second) {
    OK(MPI_File_open(group, name, amode, MPI_INFO_NULL, &file));
    write_block(file, rank);
    OK(MPI_File_close(&file));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_file_of_blocks(size);
  MPI_Comm_free(&group);
  remove_file();
}

static void token(int from, int to) {
  if (rank == from) MPI_Send(NULL, 0, MPI_BYTE, to, 1, MPI_COMM_WORLD);
  if (rank == to) MPI_Recv(NULL, 0, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Other ranks go on with a file before all ranks have met since. */
static void handed_on(void) {
  if (size < 3) return;
  MPI_Comm first = group_of(0, 1), second = group_of(1, 2), third = group_of(0, 2);
  MPI_File file = MPI_FILE_NULL;
  if (first != MPI_COMM_NULL) {
    OK(MPI_File_open(first, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    write_block(file, rank);
    OK(MPI_File_close(&file));
  }
  if (second != MPI_COMM_NULL) {
    OK(MPI_File_open(second, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    expect_blocks(file, 2);
    MPI_Barrier(second);
    if (rank == 2) write_block(file, 2);
    MPI_Barrier(second);
    expect_blocks(file, 3);
    OK(MPI_File_close(&file));
  }
  token(2, 0);
  /* Nothing is changed: the version before stays. */
  if (third != MPI_COMM_NULL) {
    OK(MPI_File_open(third, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    expect_blocks(file, 3);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(third, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (rank == 0) write_block(file, 3);
    OK(MPI_File_close(&file));
  }
  token(0, 1);
  if (second != MPI_COMM_NULL) {
    OK(MPI_File_open(second, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    expect_blocks(file, 4);
    OK(MPI_File_close(&file));
  }
  /* The first two again, who do not have what the last one did by itself. */
  if (rank == 2) {
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    write_block(file, 4);
    OK(MPI_File_close(&file));
  }
  token(2, 0);
  token(2, 1);
  if (first != MPI_COMM_NULL) {
    OK(MPI_File_open(first, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (rank == 0) write_block(file, 5);
    OK(MPI_File_close(&file));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_file_of_blocks(6);
  if (first != MPI_COMM_NULL) MPI_Comm_free(&first);
  if (second != MPI_COMM_NULL) MPI_Comm_free(&second);
  if (third != MPI_COMM_NULL) MPI_Comm_free(&third);
  remove_file();
}

#if MPI_VERSION >= 4
static void large_counts(void) {
  make_file(100);
  MPI_File file = open_file(MPI_MODE_RDWR);
  unsigned char bytes[8];
  MPI_Status status;
  OK(MPI_File_read_at_c(file, 50, bytes, 8, MPI_BYTE, &status));
  EXPECT(bytes_of(&status) == 8 && bytes[7] == 57);
  OK(MPI_File_write_at_all_c(file, 8 * rank, bytes, 8, MPI_BYTE, &status));
  OK(MPI_File_close(&file));
  remove_file();
}
#endif

static void all_ranks(void) {
  opening();
  access_modes();
  sequential();
  ends();
  error_handlers();
  failures_of_one();
  requests();
  atomicity();
  hints();
  odd_views();
  read_while_open();
#if MPI_VERSION >= 4
  large_counts();
#endif
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  name = argv[1];
  if (argc > 2) scheme = argv[2];
  all_ranks();
  two_groups();
  handed_on();
  int all = 0;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("DONE\n");
  MPI_Finalize();
  return wrong != 0;
}
