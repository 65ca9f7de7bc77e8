// Will h5scr work for this program, on this host: its libraries, the plug-in, the directories.
//
// It loads libraries into the calling process, so it is for a process of its own: scr_test_runtime.
#pragma once

#include <string>
#include <vector>

#include "core/job/job_settings.hpp"

namespace scr::job {

struct Finding {
  enum class State { kOk, kNote, kFailed };
  std::string subject;
  State state = State::kOk;
  std::string text;
};

// How the program's HDF5 gets our driver.
enum class Hdf5Way {
  kNone,     // it has no HDF5
  kPlugin,   // HDF5 1.14 and later
  kLegacy,   // HDF5 1.10 and 1.12: a preload
  kUnknown,  // not to be seen from outside, as with an interpreter: both
};
std::string_view hdf5_way_name(Hdf5Way way);

struct RuntimeReport {
  std::vector<Finding> findings = {};
  Hdf5Way hdf5 = Hdf5Way::kUnknown;

  bool ok() const;
};

// `program` may be empty.
RuntimeReport check_runtime(const JobSettings& job, const std::string& program);

}  // namespace scr::job
