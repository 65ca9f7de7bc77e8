#include "vfd/reader/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/base/text.hpp"

namespace scr::vfd {
namespace {

constexpr int kDeepest = 8;            // of nested types in texts
constexpr unsigned kMostMembers = 64;  // of compounds and enumerations in texts
constexpr std::size_t kLongestText = 4096;

struct FreeMemory {
  void operator()(void* text) const { H5free_memory(text); }
};
using Hdf5Text = std::unique_ptr<char, FreeMemory>;

Handle super_type(hid_t type) { return {H5Tget_super(type), H5Tclose}; }

bool is_big_endian(hid_t type) { return H5Tget_order(type) == H5T_ORDER_BE; }

std::string type_at(hid_t type, int depth);

std::string members_text(hid_t type, bool with_types, int depth) {
  const int count = H5Tget_nmembers(type);
  std::string list;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<unsigned>(i);
    if (!list.empty()) list += ", ";
    if (index == kMostMembers) return list + "...";
    const Hdf5Text name(H5Tget_member_name(type, index));
    list += name ? text::escape(name.get()) : "?";
    if (!with_types) continue;
    const Handle member(H5Tget_member_type(type, index), H5Tclose);
    list += ": " + type_at(member, depth + 1);
  }
  return list;
}

// What h5py writes for Python's bool.
bool is_boolean(hid_t type) {
  return H5Tget_nmembers(type) == 2 && members_text(type, false, 0) == "FALSE, TRUE";
}

std::string array_text(hid_t type, int depth) {
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  const int rank = H5Tget_array_dims2(type, sizes.data());
  std::string shape;
  for (int i = 0; i < rank; ++i) {
    shape += fmt::format("{}{}", i == 0 ? "" : ", ", sizes[static_cast<std::size_t>(i)]);
  }
  return fmt::format("{}[{}]", type_at(super_type(type), depth + 1), shape);
}

std::string type_at(hid_t type, int depth) {
  if (depth > kDeepest) return "...";
  const std::size_t bits = H5Tget_size(type) * 8;
  const char* order = bits > 8 && is_big_endian(type) ? "be" : "";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}int{}{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", bits, order);
    case H5T_FLOAT:
      return fmt::format("float{}{}", bits, order);
    case H5T_TIME:
      return fmt::format("time{}", bits);
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0 ? "string" : fmt::format("string({})", bits / 8);
    case H5T_BITFIELD:
      return fmt::format("bitfield{}", bits);
    case H5T_OPAQUE:
      return fmt::format("opaque({})", bits / 8);
    case H5T_COMPOUND:
      return fmt::format("compound{{{}}}", members_text(type, true, depth));
    case H5T_REFERENCE:
      return "reference";
    case H5T_ENUM:
      return is_boolean(type) ? "bool"
                              : fmt::format("enum{{{}}}", members_text(type, false, depth));
    case H5T_VLEN:
      return fmt::format("sequence of {}", type_at(super_type(type), depth + 1));
    case H5T_ARRAY:
      return array_text(type, depth);
    default:
      return "unknown type";
  }
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = 32;
  std::string digits = "0x";
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kMost))) {
    digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return bytes.size() > kMost ? digits + "..." : digits;
}

// A value of another byte order or size as one of this machine; nothing if HDF5 cannot convert it.
template <typename Native>
std::optional<Native> as_native(hid_t type, hid_t native, const std::byte* data) {
  std::array<std::byte, 64> buffer{};
  const std::size_t size = H5Tget_size(type);
  if (size > buffer.size()) return std::nullopt;
  std::memcpy(buffer.data(), data, size);
  if (H5Tconvert(type, native, 1, buffer.data(), nullptr, H5P_DEFAULT) < 0) return std::nullopt;
  Native value{};
  std::memcpy(&value, buffer.data(), sizeof value);
  return value;
}

template <typename Native>
std::string number_text(hid_t type, hid_t native, const std::byte* data) {
  const auto value = as_native<Native>(type, native, data);
  return value ? fmt::format("{}", *value) : hexadecimal({data, H5Tget_size(type)});
}

