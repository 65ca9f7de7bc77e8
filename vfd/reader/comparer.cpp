#include "vfd/reader/comparer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "core/base/text.hpp"
#include "vfd/reader/dataset_reader.hpp"
#include "vfd/reader/values.hpp"
#include "vfd/reader/walker.hpp"

namespace scr::vfd {
namespace {

constexpr std::size_t kLargestPiece = std::size_t{8} << 20U;  // bytes read at once from each

struct Tally {
  std::uint64_t elements = 0;
  std::uint64_t different = 0;
  std::optional<double> largest = {};  // difference of two numbers
};

template <typename Number>
void compare_numbers(const Elements& one, const Elements& other, Tally& tally) {
  for (std::size_t i = 0; i < one.count(); ++i) {
    Number first{};
    Number second{};
    std::memcpy(&first, one.at(i), sizeof first);
    std::memcpy(&second, other.at(i), sizeof second);
    if (first == second) continue;
    const auto x = static_cast<double>(first);
    const auto y = static_cast<double>(second);
    if (std::isnan(x) && std::isnan(y)) continue;
    ++tally.different;
    if (!std::isnan(x) && !std::isnan(y)) {
      tally.largest = std::max(tally.largest.value_or(0), std::abs(x - y));
    }
  }
}

bool is_number(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_INTEGER || kind == H5T_FLOAT;
}

bool is_unsigned(hid_t type) {
  return H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
}

// The type to compare in; invalid if the two cannot be compared.
Handle common_type(hid_t one, hid_t other) {
  if (is_number(one) && is_number(other)) {
    if (H5Tget_class(one) == H5T_FLOAT || H5Tget_class(other) == H5T_FLOAT) {
      return {H5Tcopy(H5T_NATIVE_DOUBLE), H5Tclose};
    }
    const bool both = is_unsigned(one) && is_unsigned(other);
    return {H5Tcopy(both ? H5T_NATIVE_ULLONG : H5T_NATIVE_LLONG), H5Tclose};
  }
  Handle first(H5Tget_native_type(one, H5T_DIR_ASCEND), H5Tclose);
  const Handle second(H5Tget_native_type(other, H5T_DIR_ASCEND), H5Tclose);
  if (first.ok() && second.ok() && H5Tequal(first, second) > 0) return first;
  return {};
}

void compare_elements(hid_t type, const Elements& one, const Elements& other, Tally& tally) {
  tally.elements += one.count();
  const bool plain = !has_variable_length(type);
  if (plain && std::ranges::equal(one.bytes(), other.bytes())) return;
  if (H5Tequal(type, H5T_NATIVE_DOUBLE) > 0) return compare_numbers<double>(one, other, tally);
  if (H5Tequal(type, H5T_NATIVE_LLONG) > 0) return compare_numbers<long long>(one, other, tally);
  if (H5Tequal(type, H5T_NATIVE_ULLONG) > 0) {
    return compare_numbers<unsigned long long>(one, other, tally);
  }
  for (std::size_t i = 0; i < one.count(); ++i) {
    if (!same_element(type, one.at(i), other.at(i))) ++tally.different;
  }
}

std::string tally_text(const Tally& tally) {
  std::string text = fmt::format("{} of {} values differ", tally.different, tally.elements);
  if (tally.largest) text += fmt::format(", by up to {:.6g}", *tally.largest);
  return text;
}

// The size of the chunks; nothing if it is not chunked.
std::optional<Coordinates> chunk_size(hid_t dataset) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  Coordinates size{};
  if (H5Pget_layout(creation) != H5D_CHUNKED ||
      H5Pget_chunk(creation, H5S_MAX_RANK, size.data()) < 0) {
    return std::nullopt;
  }
  return size;
}

// Which chunk a box is in.
std::vector<hsize_t> chunk_of(const Box& box, const Coordinates& size) {
  std::vector<hsize_t> chunk;
  for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i) {
    chunk.push_back(box.start[i] / size[i]);
  }
  return chunk;
}

