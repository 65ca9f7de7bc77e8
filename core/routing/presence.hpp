// Presence: a process has a file of the window open for writing, and the others on its node can see
// that.
//
// Processes that each open a file by themselves write one file together in the window, as they
// would without h5scr. A file has no marker before it is closed, so one without could as well be
// what is left of a file that was deleted. A lock on the file tells them apart, which goes with its
// process: shared while the file is open, exclusive while its contents are being made or moved
// away. It is no lock of flock(), which is the program's. On a file system without locks a process
// knows of itself only. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "core/base/filesystem.hpp"

namespace scr::routing {

class Presence {
 public:
  enum class Missing { kMake, kLeave };
  // Waits while another process makes the contents. None: there is no such file, and none was to be
  // made.
  static Result<std::unique_ptr<Presence>> enter(FileSystem& fs, const std::string& path,
                                                 Missing missing, bool locks = true);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;
  // Somebody has the file open for writing; not by `file`.
  static bool has_others(const File& file);
  static bool is_at(FileSystem& fs, const std::string& path);

  // Nobody else has the file open, and none can enter before share().
  bool alone() const { return alone_; }
  Status share();
  // False: somebody else has it open.
  bool take_alone();

 private:
  Presence(std::unique_ptr<File> file, bool locks) : file_(std::move(file)), locks_(locks) {}
  // False: everybody who was there has left since.
  Result<bool> lock();

  std::unique_ptr<File> file_;
  bool locks_;
  bool alone_ = true;
};

}  // namespace scr::routing
