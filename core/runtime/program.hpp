// Whose the datasets in a cache are. Its directories belong to a job, in which several programs may
// run, one after the other or at the same time. Datasets of programs that do not call SCR_* belong
// to the program that wrote them: another one (a pre-processor, a viewer) leaves the cache alone.
// And all belong to a prefix directory: a run in another one must not restart from them. Both are
// in the file `program.scrinfo` of every node's control directory.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/runtime/context.hpp"

namespace scr {

// The base name of the executable, and for an interpreter that of the script.
std::string program_name(std::string_view executable, std::span<const std::string> arguments);
// Of this process.
std::string program_name();

// The lock that the first process of each node holds while the program runs; dropped with it.
using RunLock = std::unique_ptr<File>;

// The prefix directory that the datasets of a control directory are of, without symbolic links;
// empty if it is `prefix`, or nothing is known.
std::string other_prefix(FileSystem& fs, const Directory& control, const std::string& prefix);

// Whether `other_prefix()` lacks datasets that this control directory knows of; their message.
Status check_saved(FileSystem& fs, const Directory& control, const std::string& prefix);

enum class Claim {
  kOurs,      // or empty
  kOutdated,  // of a run in another prefix directory, and all saved there: to be deleted
};

// Collective, before anything in the control directory is touched: fails on all ranks, with a
// message for the user, if a run in another prefix directory is at work, or if its datasets are not
// all in that directory; with `purge` these do not matter.
Result<Claim> claim_cache(Context& context, bool purge, RunLock& lock);
// Collective: fails on all ranks if the cache, which holds something, is of another program.
Status check_program(Context& context);
// Collective: the cache is this program's from here on.
Status record_claim(Context& context);

}  // namespace scr
