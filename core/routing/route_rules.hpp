// Route rules: which files of programs that do not call SCR_* go to the cache, and what they are.
//
// Pure decisions from the configuration's ROUTE lines and a path; no file is touched. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/descriptors.hpp"

namespace scr::routing {

struct Route {
  enum class Reason {
    kDefault,        // no rules: everything below the prefix directory is routed
    kRule,           // `rule` says so
    kNoRule,         // there are rules, but none for this file
    kOutsidePrefix,  // not below the prefix directory
    kOwnFile,        // a file of h5scr: .scr, scr.current
    kUnsafeName,     // a name that no metadata may hold (control characters, too long)
    kHint,           // a hint of MPI-IO says so
  };
  config::RouteRule::Type type = config::RouteRule::Type::kBypass;
  // Every dataset of such files must reach the prefix directory: output, and all files if there are
  // no rules, since then nobody said that one may be dropped.
  bool keep_all = false;
  Reason reason = Reason::kNoRule;
  const config::RouteRule* rule = nullptr;  // the one that matched, an element of the list; or none
  std::string relative;                     // to the prefix directory; empty outside of it

  bool routed() const { return type != config::RouteRule::Type::kBypass; }
};

// Why a file is routed or not, in words, for the line at the end of a run and for warnings.
std::string_view reason_text(Route::Reason reason);

// Both paths absolute and normalised (core/base/path.hpp). First match wins.
Route decide(std::span<const config::RouteRule> rules, std::string_view prefix,
             std::string_view path);

// Shell patterns as fnmatch has them. A pattern without a slash is matched with the last component,
// one with a slash with the path relative to the prefix directory, an absolute one with the
// absolute path. * ? [...] do not match a slash; the component ** matches any number of
// directories, also none.
bool matches(std::string_view pattern, std::string_view prefix, std::string_view path);

// The name of the dataset to which a file belongs. With DATASET=<regex> the first group of the
// first match in the relative path (the whole match if there is no group). Else, and if that finds
// nothing, the relative path without extension and without a rank number at the end:
// ckpt_0007.3.h5 -> ckpt_0007, run/restart.h5 -> run/restart. `rule` may be null.
std::string dataset_name(const config::RouteRule* rule, std::string_view relative);

}  // namespace scr::routing
