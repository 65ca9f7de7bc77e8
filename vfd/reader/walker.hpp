// Walks the objects of an open HDF5 file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vfd/reader/handle.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::vfd {

// The value of an attribute or of a dataset with few elements; nothing if HDF5 failed.
std::optional<Hdf5Value> attribute_value(hid_t attribute);
std::optional<Hdf5Value> dataset_value(hid_t dataset);
// Why nothing in a dataset is read: "" if it can be.
std::string unreadable_reason(hid_t dataset);

class Walker {
 public:
  Walker(hid_t file, const WalkOptions& options, WalkSink& sink)
      : file_(file), options_(options), sink_(sink) {}
  // Every object once, groups before what is in them, in the order of their names.
  void run();

 private:
  void visit(const std::string& path);
  void visit_object(const std::string& path);
  void visit_link(const std::string& path, const H5L_info2_t& info);
  void add_children(hid_t group, const std::string& path);
  void describe_dataset(hid_t dataset, Hdf5Object& object);
  void read_attributes(hid_t id, Hdf5Object& object);
  void read_data(hid_t dataset, const std::string& path);
  void failed(const std::string& tried, const std::string& path);

  hid_t file_;
  const WalkOptions& options_;
  WalkSink& sink_;
  std::vector<std::string> waiting_;            // paths, the next one last
  std::map<std::string, std::string> visited_;  // token of each object -> its first path
};

}  // namespace scr::vfd