hsize_t element_count(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  return count > 0 ? static_cast<hsize_t>(count) : 0;
}

// Visits what either of two datasets of the same shape stores. Of huge arrays with few chunks only
// those are visited: the rest is not there in either.
bool for_each_stored_box(hid_t one, hid_t other, hsize_t most,
                         const std::function<bool(const Box&)>& visit) {
  const auto size = chunk_size(one);
  if (!size || size != chunk_size(other)) {
    const Handle space(H5Dget_space(one), H5Sclose);
    return for_each_box_of_extent(space, most, visit);
  }
  std::set<std::vector<hsize_t>> visited;
  return for_each_box(one, most,
                      [&](const Box& box) {
                        visited.insert(chunk_of(box, *size));
                        return visit(box);
                      }) &&
         for_each_box(other, most, [&](const Box& box) {
           return visited.contains(chunk_of(box, *size)) || visit(box);
         });
}

// Much larger than what is stored of it, and chunked in different ways: to compare it would take
// for ever.
bool is_out_of_reach(hid_t one, hid_t other) {
  if (chunk_size(one) == chunk_size(other)) return false;
  constexpr hsize_t kAlways = hsize_t{1} << 27U;
  const hsize_t stored = H5Dget_storage_size(one) + H5Dget_storage_size(other);
  return element_count(one) / 16 > kAlways + stored;
}

class Collector : public WalkSink {
 public:
  Collector(CompareSink& sink, const char* which) : sink_(sink), which_(which) {}
  void object(const Hdf5Object& object) override { objects.emplace(object.path, object); }
  void problem(const std::string& text) override {
    sink_.problem(fmt::format("in the {}: {}", which_, text));
  }
  void note(const std::string&) override {}
  void alive() override { sink_.alive(); }
  std::map<std::string, Hdf5Object> objects;

 private:
  CompareSink& sink_;
  const char* which_;
};

}  // namespace

void Comparer::differ(const std::string& path, std::string what) {
  sink_.difference({path, std::move(what)});
}

Comparer::Objects Comparer::objects_of(hid_t file, const char* which) {
  Collector collector(sink_, which);
  const WalkOptions options;
  Walker(file, options, collector).run();
  return std::move(collector.objects);
}

void Comparer::run() {
  const Objects one = objects_of(first_, "first");
  const Objects other = objects_of(second_, "second");
  std::uint64_t compared = 0;
  for (const auto& [path, object] : one) {
    const auto found = other.find(path);
    if (found == other.end()) {
      differ(path, "only in the first");
      continue;
    }
    ++compared;
    compare_objects(object, found->second);
  }
  for (const auto& [path, object] : other) {
    if (!one.contains(path)) differ(path, "only in the second");
  }
  sink_.compared(compared);
}

void Comparer::compare_objects(const Hdf5Object& one, const Hdf5Object& other) {
  if (one.kind != other.kind) {
    return differ(one.path, fmt::format("a {} in the first, a {} in the second",
                                        kind_name(one.kind), kind_name(other.kind)));
  }
  if (one.target != other.target) {
    differ(one.path, fmt::format("leads to '{}' in the first, to '{}' in the second", one.target,
                                 other.target));
  }
  if (!one.target.empty()) return;  // a link, or compared before under another name
  compare_attributes(one, other);
  if (one.type != other.type) {
    differ(one.path, fmt::format("types differ: {}, {}", one.type, other.type));
  }
  if (one.kind == Hdf5Object::Kind::kDataset) compare_datasets(one, other);
}

