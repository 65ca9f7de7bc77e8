/* A C program that chooses the driver in its code, and needs no HDF5_PLUGIN_PATH for it.
 *   vfd_user FILE */
#include <h5fd_scr.h>

int main(int argc, char** argv) {
  const H5FD_scr_config_t config = H5FD_SCR_CONFIG_DEFAULT;
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  if (argc < 2 || H5Pset_fapl_scr(fapl, &config) < 0) return 1;
  const hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
  if (file < 0) return 1;
  H5Pclose(fapl);
  return H5Fclose(file) < 0;
}
