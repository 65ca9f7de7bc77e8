// Trace of driver calls: SCR_VFD_TRACE=FILE writes each call of HDF5 to the driver as one line of
// JSON, to debug a program's accesses or to replay them.
//
//   {"call":"write","file":"/p/ckpt.h5","offset":2048,"length":512,"start":0.0123,"seconds":1.1e-05,"ok":true}
//
// An open has "flags", as of H5Fopen, with '|' between them. `start` counts from the first call.
// Each process has a file of its own: %h and %p in the name stand for host and process id; without
// %p ".<host>.<process id>" is put at the end. Costs one load and compare a call while it is off.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/filesystem.hpp"

namespace scr::vfd {

class Trace;

// A call, from construction to destruction.
class TracedCall {
 public:
  TracedCall(const char* name, std::string_view file, std::uint64_t offset = 0,
             std::uint64_t length = 0);
  TracedCall(const char* name, const File& file, std::uint64_t offset = 0,
             std::uint64_t length = 0);
  ~TracedCall();
  // How the call ended; one of which this is not said has failed. Returns the same.
  int ended(int result) {
    ok_ = result >= 0;
    return result;
  }
  // Of an open: what it was asked for.
  void set_flags(std::string flags) { flags_ = std::move(flags); }
  bool is_on() const { return trace_ != nullptr; }
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

 private:
  Trace* const trace_;
  const char* const name_;
  std::string file_;
  const std::uint64_t offset_;
  const std::uint64_t length_;
  std::int64_t start_ = 0;  // nanoseconds
  std::string flags_;
  bool ok_ = false;
};

// Starts the trace if the parameter asks for it; called once. If its file cannot be written, that
// is said, and nothing is traced.
void start_trace(std::string_view pattern);

}  // namespace scr::vfd