// Shortest text of a float is that of its own precision: 0.1, not 0.10000000149011612.
std::string float_text(hid_t type, const std::byte* data) {
  return H5Tget_size(type) <= sizeof(float) ? number_text<float>(type, H5T_NATIVE_FLOAT, data)
                                            : number_text<double>(type, H5T_NATIVE_DOUBLE, data);
}

std::string integer_text(hid_t type, const std::byte* data) {
  return H5Tget_sign(type) == H5T_SGN_NONE
             ? number_text<unsigned long long>(type, H5T_NATIVE_ULLONG, data)
             : number_text<long long>(type, H5T_NATIVE_LLONG, data);
}

// Strings may be padded with zeros or with spaces, or end at the first zero.
std::string_view string_at(hid_t type, const std::byte* data) {
  if (H5Tis_variable_str(type) > 0) {
    const char* text = nullptr;
    std::memcpy(static_cast<void*>(&text), data, sizeof text);
    return text != nullptr ? text : "";
  }
  const auto* text = reinterpret_cast<const char*>(data);
  std::string_view value(text, ::strnlen(text, H5Tget_size(type)));
  if (H5Tget_strpad(type) == H5T_STR_SPACEPAD) {
    value = value.substr(0, value.find_last_not_of(' ') + 1);
  }
  return value;
}

std::string string_text(hid_t type, const std::byte* data) {
  return std::string(string_at(type, data).substr(0, kLongestText));
}

std::string enum_text(hid_t type, const std::byte* data) {
  std::array<char, 256> name{};
  if (H5Tenum_nameof(type, data, name.data(), name.size() - 1) >= 0) return name.data();
  return integer_text(super_type(type), data);
}

std::string compound_text(hid_t type, const std::byte* data) {
  std::string list;
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count && list.size() < kLongestText; ++i) {
    const auto index = static_cast<unsigned>(i);
    const Hdf5Text name(H5Tget_member_name(type, index));
    const Handle member(H5Tget_member_type(type, index), H5Tclose);
    list += fmt::format("{}{}: {}", i == 0 ? "" : ", ", name ? name.get() : "?",
                        element_text(member, data + H5Tget_member_offset(type, index)));
  }
  return "{" + list + "}";
}

std::string list_text(hid_t base, const std::byte* data, std::size_t count) {
  const std::size_t size = H5Tget_size(base);
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    if (list.size() > kLongestText) {
      list += ", ...";
      break;
    }
    list += (i == 0 ? "" : ", ") + element_text(base, data + i * size);
  }
  return "[" + list + "]";
}

std::string sequence_text(hid_t type, const std::byte* data) {
  hvl_t sequence{};
  std::memcpy(&sequence, data, sizeof sequence);
  return list_text(super_type(type), static_cast<const std::byte*>(sequence.p), sequence.len);
}

std::size_t array_count(hid_t type, hid_t base) {
  const std::size_t size = H5Tget_size(base);
  return size > 0 ? H5Tget_size(type) / size : 0;
}

// --- comparing

bool same_list(hid_t base, const std::byte* one, const std::byte* other, std::size_t count) {
  const std::size_t size = H5Tget_size(base);
  for (std::size_t i = 0; i < count; ++i) {
    if (!same_element(base, one + i * size, other + i * size)) return false;
  }
  return true;
}

bool same_compound(hid_t type, const std::byte* one, const std::byte* other) {
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<unsigned>(i);
    const Handle member(H5Tget_member_type(type, index), H5Tclose);
    const std::size_t offset = H5Tget_member_offset(type, index);
    if (!same_element(member, one + offset, other + offset)) return false;
  }
  return true;
}

bool same_sequence(hid_t type, const std::byte* one, const std::byte* other) {
  hvl_t first{};
  hvl_t second{};
  std::memcpy(&first, one, sizeof first);
  std::memcpy(&second, other, sizeof second);
  if (first.len != second.len) return false;
  return same_list(super_type(type), static_cast<const std::byte*>(first.p),
                   static_cast<const std::byte*>(second.p), first.len);
}

bool same_float(hid_t type, const std::byte* one, const std::byte* other) {
  if (std::memcmp(one, other, H5Tget_size(type)) == 0) return true;
  const auto first = as_native<double>(type, H5T_NATIVE_DOUBLE, one);
  const auto second = as_native<double>(type, H5T_NATIVE_DOUBLE, other);
  if (!first || !second) return false;
  return *first == *second || (std::isnan(*first) && std::isnan(*second));
}

}  // namespace