void Comparer::compare_attributes(const Hdf5Object& one, const Hdf5Object& other) {
  std::map<std::string, const Hdf5Attribute*> others;
  for (const Hdf5Attribute& attribute : other.attributes) others[attribute.name] = &attribute;
  for (const Hdf5Attribute& attribute : one.attributes) {
    const std::string path = one.path + "@" + attribute.name;
    const auto found = others.find(attribute.name);
    if (found == others.end()) {
      differ(path, "only in the first");
      continue;
    }
    const Hdf5Attribute& second = *found->second;
    others.erase(found);
    if (attribute.type != second.type) {
      differ(path, fmt::format("types differ: {}, {}", attribute.type, second.type));
    }
    if (attribute.shape != second.shape) {
      differ(path, fmt::format("shapes differ: {}, {}", attribute.shape, second.shape));
    } else if (attribute.value.text != second.value.text && attribute.value.scalar) {
      differ(path, fmt::format("values differ: {}, {}", text::escape(attribute.value.text),
                               text::escape(second.value.text)));
    } else if (!attribute.value.scalar) {
      compare_attribute(one.path, attribute.name);
    }
  }
  for (const auto& [name, attribute] : others) {
    differ(one.path + "@" + name, "only in the second");
  }
}

// An attribute with several elements, of the same shape in both.
void Comparer::compare_attribute(const std::string& path, const std::string& name) {
  const auto open = [&](hid_t file) {
    return Handle(H5Aopen_by_name(file, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                  H5Aclose);
  };
  const Handle one = open(first_);
  const Handle other = open(second_);
  const Handle type =
      common_type(Handle(H5Aget_type(one), H5Tclose), Handle(H5Aget_type(other), H5Tclose));
  const Handle space(H5Aget_space(one), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  if (!type.ok() || count <= 0) return;
  Elements first(type, static_cast<std::size_t>(count));
  Elements second(type, static_cast<std::size_t>(count));
  if (H5Aread(one, type, first.data()) < 0)
    return sink_.problem(path + "@" + name + ": " + take_error());
  first.read();
  if (H5Aread(other, type, second.data()) < 0)
    return sink_.problem(path + "@" + name + ": " + take_error());
  second.read();
  Tally tally;
  compare_elements(type, first, second, tally);
  if (tally.different > 0) differ(path + "@" + name, tally_text(tally));
}

void Comparer::compare_datasets(const Hdf5Object& one, const Hdf5Object& other) {
  const auto size_now = [](const std::string& shape) {
    return shape.substr(0, shape.find(" of "));
  };
  if (size_now(one.shape) != size_now(other.shape)) {
    return differ(one.path, fmt::format("shapes differ: {}, {}", one.shape, other.shape));
  }
  const Handle first(H5Dopen2(first_, one.path.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle second(H5Dopen2(second_, one.path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!first.ok() || !second.ok()) return sink_.problem(one.path + ": " + take_error());
  for (const Handle* dataset : {&first, &second}) {
    if (const std::string reason = unreadable_reason(*dataset); !reason.empty()) {
      return sink_.problem(fmt::format("{} is not compared: {}", text::escape(one.path), reason));
    }
  }
  const Handle type =
      common_type(Handle(H5Dget_type(first), H5Tclose), Handle(H5Dget_type(second), H5Tclose));
  if (!type.ok()) return;  // said before
  Tally tally;
  const auto compare = [&](const Box& box) {
    sink_.alive();
    Elements left(type, box.elements());
    Elements right(type, box.elements());
    if (!read_box(first, type, box, left.data())) return false;
    left.read();
    if (!read_box(second, type, box, right.data())) return false;
    right.read();
    compare_elements(type, left, right, tally);
    return true;
  };
  if (is_out_of_reach(first, second)) {
    return sink_.problem(
        fmt::format("{} is not compared: it is huge, mostly empty, and chunked in "
                    "different ways",
                    text::escape(one.path)));
  }
  const hsize_t most = kLargestPiece / std::max<std::size_t>(H5Tget_size(type), 1);
  const bool whole = for_each_stored_box(first, second, most, compare);
  tally.elements = element_count(first);
  if (!whole)
    sink_.problem(fmt::format("cannot read {}: {}", text::escape(one.path), take_error()));
  if (tally.different > 0) differ(one.path, tally_text(tally));
}

}  // namespace scr::vfd
