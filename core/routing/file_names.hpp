// FileNames: which file a path of the program means, and what the ROUTE rules say of it.
//
// A path may lead into the prefix directory by links, or out of it, so more than its text counts.
// The rules and the prefix directory are those of the configuration, and while there is a run those
// of the run. Looks at the file system and changes nothing there. Not thread-safe but for
// absolute_name(): the session calls it with its lock held, from any thread.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/base/filesystem.hpp"
#include "core/routing/route_rules.hpp"

namespace scr::routing {

class FileNames {
 public:
  // Whether there is a note (marker_store.hpp) of a file; by the name relative to the prefix
  // directory.
  using HasNote = std::function<bool(const std::string& relative)>;
  using Rules = std::span<const config::RouteRule>;

  FileNames(FileSystem& fs, HasNote has_note) : fs_(fs), has_note_(std::move(has_note)) {}

  // What holds without a run. `rules` must stay where they are until others hold; `prefix` is as
  // the user has set it, and becomes absolute when it is needed first.
  void use(Rules rules, std::string prefix);
  // What holds while there is a run: `prefix` is its directory.
  void begin_run(Rules rules, const std::string& prefix);
  // As use(), but a prefix directory that was found before the run holds again.
  void end_run(Rules rules, std::string prefix);

  const std::string& prefix();

  // The path as an absolute one.
  std::string absolute_name(std::string_view name) const;
  // The file that is opened at the name: links to it are followed, as far as the files there would
  // be routed (or `all`). Where the way leads out of these, the system follows the rest.
  std::string file_at(std::string_view name, bool all = false);

  // Of an absolute path. What the rules say, or else, of a file that a hint of MPI-IO has routed,
  // that it is.
  Route route_of(const std::string& absolute);
  // The same for each open, without a look for notes, which would cost every file that passes
  // through.
  Route route_at_open(const std::string& absolute);
  // What the rules say of the name that the file has without links between directories below the
  // prefix directory.
  Route route_by_rules(const std::string& absolute);
  // A hint has routed this file.
  void remember(const Route& hinted) { hinted_[hinted.relative] = hinted; }

 private:
  struct RealDirectory {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
    std::string real;
  };

  const std::string& real_directory(const std::string& path);
  bool find_real_prefix();

  FileSystem& fs_;
  HasNote has_note_;
  Rules rules_;
  std::string configured_;               // prefix directory, as the user has set it
  std::string own_prefix_;               // the same, absolute; empty until it is needed
  std::string run_prefix_;               // empty if there is no run
  std::string real_prefix_;              // without links; empty until it is needed
  RealDirectory last_directory_;         // outside of it: programs open many files of one
  std::map<std::string, Route> hinted_;  // by relative name
};

}  // namespace scr::routing
