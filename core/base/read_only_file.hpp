// ReadOnlyFile: a File that can only be read, whatever its bytes come from.
//
// All that would change it fails with EROFS; it cannot be mapped or locked, and has no descriptor.
#pragma once

#include <cerrno>

#include "core/base/filesystem.hpp"

namespace scr {

// The highest bit is in the device number of a file that no kernel knows, so that no real file has
// its numbers. HDF5 takes two files with the same device and inode for one.
inline constexpr dev_t kOwnDevice = dev_t{1} << 63U;

class ReadOnlyFile : public File {
 public:
  Result<std::size_t> write_some(std::span<const std::byte> /*data*/,
                                 std::uint64_t /*offset*/) override {
    return read_only("write");
  }
  Status truncate(std::uint64_t /*size*/) override { return read_only("truncate"); }
  Status allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
    return read_only("allocate");
  }
  Status set_mode(mode_t /*mode*/) override { return read_only("change the mode of"); }
  Status sync() override { return {}; }
  Result<Mapping> map(std::uint64_t /*offset*/, std::size_t /*length*/) override {
    return not_supported("map");
  }
  Status lock(LockMode /*mode*/, bool /*wait*/) override { return not_supported("lock"); }
  Status unlock() override { return not_supported("unlock"); }
  Status close() override { return {}; }
  int descriptor() const override { return -1; }

 private:
  Status read_only(std::string_view tried) const { return errno_status(EROFS, tried, path()); }
  Status not_supported(std::string_view tried) const {
    return errno_status(EOPNOTSUPP, tried, path());
  }
};

}  // namespace scr
