#include "vfd/reader/walker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/text.hpp"
#include "vfd/reader/dataset_reader.hpp"
#include "vfd/reader/values.hpp"

namespace scr::vfd {
namespace {

constexpr std::size_t kMostShown = 16;                         // elements of a value
constexpr std::size_t kLargestPiece = std::size_t{16} << 20U;  // bytes read at once

std::string token_text(const H5O_token_t& token) {
  return {reinterpret_cast<const char*>(token.__data), sizeof token.__data};
}

herr_t add_name(hid_t, const char* name, const H5L_info2_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

herr_t add_attribute_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

std::string filter_text(hid_t creation, unsigned index) {
  std::array<char, 128> name{};
  std::array<unsigned, 16> values{};
  std::size_t count = values.size();
  unsigned flags = 0;
  unsigned config = 0;
  const H5Z_filter_t filter = H5Pget_filter2(creation, index, &flags, &count, values.data(),
                                             name.size() - 1, name.data(), &config);
  if (filter < 0) return "?";
  const std::string text = name[0] != '\0' ? text::escape(name.data()) : fmt::format("{}", filter);
  return filter == H5Z_FILTER_DEFLATE && count > 0 ? fmt::format("{}({})", text, values[0]) : text;
}

std::string layout_text(hid_t creation) {
  switch (H5Pget_layout(creation)) {
    case H5D_COMPACT:
      return "compact";
    case H5D_CONTIGUOUS:
      return H5Pget_external_count(creation) > 0 ? "external" : "contiguous";
    case H5D_VIRTUAL:
      return "virtual";
    case H5D_CHUNKED:
      break;
    default:
      return "unknown";
  }
  Coordinates chunk{};
  const int rank = H5Pget_chunk(creation, H5S_MAX_RANK, chunk.data());
  std::string sizes;
  for (int i = 0; i < rank; ++i) {
    sizes += fmt::format("{}{}", i == 0 ? "" : "x", chunk[static_cast<std::size_t>(i)]);
  }
  return "chunked " + sizes;
}

// Of an attribute or dataset that `read` reads as a whole.
std::optional<Hdf5Value> read_value(hid_t file_type, hid_t space,
                                    const std::function<bool(hid_t type, void* buffer)>& read) {
  Hdf5Value value;
  value.kind = value_kind(file_type);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  const Handle type = memory_type(file_type);
  if (count < 0 || !type.ok()) return std::nullopt;
  const auto elements = static_cast<std::size_t>(count);
  if (elements == 0) {
    value.text = "[]";
    value.scalar = false;
    return value;
  }
  if (elements > kLargestPiece / std::max<std::size_t>(H5Tget_size(type), 1)) return std::nullopt;
  Elements data(type, elements);
  if (!read(type, data.data())) return std::nullopt;
  data.read();
  value.scalar = elements == 1;
  value.text = value.scalar ? element_text(type, data.data())
                            : elements_text(type, data.bytes(), kMostShown);
  return value;
}

std::string child_path(const std::string& path, const std::string& name) {
  return path == "/" ? path + name : path + "/" + name;
}

}  // namespace

std::optional<Hdf5Value> attribute_value(hid_t attribute) {
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type.ok() || !space.ok()) return std::nullopt;
  return read_value(type, space, [&](hid_t memory, void* buffer) {
    return H5Aread(attribute, memory, buffer) >= 0;
  });
}

std::optional<Hdf5Value> dataset_value(hid_t dataset) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  if (!type.ok() || !space.ok() || !unreadable_reason(dataset).empty()) return std::nullopt;
  return read_value(type, space, [&](hid_t memory, void* buffer) {
    return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer) >= 0;
  });
}

std::string unreadable_reason(hid_t dataset) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!creation.ok()) return take_error();
  // A damaged or hostile file must not lead to files that are not part of the dataset.
  if (H5Pget_external_count(creation) > 0) return "its data is in other files that HDF5 names";
  if (H5Pget_layout(creation) == H5D_VIRTUAL) return "it is virtual: its data is in other datasets";
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values,
                                               nullptr, 0, nullptr, nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0) {
      return fmt::format("HDF5 here has no filter {}",
                         filter_text(creation, static_cast<unsigned>(i)));
    }
  }
  return {};
}

void Walker::run() {
  waiting_.emplace_back("/");
  while (!waiting_.empty()) {
    const std::string path = std::move(waiting_.back());
    waiting_.pop_back();
    sink_.alive();
    visit(path);
  }
}

void Walker::failed(const std::string& tried, const std::string& path) {
  sink_.problem(fmt::format("cannot {} {}: {}", tried, text::escape(path), take_error()));
}

