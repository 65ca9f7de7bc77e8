// Compares two open HDF5 files: objects, types, shapes, attributes, values. How values are stored
// (chunks, filters, byte order of numbers) makes no difference.
#pragma once

#include <map>
#include <string>

#include "vfd/reader/handle.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::vfd {

class Comparer {
 public:
  Comparer(hid_t first, hid_t second, CompareSink& sink)
      : first_(first), second_(second), sink_(sink) {}
  void run();

 private:
  using Objects = std::map<std::string, Hdf5Object>;

  Objects objects_of(hid_t file, const char* which);
  void compare_objects(const Hdf5Object& one, const Hdf5Object& other);
  void compare_attributes(const Hdf5Object& one, const Hdf5Object& other);
  void compare_attribute(const std::string& path, const std::string& name);
  void compare_datasets(const Hdf5Object& one, const Hdf5Object& other);
  void differ(const std::string& path, std::string what);

  hid_t first_;
  hid_t second_;
  CompareSink& sink_;
};

}  // namespace scr::vfd
