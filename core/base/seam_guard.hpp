// Marks the calls that the file-system seam makes, so that a preload that hooks the same calls of
// the program leaves h5scr's own alone. For each thread.
#pragma once

namespace scr {

namespace detail {
inline thread_local int seam_depth = 0;
}

inline bool inside_seam() { return detail::seam_depth > 0; }

class SeamGuard {
 public:
  SeamGuard() { ++detail::seam_depth; }
  ~SeamGuard() { --detail::seam_depth; }
  SeamGuard(const SeamGuard&) = delete;
  SeamGuard& operator=(const SeamGuard&) = delete;
};

}  // namespace scr
