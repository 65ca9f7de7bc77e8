// GivenFiles: the files of which commands of the program (system(), popen()) find the newest
// version at the name, where h5scr has brought it before.
//
// What a command has changed there is found out when it ends, by what was there when it started.
// Holds what is known and decides nothing; the session calls it with its lock held, from any
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::routing {

// The words of a shell command.
class CommandWords {
 public:
  explicit CommandWords(std::string_view command);

  // Whether one of them may mean the file, or a directory that it is in. `relative`: to the prefix
  // directory.
  bool may_mean(std::string_view relative) const;

 private:
  std::vector<std::string> names_;
};

class GivenFiles {
 public:
  struct Given {
    ino_t inode = 0;
    std::int64_t written = 0;
    int dataset = 0;  // whose version it is, if that is elsewhere, too

    // What is at the name is still that file, or one of the same time.
    bool is(const FileInfo& info) const { return info.inode == inode || info.mtime_ns == written; }
  };
  using ByName = std::map<std::string, Given>;  // by relative name

  void start_command() { ++commands_; }
  // To the commands that run; one that has been given already is known as it was then.
  void add(const std::string& relative, const Given& given) { given_.emplace(relative, given); }
  // The program itself has changed what is at the name.
  void forget(const std::string& relative) { given_.erase(relative); }
  bool contains(const std::string& relative) const { return given_.contains(relative); }
  const ByName& all() const { return given_; }
  bool has_commands() const { return commands_ > 0; }
  // After the last one nothing is given any more.
  void end_command() {
    if (--commands_ == 0) given_.clear();
  }

 private:
  int commands_ = 0;  // that have not ended
  ByName given_;
};

}  // namespace scr::routing
