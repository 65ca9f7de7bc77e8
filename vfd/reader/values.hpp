// Datatypes and values of HDF5 as text, and values compared. Values are in memory, in the type that
// memory_type() gives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "vfd/reader/handle.hpp"
#include "vfd/reader/reader.hpp"

namespace scr::vfd {

std::string type_text(hid_t type);
// "" for one element (or `scalar`), "null", "{3, 4}", "{0, 4} of {unlimited, 4}".
std::string shape_text(hid_t space, const char* scalar);
Hdf5Value::Kind value_kind(hid_t type);

// Holds sequences or strings of any length, which HDF5 allocates when it reads them.
bool has_variable_length(hid_t type);
// The type to read with: that of the file itself, without conversion, where values are plain bytes;
// otherwise the machine's own.
Handle memory_type(hid_t file_type);

// One element.
std::string element_text(hid_t type, const std::byte* data);
// Several elements, at most `most` of them.
std::string elements_text(hid_t type, std::span<const std::byte> data, std::size_t most);
// Both of the same type. Numbers that are not a number are the same.
bool same_element(hid_t type, const std::byte* one, const std::byte* other);

// Elements that were read, freed again with what HDF5 allocated for them.
class Elements {
 public:
  // `type` must stay valid.
  Elements(hid_t type, std::size_t count);
  ~Elements();
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;
  std::byte* data() { return bytes_.data(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t count() const { return count_; }
  const std::byte* at(std::size_t index) const { return bytes_.data() + index * element_size_; }
  void read() { read_ = true; }  // there is something to free

 private:
  hid_t type_;
  std::size_t count_;
  std::size_t element_size_;
  std::vector<std::byte> bytes_;
  bool read_ = false;
};

}  // namespace scr::vfd
