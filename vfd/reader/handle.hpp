// Ids of HDF5 that close themselves, and its errors as text.
#pragma once

#include <H5FDdevelop.h>
#include <hdf5.h>

#include <string>
#include <utility>

namespace scr::vfd {

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
      close_ = other.close_;
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool ok() const { return id_ >= 0; }
  operator hid_t() const { return id_; }  // NOLINT: used wherever HDF5 wants an id

 private:
  void reset() {
    if (id_ >= 0) close_(id_);
    id_ = H5I_INVALID_HID;
  }
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// From now on failures are not printed, but kept for take_error().
void remember_errors();
// What HDF5 said of the last failure: the outermost and the innermost message, which tells the
// cause. It is forgotten then.
std::string take_error();

}  // namespace scr::vfd
