/* The calls of MPI by which a process can tell another one something. See shim.c. */
#include "vfd/preload/preload.h"

#include "vfd/mpiio/shim.h"

static int is_collective_point(MPI_Comm comm) {
  if (scr_hooks == NULL || scr_inside) return 0;
  scr_inside++;
  int result = scr_hooks->is_world(comm);
  scr_inside--;
  return result;
}

#define DEFINE_BARRIER(name)                                   \
  int name(MPI_Comm comm) {                                    \
    SCR_NEXT(name)                                             \
    scr_publish_first();                                       \
    const int ours = is_collective_point(comm);                \
    scr_inside++;                                              \
    int result = ours ? scr_hooks->barrier(comm) : next(comm); \
    scr_inside--;                                              \
    return result;                                             \
  }

DEFINE_BARRIER(MPI_Barrier)
DEFINE_BARRIER(PMPI_Barrier)

/* Blocking collective calls, whose last argument is the communicator: datasets are sealed there. */
#define DEFINE_COLLECTIVE(name, ...)                             \
  int name(SCR_PARAMETERS(__VA_ARGS__)) {                        \
    SCR_NEXT(name)                                               \
    scr_publish_first();                                         \
    const int ours = is_collective_point(SCR_LAST(__VA_ARGS__)); \
    scr_inside++;                                                \
    if (ours) scr_hooks->collective(SCR_LAST(__VA_ARGS__));      \
    int result = next(SCR_NAMES(__VA_ARGS__));                   \
    scr_inside--;                                                \
    return result;                                               \
  }

#define DEFINE_CALL(name, ...)            \
  int name(SCR_PARAMETERS(__VA_ARGS__)) { \
    SCR_NEXT(name)                        \
    scr_publish_first();                  \
    return next(SCR_NAMES(__VA_ARGS__));  \
  }

#define CALL(name, ...)                \
  DEFINE_CALL(MPI_##name, __VA_ARGS__) \
  DEFINE_CALL(PMPI_##name, __VA_ARGS__)
#include "vfd/mpiio/communication_calls.h"
#undef CALL

/* Calls with numbers of elements, which MPI-4 has in a second form. */
#define CALL(name, ...)                \
  DEFINE_CALL(MPI_##name, __VA_ARGS__) \
  DEFINE_CALL(PMPI_##name, __VA_ARGS__)
#define COLLECTIVE(name, ...)                \
  DEFINE_COLLECTIVE(MPI_##name, __VA_ARGS__) \
  DEFINE_COLLECTIVE(PMPI_##name, __VA_ARGS__)
#define COUNT int
#define DISPLACEMENT int
#include "vfd/mpiio/counting_calls.h"
#undef CALL
#undef COLLECTIVE
#undef COUNT
#undef DISPLACEMENT

#if MPI_VERSION >= 4
#define CALL(name, ...)                    \
  DEFINE_CALL(MPI_##name##_c, __VA_ARGS__) \
  DEFINE_CALL(PMPI_##name##_c, __VA_ARGS__)
#define COLLECTIVE(name, ...)                    \
  DEFINE_COLLECTIVE(MPI_##name##_c, __VA_ARGS__) \
  DEFINE_COLLECTIVE(PMPI_##name##_c, __VA_ARGS__)
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#include "vfd/mpiio/counting_calls.h"
#endif
