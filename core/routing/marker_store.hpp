// MarkerStore: all markers of one prefix directory.
//
// Each routed file whose data is not at its name has a note in `.scr/markers`, which nobody but
// h5scr looks at, and, where no real file has the name, the same marker there, for programs that
// stat or glob. The note is what a reader on another node goes by when an older real file still has
// the name, and what the next run cleans up by. Not collective; thread-safe; several processes may
// use it at once. Format: docs/formats/marker.md.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/filesystem.hpp"
#include "core/routing/marker.hpp"

namespace scr::routing {

class MarkerStore {
 public:
  enum class Visible { kYes, kNo };

  MarkerStore(FileSystem& fs, std::string prefix) : fs_(fs), prefix_(std::move(prefix)) {}

  // Note, then marker at the name if it is free and wanted.
  Status put(const Marker& marker, Visible visible);
  // The data has come to its name, or is gone: removes the note and, if it is still there, the
  // marker. One that has been replaced by a newer version stays.
  Status drop(const Marker& marker);
  // The program has deleted the file before its data came to the name: no marker is found, and the
  // note remembers that, also for the next run, until the dataset is flushed or gone; of one that
  // is in a container, until its dataset leaves the prefix directory.
  Status bury(Marker marker);
  // The same of a file whose name another one is about to get by a rename, after which the note
  // holds: at every instant one of them is found.
  Status bury_replaced(Marker marker);
  // What is remembered of a name that way.
  Result<std::optional<Marker>> find_deletion(const std::string& relative);
  // The note of a name, whatever it says.
  Result<std::optional<Marker>> find_note(const std::string& relative);
  Status forget_deletion(const std::string& relative, int dataset);
  // The marker of a name: the note, else a marker at the name, which the program may have renamed.
  Result<std::optional<Marker>> find(const std::string& relative);

  // Whether there is any note.
  Result<bool> any();
  // Calls `keep` for every note; where it says no, note and marker go. For one of `parts` processes
  // that share the work.
  Status sweep(int part, int parts, const std::function<bool(const Marker&)>& keep);
  // Calls `visit` for every note that can be read, and changes nothing: others may be at work.
  Status each(const std::function<void(const Marker&)>& visit);

 private:
  std::string note_path(const std::string& relative) const;
  std::string path(const std::string& relative) const { return prefix_ + "/" + relative; }

  FileSystem& fs_;
  std::string prefix_;
};

}  // namespace scr::routing
