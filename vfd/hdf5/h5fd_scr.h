/* h5fd_scr.h: the HDF5 virtual file driver "scr", for programs that choose it in their code.
 *
 * Programs need not be changed to use the driver. With the plug-in's folder in HDF5_PLUGIN_PATH,
 * set HDF5_DRIVER=scr, or call H5Pset_driver_by_name(fapl, "scr", NULL), or give a tool --vfd-name
 * scr.
 *
 * To call the functions below, include this header and link with -lh5fd_scr (HDF5 1.14 and later
 * releases of that series). Like all of HDF5 they may be called by one thread at a time. They
 * return a negative value on failure and say why on HDF5's error stack. */
#ifndef H5FD_SCR_H
#define H5FD_SCR_H

#include <hdf5.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define H5FD_SCR_NAME "scr"

/* The driver's number. HDF5 keeps 0..255 for itself (H5_VFD_RESERVED) and numbers given out by The
 * HDF Group count up from 256; ours is from the upper end of what is left (H5_VFD_MAX is 65535),
 * until one is given out. Nothing stores it: files written with the driver are plain HDF5 files. */
#define H5FD_SCR_VALUE ((H5FD_class_value_t)(43921))

#define H5FD_SCR_CONFIG_MAGIC 0x53435246u /* "SCRF" */
#define H5FD_SCR_CONFIG_VERSION 1u

#define H5FD_SCR_MAX_SETTINGS 4096

/* How the driver is to work. Start from H5FD_SCR_CONFIG_DEFAULT. The reserved fields are zero, so
 * that a program compiled today means the same with a later h5scr. */
typedef struct H5FD_scr_config_t {
  uint32_t magic;   /* H5FD_SCR_CONFIG_MAGIC */
  uint32_t version; /* H5FD_SCR_CONFIG_VERSION */
  uint64_t reserved[6];
  /* Parameters and ROUTE rules as in a configuration file, with ';' between lines:
   * "SCR_COPY_TYPE=RS; ROUTE=ckpt_*.h5 TYPE=CKPT". Also what HDF5_DRIVER_CONFIG holds. All files of
   * a process have the same. Empty: what environment and configuration files say. */
  char settings[H5FD_SCR_MAX_SETTINGS];
} H5FD_scr_config_t;

#define H5FD_SCR_CONFIG_DEFAULT \
  { H5FD_SCR_CONFIG_MAGIC, H5FD_SCR_CONFIG_VERSION, {0, 0, 0, 0, 0, 0}, "" }

/* Makes files opened with this file access property list go through the driver. A null `config`
 * means the default. The plug-in need not be in HDF5_PLUGIN_PATH.
 *
 * For one file of several processes give the list a communicator too, with HDF5's
 * H5Pset_mpi_params(fapl_id, comm, info), in any order. HDF5's own driver mpio then does the work,
 * above the MPI-IO layer of h5scr (libscr_mpiio, preloaded or linked before MPI), and all that
 * HDF5 can do with mpio works. */
herr_t H5Pset_fapl_scr(hid_t fapl_id, const H5FD_scr_config_t* config);

/* Writes to `config` how the driver will work for this list; fails if the list has another driver.
 */
herr_t H5Pget_fapl_scr(hid_t fapl_id, H5FD_scr_config_t* config);

#ifdef __cplusplus
}
#endif

#endif /* H5FD_SCR_H */
