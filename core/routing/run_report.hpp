// RunReport: what a session has done, told in one line at the end of a run; and warnings that are
// said once.
//
// The session alone calls it, with its lock held, from any thread. Counts are those of this
// process, until print() adds up those of all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "core/routing/route_rules.hpp"

namespace scr::routing {

class RunReport {
 public:
  // A warning: what happens, and why. The same `what` is said once, also if the reason is another.
  void warn_once(std::string_view what, std::string_view why);

  void count_routed() { ++counts_.routed; }
  bool has_routed() const { return counts_.routed > 0; }
  void count_bytes(std::uint64_t bytes) { counts_.bytes += bytes; }  // of files that were routed
  void count_dataset() { ++counts_.datasets; }                       // protected
  void count_flushed() { ++counts_.flushed; }                        // datasets
  // To its name, while the file was open.
  void count_moved() { ++counts_.moved; }
  // Opened by another driver, against a rule. True: the first one.
  bool count_past() { return ++counts_.past == 1; }
  // Opened for writing and not routed. A file that is opened again at once is the same one:
  // H5Fcreate opens a file twice.
  void count_passed(Route::Reason reason, const std::string& absolute);
  // The same, of one that is opened once.
  void count_passed(Route::Reason reason) { ++counts_.passed[reason]; }

  // Collective over the run: the first rank prints the line, and all counts start anew. Nothing is
  // printed if h5scr had nothing to do. `prefix`: the prefix directory.
  void print(Communicator& world, std::string_view prefix);

 private:
  struct Counts {
    std::uint64_t routed = 0;
    std::uint64_t bytes = 0;
    std::uint64_t datasets = 0;
    std::uint64_t flushed = 0;
    std::uint64_t moved = 0;
    std::uint64_t past = 0;
    std::map<Route::Reason, std::uint64_t> passed;
  };

  Counts counts_;
  std::string last_passed_;
  std::vector<std::string> warned_;
};

}  // namespace scr::routing
