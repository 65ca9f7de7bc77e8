/* What the session of a process offers to a preload (vfd/preload): a say in system calls that
 * change names, and news of HDF5 files that other drivers open. The session registers itself with
 * the preload, if there is one, when the first file is opened. Ours; not installed. */
#ifndef SCR_FILE_HOOKS_H
#define SCR_FILE_HOOKS_H

#ifdef __cplusplus
extern "C" {
#endif

/* 1: done; 0: nothing to do with h5scr, make the system call; -1: failed, errno is set. */
typedef struct scr_file_hooks {
  int (*unlink)(const char* path);
  int (*rename)(const char* from, const char* to, unsigned flags); /* those of renameat2() */
  int (*link)(const char* from, const char* to);
  int (*truncate)(const char* path, unsigned long long size);
  /* How many files this thread has opened through the session. */
  unsigned long (*opens)(void);
  /* The program has opened this HDF5 file for writing, and the session did not see it. */
  void (*went_past)(const char* path);
  /* The program is about to start another one by this shell command. */
  void (*starts_command)(const char* command);
  void (*ends_command)(void);
} scr_file_hooks;

/* Defined by every preload. */
void scr_register_file_hooks(const scr_file_hooks* table);

/* Defined by the one that hooks MPI, libscr_mpiio. */
extern const int scr_mpi_layer;

#ifdef __cplusplus
}
#endif

#endif
