#include "vfd/reader/reader.hpp"

#include <fmt/format.h>

#include "vfd/reader/comparer.hpp"
#include "vfd/reader/source_driver.hpp"
#include "vfd/reader/walker.hpp"

namespace scr::vfd {
namespace {

std::optional<Hdf5Value> attribute_of(hid_t file, const std::string& path,
                                      const std::string& name) {
  if (H5Aexists_by_name(file, path.c_str(), name.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
  const Handle attribute(
      H5Aopen_by_name(file, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  return attribute.ok() ? attribute_value(attribute) : std::nullopt;
}

std::optional<Hdf5Value> value_of_dataset(hid_t file, const std::string& path) {
  const Handle dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.ok()) return std::nullopt;
  const Handle space(H5Dget_space(dataset), H5Sclose);
  return H5Sget_simple_extent_npoints(space) == 1 ? dataset_value(dataset) : std::nullopt;
}

herr_t add_name(hid_t, const char* name, const H5L_info2_t* info, void* names) {
  if (info->type == H5L_TYPE_HARD) {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  }
  return 0;
}

std::optional<Hdf5Value> find_anywhere(hid_t file, const std::string& wanted) {
  if (auto value = attribute_of(file, "/", wanted)) return value;
  if (auto value = value_of_dataset(file, "/" + wanted)) return value;
  std::vector<std::string> names;
  hsize_t at = 0;
  H5Literate_by_name2(file, "/", H5_INDEX_NAME, H5_ITER_INC, &at, add_name, &names, H5P_DEFAULT);
  for (const std::string& name : names) {
    if (auto value = attribute_of(file, "/" + name, wanted)) return value;
  }
  return std::nullopt;
}

class Reader final : public Hdf5Reader {
 public:
  Reader() { remember_errors(); }

  std::string version() override {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    H5get_libversion(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
  }

  void walk(FileSource& source, const std::string& name, const WalkOptions& options,
            WalkSink& sink) override {
    const Handle file = open_hdf5(source, name);
    if (!file.ok()) return sink.problem("cannot be opened as HDF5: " + take_error());
    Walker(file, options, sink).run();
  }

  Result<std::optional<Hdf5Value>> find_value(FileSource& source, const std::string& name,
                                              const std::string& wanted) override {
    const Handle file = open_hdf5(source, name);
    if (!file.ok()) return corrupt(fmt::format("cannot open '{}': {}", name, take_error()));
    if (!wanted.starts_with('/')) return find_anywhere(file, wanted);
    const std::size_t sign = wanted.rfind('@');
    if (sign == std::string::npos) return value_of_dataset(file, wanted);
    return attribute_of(file, wanted.substr(0, sign), wanted.substr(sign + 1));
  }

  void compare(FileSource& first, const std::string& first_name, FileSource& second,
               const std::string& second_name, CompareSink& sink) override {
    const Handle one = open_hdf5(first, first_name);
    if (!one.ok()) return sink.problem("cannot open the first as HDF5: " + take_error());
    const Handle other = open_hdf5(second, second_name);
    if (!other.ok()) return sink.problem("cannot open the second as HDF5: " + take_error());
    Comparer(one, other, sink).run();
  }
};

}  // namespace

}  // namespace scr::vfd

extern "C" __attribute__((visibility("default"))) scr::vfd::Hdf5Reader* scr_hdf5_reader(
    int version) {
  if (version != scr::vfd::kReaderVersion) return nullptr;
  static scr::vfd::Reader reader;
  return &reader;
}
