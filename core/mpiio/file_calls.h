/* MPI-IO on files that h5scr serves, as libscr offers it to the MPI layer (vfd/mpiio). Ours; not
 * installed.
 *
 * Functions are those of MPI, with a file of ours for the MPI_File; they call the file's error
 * handler themselves. The many forms of reading and writing are one function. */
#ifndef SCR_FILE_CALLS_H
#define SCR_FILE_CALLS_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One way to read or write, from one of each group. */
enum {
  SCR_READ = 0,
  SCR_WRITE = 1,

  SCR_EXPLICIT = 0, /* at an offset that is given */
  SCR_INDIVIDUAL = 2,
  SCR_SHARED = 4,
  SCR_POINTER = 6, /* mask */

  SCR_ALONE = 0,
  SCR_COLLECTIVE = 8 /* with SCR_SHARED: in the order of ranks */
};

typedef struct scr_open_file scr_open_file;

typedef struct scr_file_calls {
  /* How many files of ours are open: while it is 0, find need not be called. */
  const int* open_files;
  /* NULL: not a file of ours. */
  scr_open_file* (*find)(MPI_File handle);

  /* Opens any file, also one that is not ours, and also if start() has failed. */
  int (*open)(MPI_Comm, const char*, int, MPI_Info, MPI_File*);
  /* Deletes any file. */
  int (*remove)(const char*, MPI_Info);
  int (*close)(scr_open_file*, MPI_File*);

  int (*access)(scr_open_file*, int way, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Status*);
  int (*start)(scr_open_file*, int way, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Request*);
  int (*begin)(scr_open_file*, int way, MPI_Offset, void*, MPI_Count, MPI_Datatype);
  int (*end)(scr_open_file*, int way, MPI_Status*);

  int (*get_size)(scr_open_file*, MPI_Offset*);
  int (*set_size)(scr_open_file*, MPI_Offset);
  int (*preallocate)(scr_open_file*, MPI_Offset);
  int (*sync)(scr_open_file*);
  int (*get_group)(scr_open_file*, MPI_Group*);
  int (*get_amode)(scr_open_file*, int*);
  int (*set_info)(scr_open_file*, MPI_Info);
  int (*get_info)(scr_open_file*, MPI_Info*);
  int (*set_view)(scr_open_file*, MPI_Offset, MPI_Datatype, MPI_Datatype, const char*, MPI_Info);
  int (*get_view)(scr_open_file*, MPI_Offset*, MPI_Datatype*, MPI_Datatype*, char*);
  int (*seek)(scr_open_file*, MPI_Offset, int);
  int (*seek_shared)(scr_open_file*, MPI_Offset, int);
  int (*get_position)(scr_open_file*, MPI_Offset*);
  int (*get_position_shared)(scr_open_file*, MPI_Offset*);
  int (*get_byte_offset)(scr_open_file*, MPI_Offset, MPI_Offset*);
  int (*set_atomicity)(scr_open_file*, int);
  int (*get_atomicity)(scr_open_file*, int*);
} scr_file_calls;

/* The rest (get_type_extent, error handlers, f2c) is MPI's, on the handle. */

#ifdef __cplusplus
}
#endif

#endif
