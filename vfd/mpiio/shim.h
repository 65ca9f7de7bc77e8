/* What the parts of libscr_mpiio share: the functions of MPI behind it, libscr's table, and macros
 * that define a wrapper under both of its names, MPI_X and PMPI_X. */
#ifndef SCR_MPIIO_SHIM_H
#define SCR_MPIIO_SHIM_H

#include <mpi.h>

#include "core/api/mpi_hooks.h"

#pragma GCC visibility push(hidden)

/* The definition of `name` in the libraries after this one. */
void* scr_mpi_next(const char* name);

extern const scr_mpi_hooks* scr_hooks;    /* NULL: all passes through */
extern const scr_mpi_hooks* scr_unserved; /* but opens, of a process that is not served */
extern __thread int scr_inside;           /* a call of MPI or of h5scr, not the program's own */
extern const unsigned long*
    scr_unpublished;              /* as in scr_hooks; points to a zero if there are none */
extern const int* scr_open_files; /* the same */

void scr_publish(void);

#pragma GCC visibility pop

/* To be called before anything that could tell another process something: what this process wrote
 * to shared files must be visible to all by then. Costs a load and a branch. */
static inline void scr_publish_first(void) {
  if (__builtin_expect(__atomic_load_n(scr_unpublished, __ATOMIC_RELAXED) != 0, 0)) scr_publish();
}

/* A pointer `next` to the function `name` of MPI. Two threads may both look it up, and find the
 * same. */
#define SCR_NEXT(name)                                                \
  static __typeof__(&name) found;                                     \
  __typeof__(&name) next = __atomic_load_n(&found, __ATOMIC_RELAXED); \
  if (__builtin_expect(next == NULL, 0)) {                            \
    next = (__typeof__(&name))scr_mpi_next(#name);                    \
    __atomic_store_n(&found, next, __ATOMIC_RELAXED);                 \
  }

/* --- wrappers from lists of types ----------------------------------------------------------------
 * SCR_PARAMETERS(int, MPI_Comm) is "int a, MPI_Comm b", SCR_NAMES(int, MPI_Comm) is "a, b", and
 * SCR_LAST(int, MPI_Comm) is "b". */
/* clang-format off */
#define SCR_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, n, ...) n
#define SCR_COUNT(...) SCR_PICK(__VA_ARGS__, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SCR_JOIN(one, other) SCR_JOIN_AGAIN(one, other)
#define SCR_JOIN_AGAIN(one, other) one##other
#define SCR_PARAMETERS(...) SCR_JOIN(SCR_PARAMETERS_, SCR_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define SCR_NAMES(...) SCR_JOIN(SCR_NAMES_, SCR_COUNT(__VA_ARGS__))
#define SCR_LAST(...) SCR_JOIN(SCR_LAST_, SCR_COUNT(__VA_ARGS__))
#define SCR_PARAMETERS_1(T1) T1 a
#define SCR_PARAMETERS_2(T1, T2) T1 a, T2 b
#define SCR_PARAMETERS_3(T1, T2, T3) T1 a, T2 b, T3 c
#define SCR_PARAMETERS_4(T1, T2, T3, T4) T1 a, T2 b, T3 c, T4 d
#define SCR_PARAMETERS_5(T1, T2, T3, T4, T5) T1 a, T2 b, T3 c, T4 d, T5 e
#define SCR_PARAMETERS_6(T1, T2, T3, T4, T5, T6) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f
#define SCR_PARAMETERS_7(T1, T2, T3, T4, T5, T6, T7) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g
#define SCR_PARAMETERS_8(T1, T2, T3, T4, T5, T6, T7, T8) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h
#define SCR_PARAMETERS_9(T1, T2, T3, T4, T5, T6, T7, T8, T9) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h, T9 i
#define SCR_PARAMETERS_10(T1, T2, T3, T4, T5, T6, T7, T8, T9, T10) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h, T9 i, T10 j
#define SCR_PARAMETERS_11(T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h, T9 i, T10 j, T11 k
#define SCR_PARAMETERS_12(T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h, T9 i, T10 j, T11 k, T12 l
#define SCR_PARAMETERS_13(T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13) T1 a, T2 b, T3 c, T4 d, T5 e, T6 f, T7 g, T8 h, T9 i, T10 j, T11 k, T12 l, T13 m
#define SCR_NAMES_1 a
#define SCR_NAMES_2 a, b
#define SCR_NAMES_3 a, b, c
#define SCR_NAMES_4 a, b, c, d
#define SCR_NAMES_5 a, b, c, d, e
#define SCR_NAMES_6 a, b, c, d, e, f
#define SCR_NAMES_7 a, b, c, d, e, f, g
#define SCR_NAMES_8 a, b, c, d, e, f, g, h
#define SCR_NAMES_9 a, b, c, d, e, f, g, h, i
#define SCR_NAMES_10 a, b, c, d, e, f, g, h, i, j
#define SCR_NAMES_11 a, b, c, d, e, f, g, h, i, j, k
#define SCR_NAMES_12 a, b, c, d, e, f, g, h, i, j, k, l
#define SCR_NAMES_13 a, b, c, d, e, f, g, h, i, j, k, l, m
#define SCR_LAST_1 a
#define SCR_LAST_2 b
#define SCR_LAST_3 c
#define SCR_LAST_4 d
#define SCR_LAST_5 e
#define SCR_LAST_6 f
#define SCR_LAST_7 g
#define SCR_LAST_8 h
#define SCR_LAST_9 i
#define SCR_LAST_10 j
#define SCR_LAST_11 k
#define SCR_LAST_12 l
#define SCR_LAST_13 m
/* clang-format on */

#endif
