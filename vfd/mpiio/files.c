/* MPI-IO: files that h5scr serves go to libscr (core/mpiio), all others to MPI. See shim.c. */
#include "vfd/preload/preload.h"

#include "vfd/mpiio/shim.h"

/* NULL: not a file of ours. A call on another file may tell another process something, too. */
static scr_open_file* find(MPI_File file) {
  scr_open_file* found = NULL;
  if (__atomic_load_n(scr_open_files, __ATOMIC_RELAXED) != 0 && !scr_inside)
    found = scr_hooks->files->find(file);
  if (found == NULL) scr_publish_first();
  return found;
}

/* `call` is a member of the table, with its arguments; other files go on to MPI. */
#define DEFINE(name, file, call, ...)                      \
  int name(SCR_PARAMETERS(__VA_ARGS__)) {                  \
    SCR_NEXT(name)                                         \
    scr_open_file* const ours = find(file);                \
    if (ours == NULL) return next(SCR_NAMES(__VA_ARGS__)); \
    scr_inside++;                                          \
    int result = scr_hooks->files->call;                   \
    scr_inside--;                                          \
    return result;                                         \
  }

/* Arguments are named a, b, c, ... (shim.h). */
#define CALL(name, call, ...)              \
  DEFINE(MPI_##name, a, call, __VA_ARGS__) \
  DEFINE(PMPI_##name, a, call, __VA_ARGS__)

CALL(File_get_size, get_size(ours, b), MPI_File, MPI_Offset*)
CALL(File_set_size, set_size(ours, b), MPI_File, MPI_Offset)
CALL(File_preallocate, preallocate(ours, b), MPI_File, MPI_Offset)
CALL(File_sync, sync(ours), MPI_File)
CALL(File_get_group, get_group(ours, b), MPI_File, MPI_Group*)
CALL(File_get_amode, get_amode(ours, b), MPI_File, int*)
CALL(File_set_info, set_info(ours, b), MPI_File, MPI_Info)
CALL(File_get_info, get_info(ours, b), MPI_File, MPI_Info*)
CALL(File_set_view, set_view(ours, b, c, d, e, f), MPI_File, MPI_Offset, MPI_Datatype, MPI_Datatype,
     const char*, MPI_Info)
CALL(File_get_view, get_view(ours, b, c, d, e), MPI_File, MPI_Offset*, MPI_Datatype*, MPI_Datatype*,
     char*)
CALL(File_seek, seek(ours, b, c), MPI_File, MPI_Offset, int)
CALL(File_seek_shared, seek_shared(ours, b, c), MPI_File, MPI_Offset, int)
CALL(File_get_position, get_position(ours, b), MPI_File, MPI_Offset*)
CALL(File_get_position_shared, get_position_shared(ours, b), MPI_File, MPI_Offset*)
CALL(File_get_byte_offset, get_byte_offset(ours, b, c), MPI_File, MPI_Offset, MPI_Offset*)
CALL(File_set_atomicity, set_atomicity(ours, b), MPI_File, int)
CALL(File_get_atomicity, get_atomicity(ours, b), MPI_File, int*)

DEFINE(MPI_File_close, *a, close(ours, a), MPI_File*)
DEFINE(PMPI_File_close, *a, close(ours, a), MPI_File*)

/* Whether a file is ours is found out by opening it. */
#define DEFINE_BY_NAME(name, hooks, call, ...)                            \
  int name(SCR_PARAMETERS(__VA_ARGS__)) {                                 \
    SCR_NEXT(name)                                                        \
    scr_publish_first();                                                  \
    const scr_mpi_hooks* const table = hooks;                             \
    if (table == NULL || scr_inside) return next(SCR_NAMES(__VA_ARGS__)); \
    scr_inside++;                                                         \
    int result = table->files->call(SCR_NAMES(__VA_ARGS__));              \
    scr_inside--;                                                         \
    return result;                                                        \
  }

#define OPENERS (scr_hooks != NULL ? scr_hooks : scr_unserved)
DEFINE_BY_NAME(MPI_File_open, OPENERS, open, MPI_Comm, const char*, int, MPI_Info, MPI_File*)
DEFINE_BY_NAME(PMPI_File_open, OPENERS, open, MPI_Comm, const char*, int, MPI_Info, MPI_File*)
DEFINE_BY_NAME(MPI_File_delete, scr_hooks, remove, const char*, MPI_Info)
DEFINE_BY_NAME(PMPI_File_delete, scr_hooks, remove, const char*, MPI_Info)

/* --- reading and writing -------------------------------------------------------------------------
 * Each name in two forms, for the type of the number of elements. */
#define AT(name, way, BUFFER)                                                                  \
  COUNTING(name, access(ours, way, b, (void*)c, d, e, f), MPI_File, MPI_Offset, BUFFER, COUNT, \
           MPI_Datatype, MPI_Status*)
#define BY_POINTER(name, way, BUFFER)                                                            \
  COUNTING(name, access(ours, way, 0, (void*)b, c, d, e), MPI_File, BUFFER, COUNT, MPI_Datatype, \
           MPI_Status*)
#define START_AT(name, way, BUFFER)                                                           \
  COUNTING(name, start(ours, way, b, (void*)c, d, e, f), MPI_File, MPI_Offset, BUFFER, COUNT, \
           MPI_Datatype, MPI_Request*)
#define START(name, way, BUFFER)                                                                \
  COUNTING(name, start(ours, way, 0, (void*)b, c, d, e), MPI_File, BUFFER, COUNT, MPI_Datatype, \
           MPI_Request*)
#define BEGIN_AT(name, way, BUFFER)                                                        \
  COUNTING(name, begin(ours, way, b, (void*)c, d, e), MPI_File, MPI_Offset, BUFFER, COUNT, \
           MPI_Datatype)
#define BEGIN(name, way, BUFFER) \
  COUNTING(name, begin(ours, way, 0, (void*)b, c, d), MPI_File, BUFFER, COUNT, MPI_Datatype)

#define COUNTING CALL
#define COUNT int
#include "vfd/mpiio/access_calls.h"
#if MPI_VERSION >= 4
#undef COUNTING
#undef COUNT
#define COUNTING(name, ...) CALL(name##_c, __VA_ARGS__)
#define COUNT MPI_Count
#include "vfd/mpiio/access_calls.h"
#endif

#define END(name, way, BUFFER) CALL(name, end(ours, way, c), MPI_File, BUFFER, MPI_Status*)
END(File_read_at_all_end, SCR_READ | SCR_EXPLICIT | SCR_COLLECTIVE, void*)
END(File_read_all_end, SCR_READ | SCR_INDIVIDUAL | SCR_COLLECTIVE, void*)
END(File_read_ordered_end, SCR_READ | SCR_SHARED | SCR_COLLECTIVE, void*)
END(File_write_at_all_end, SCR_WRITE | SCR_EXPLICIT | SCR_COLLECTIVE, const void*)
END(File_write_all_end, SCR_WRITE | SCR_INDIVIDUAL | SCR_COLLECTIVE, const void*)
END(File_write_ordered_end, SCR_WRITE | SCR_SHARED | SCR_COLLECTIVE, const void*)
