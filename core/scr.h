/* scr.h: the native API of h5scr, source-compatible with SCR 3.
 *
 * Every function is collective over the ranks of MPI_COMM_WORLD, except SCR_Route_file,
 * SCR_Flush_progress and SCR_Get_version. All but SCR_Get_version return SCR_SUCCESS or
 * SCR_FAILURE; on failure the reason is on standard error, on the rank it concerns. See
 * docs/api.md. Link with -lscr. */
#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_SUCCESS (0)
#define SCR_FAILURE (1)

/* Longest path that the library gives back, with its terminating NUL: the size of your buffers. */
#define SCR_MAX_FILENAME 1024

/* What a dataset is for; combine with |. */
#define SCR_FLAG_NONE (0)
#define SCR_FLAG_CHECKPOINT (1) /* the program can restart from it */
#define SCR_FLAG_OUTPUT (2)     /* must reach the prefix directory */

/* --- start and end
 * ------------------------------------------------------------------------------------ */

/* Sets a parameter ("SCR_DEBUG=1"), takes a setting back ("SCR_DEBUG=") or asks for a value
 * ("SCR_DEBUG"). Before SCR_Init. Returns the value asked for, which stays valid until the next
 * call, or NULL. The settings of rank 0 count. */
const char* SCR_Config(const char* config);
/* The same with a printf format. */
const char* SCR_Configf(const char* format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* After MPI_Init. Rebuilds cached datasets. */
int SCR_Init(void);
/* Before MPI_Finalize. */
int SCR_Finalize(void);

/* Version of the library as text, e.g. "v0.1.0". May be called at any time. */
const char* SCR_Get_version(void);

/* Sets *flag to 1 if the run should stop now (halt conditions of scr_halt, time limit). */
int SCR_Should_exit(int* flag);

/* --- files
 * ---------------------------------------------------------------------------------------------- */

/* Gives the path at which to open `name`: to write it between Start and Complete of a dataset, to
 * read it during a restart. `file` has room for SCR_MAX_FILENAME bytes. Not collective. */
int SCR_Route_file(const char* name, char* file);

/* --- restart
 * -------------------------------------------------------------------------------------------- */

/* Sets *flag to 1 if there is a checkpoint to restart from; `name` (SCR_MAX_FILENAME bytes, or
 * NULL) gets its name. */
int SCR_Have_restart(int* flag, char* name);
int SCR_Start_restart(char* name);
/* `valid`: 1 if this rank could read its checkpoint. If any could not, the next call of
 * SCR_Have_restart offers an older one. */
int SCR_Complete_restart(int valid);

/* --- checkpoint and output
 * ------------------------------------------------------------------------------- */

/* Sets *flag to 1 if it is time for a checkpoint. */
int SCR_Need_checkpoint(int* flag);
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);

/* The general form. The name must be the same on all ranks. */
int SCR_Start_output(const char* name, int flags);
/* `valid`: 1 if this rank wrote all of its files. */
int SCR_Complete_output(int valid);

/* --- flush (additions of h5scr)
 * ----------------------------------------------------------------------------- */

/* Bytes of this rank's files of a cached dataset that have reached the prefix directory, and in
 * all. Not collective. */
int SCR_Flush_progress(const char* name, unsigned long long* done, unsigned long long* total);
/* Returns when the dataset (all cached ones if name is NULL) is in the prefix directory. */
int SCR_Flush_wait(const char* name);

/* --- datasets by name
 * ------------------------------------------------------------------------------------- */

/* The program restarted from this checkpoint by itself: later checkpoints count on from it. */
int SCR_Current(const char* name);
/* Forgets a dataset, but leaves its files in the prefix directory. */
int SCR_Drop(const char* name);
/* Deletes a dataset and its files. */
int SCR_Delete(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* SCR_H */
