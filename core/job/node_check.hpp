// Is this node fit to run the job: its control and cache directories are there, can be written, and
// are large enough.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::job {

struct NeededDirectory {
  std::string path = {};
  std::uint64_t bytes = 0;  // the least size of its storage; 0: any
  bool make = false;        // may be made if it is missing

  // "DIR" or "DIR:BYTES", with BYTES as in "10GB".
  static Result<NeededDirectory> parse(std::string_view text);
  std::string to_text() const;
};

enum class SpaceTest { kCapacity, kFree };

// What is wrong with this node, one line each; empty: nothing.
std::vector<std::string> check_node(FileSystem& fs, const std::vector<NeededDirectory>& needed,
                                    SpaceTest test);

}  // namespace scr::job
