// The files that h5scr serves and that are open, by their MPI handles. One list in a process; any
// thread may use it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "core/mpiio/open_file.hpp"

namespace scr::mpiio {

class OpenFiles {
 public:
  static OpenFiles& process();

  void add(std::shared_ptr<OpenFile> file);
  // Null if it is none of ours. A program that closes a file while it uses it gets what it deserves
  // from any MPI, so this is a plain pointer.
  OpenFile* find(MPI_File handle) const;
  std::shared_ptr<OpenFile> remove(const OpenFile& file);

  // For the MPI layer, which looks at it before every call that communicates: 0 if there is nothing
  // to publish.
  const std::atomic<unsigned long>& unpublished() const { return unpublished_; }
  const std::atomic<int>& count() const { return count_; }
  // After a write that others do not see yet.
  void note_unpublished();
  // Every write that had returned when this was called is visible to all when it returns; else the
  // error class of the first file for which it is not so.
  [[nodiscard]] int publish();

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<OpenFile>> files_;
  std::atomic<int> count_ = 0;
  std::atomic<unsigned long> writes_ = 0;
  // The number of the last write that was noted; a publisher that was overtaken by another write
  // leaves it alone.
  std::atomic<unsigned long> unpublished_ = 0;
};

}  // namespace scr::mpiio