void Walker::visit(const std::string& path) {
  H5L_info2_t link{};
  link.type = H5L_TYPE_HARD;  // the root group has no link
  if (path != "/" && H5Lget_info2(file_, path.c_str(), &link, H5P_DEFAULT) < 0) {
    return failed("look at", path);
  }
  link.type == H5L_TYPE_HARD ? visit_object(path) : visit_link(path, link);
}

void Walker::visit_object(const std::string& path) {
  const Handle id(H5Oopen(file_, path.c_str(), H5P_DEFAULT), H5Oclose);
  H5O_info2_t info{};
  if (!id.ok() || H5Oget_info3(id, &info, H5O_INFO_BASIC) < 0) return failed("open", path);
  Hdf5Object object;
  object.path = path;
  const auto [place, is_new] = visited_.try_emplace(token_text(info.token), path);
  if (!is_new) object.target = place->second;
  switch (info.type) {
    case H5O_TYPE_GROUP:
      object.kind = Hdf5Object::Kind::kGroup;
      break;
    case H5O_TYPE_DATASET:
      object.kind = Hdf5Object::Kind::kDataset;
      describe_dataset(id, object);
      break;
    case H5O_TYPE_NAMED_DATATYPE:
      object.kind = Hdf5Object::Kind::kDatatype;
      object.type = type_text(id);
      break;
    default:
      break;
  }
  if (is_new && options_.attributes) read_attributes(id, object);
  sink_.object(object);
  if (!is_new) return;
  if (info.type == H5O_TYPE_DATASET && options_.read_data) read_data(id, path);
  if (info.type == H5O_TYPE_GROUP) add_children(id, path);
}

void Walker::add_children(hid_t group, const std::string& path) {
  std::vector<std::string> names;
  hsize_t at = 0;
  if (H5Literate2(group, H5_INDEX_NAME, H5_ITER_INC, &at, add_name, &names) < 0) {
    failed("list", path);
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    waiting_.push_back(child_path(path, *name));
  }
}

void Walker::visit_link(const std::string& path, const H5L_info2_t& info) {
  Hdf5Object object;
  object.path = path;
  std::vector<char> value(info.u.val_size + 1, '\0');
  if (H5Lget_val(file_, path.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) {
    return failed("read", path);
  }
  if (info.type == H5L_TYPE_SOFT) {
    object.kind = Hdf5Object::Kind::kSoftLink;
    object.target = value.data();
  } else if (info.type == H5L_TYPE_EXTERNAL) {
    const char* file = nullptr;
    const char* inside = nullptr;
    unsigned flags = 0;
    if (H5Lunpack_elink_val(value.data(), info.u.val_size, &flags, &file, &inside) < 0) {
      return failed("read", path);
    }
    object.kind = Hdf5Object::Kind::kExternalLink;
    object.target = fmt::format("{}:{}", file, inside);
  }
  sink_.object(object);
}

void Walker::describe_dataset(hid_t dataset, Hdf5Object& object) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!type.ok() || !space.ok() || !creation.ok()) return failed("describe", object.path);
  object.type = type_text(type);
  object.shape = shape_text(space, "scalar");
  object.layout = layout_text(creation);
  object.stored = H5Dget_storage_size(dataset);
  const int filters = H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    object.filters.push_back(filter_text(creation, static_cast<unsigned>(i)));
  }
}

void Walker::read_attributes(hid_t id, Hdf5Object& object) {
  std::vector<std::string> names;
  hsize_t at = 0;
  if (H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, &at, add_attribute_name, &names) < 0) {
    failed("list the attributes of", object.path);
  }
  for (const std::string& name : names) {
    const std::string full = object.path + "@" + name;
    const Handle attribute(H5Aopen(id, name.c_str(), H5P_DEFAULT), H5Aclose);
    const Handle type(H5Aget_type(attribute), H5Tclose);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    if (!attribute.ok() || !type.ok() || !space.ok()) {
      failed("open", full);
      continue;
    }
    auto value = attribute_value(attribute);
    if (!value) failed("read", full);
    object.attributes.push_back(
        {name, type_text(type), shape_text(space, ""), value.value_or(Hdf5Value{})});
  }
}

void Walker::read_data(hid_t dataset, const std::string& path) {
  if (const std::string reason = unreadable_reason(dataset); !reason.empty()) {
    return sink_.note(fmt::format("{} is not read: {}", text::escape(path), reason));
  }
  const Handle file_type(H5Dget_type(dataset), H5Tclose);
  const Handle type = memory_type(file_type);
  if (!type.ok()) return failed("read the type of", path);
  const std::size_t most = kLargestPiece / std::max<std::size_t>(H5Tget_size(type), 1);
  const bool whole = for_each_box(dataset, most, [&](const Box& box) {
    sink_.alive();
    Elements data(type, box.elements());
    const bool good = read_box(dataset, type, box, data.data());
    if (good) data.read();
    return good;
  });
  if (!whole) failed("read", path);
}

}  // namespace scr::vfd