std::string type_text(hid_t type) {
  std::string text = type_at(type, 0);
  if (text.size() > kLongestText) text.resize(kLongestText);
  return text;
}

std::string shape_text(hid_t space, const char* scalar) {
  switch (H5Sget_simple_extent_type(space)) {
    case H5S_SCALAR:
      return scalar;
    case H5S_NULL:
      return "null";
    default:
      break;
  }
  std::array<hsize_t, H5S_MAX_RANK> now{};
  std::array<hsize_t, H5S_MAX_RANK> most{};
  const int rank = H5Sget_simple_extent_dims(space, now.data(), most.data());
  const auto list = [&](const auto& sizes) {
    std::string text;
    for (int i = 0; i < rank; ++i) {
      const hsize_t size = sizes[static_cast<std::size_t>(i)];
      text += i == 0 ? "" : ", ";
      text += size == H5S_UNLIMITED ? "unlimited" : fmt::format("{}", size);
    }
    return "{" + text + "}";
  };
  return now == most ? list(now) : list(now) + " of " + list(most);
}

Hdf5Value::Kind value_kind(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
      return Hdf5Value::Kind::kNumber;
    case H5T_STRING:
    case H5T_ENUM:
      return Hdf5Value::Kind::kText;
    default:
      return Hdf5Value::Kind::kOther;
  }
}

bool has_variable_length(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_VLEN:
      return true;
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0;
    case H5T_ARRAY:
      return has_variable_length(super_type(type));
    case H5T_COMPOUND:
      for (int i = 0; i < H5Tget_nmembers(type); ++i) {
        const Handle member(H5Tget_member_type(type, static_cast<unsigned>(i)), H5Tclose);
        if (has_variable_length(member)) return true;
      }
      return false;
    default:
      return false;
  }
}

Handle memory_type(hid_t file_type) {
  if (has_variable_length(file_type)) {
    return {H5Tget_native_type(file_type, H5T_DIR_ASCEND), H5Tclose};
  }
  return {H5Tcopy(file_type), H5Tclose};
}

std::string element_text(hid_t type, const std::byte* data) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_text(type, data);
    case H5T_FLOAT:
      return float_text(type, data);
    case H5T_STRING:
      return string_text(type, data);
    case H5T_ENUM:
      return enum_text(type, data);
    case H5T_COMPOUND:
      return compound_text(type, data);
    case H5T_ARRAY: {
      const Handle base = super_type(type);
      return list_text(base, data, array_count(type, base));
    }
    case H5T_VLEN:
      return sequence_text(type, data);
    default:
      return hexadecimal({data, H5Tget_size(type)});
  }
}

std::string elements_text(hid_t type, std::span<const std::byte> data, std::size_t most) {
  const std::size_t size = H5Tget_size(type);
  const std::size_t count = size > 0 ? data.size() / size : 0;
  std::string list = list_text(type, data.data(), std::min(count, most));
  if (count > most) list.replace(list.size() - 1, 1, ", ...]");
  return list;
}

bool same_element(hid_t type, const std::byte* one, const std::byte* other) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return same_float(type, one, other);
    case H5T_STRING:
      return string_at(type, one) == string_at(type, other);
    case H5T_COMPOUND:
      return same_compound(type, one, other);
    case H5T_ARRAY: {
      const Handle base = super_type(type);
      return same_list(base, one, other, array_count(type, base));
    }
    case H5T_VLEN:
      return same_sequence(type, one, other);
    default:
      return std::memcmp(one, other, H5Tget_size(type)) == 0;
  }
}

Elements::Elements(hid_t type, std::size_t count)
    : type_(type), count_(count), element_size_(H5Tget_size(type)), bytes_(element_size_ * count) {}

Elements::~Elements() {
  if (!read_ || count_ == 0 || !has_variable_length(type_)) return;
  const hsize_t size = count_;
  const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
  H5Treclaim(type_, space, H5P_DEFAULT, bytes_.data());
}

}  // namespace scr::vfd
