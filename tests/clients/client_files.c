/* One function for programs in other languages: writes an HDF5 file with one number. */
#include <hdf5.h>

int write_value(const char* name, int value) {
  const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0) return -1;
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t data =
      H5Dcreate2(file, "value", H5T_NATIVE_LLONG, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const herr_t written = H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
  H5Dclose(data);
  H5Sclose(space);
  return H5Fclose(file) < 0 || written < 0 ? -1 : 0;
}
