// What scr_rebuild_xor, scr_rebuild_partner and scr_rebuild_rs share.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/scavenge.hpp"
#include "tools/command.hpp"

namespace scr::tools {

struct RebuildArguments {
  std::string prefix = ".";
  std::string directory;
  std::optional<int> set;
  bool dry_run = false;
  bool json = false;
};

inline void print_json(const flush::Scan& scan, const std::vector<int>& rebuilt) {
  nlohmann::ordered_json all;
  all["dataset"] = scan.dataset().id;
  all["name"] = scan.dataset().name;
  all["ranks"] = scan.dataset().ranks;
  all["missing"] = scan.missing.to_text();
  all["unrecoverable"] = scan.why_unrecoverable;
  all["sets"] = nlohmann::ordered_json::array();
  for (const auto& [id, scanned] : scan.sets) {
    std::vector<int> lost;
    for (int i = 0; i < scanned.set.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (scanned.lost[at]) lost.push_back(scanned.set.members[at].rank);
    }
    all["sets"].push_back({{"id", id},
                           {"scheme", redundancy::scheme_name(scanned.set.scheme)},
                           {"members", scanned.set.size()},
                           {"lost_ranks", lost},
                           {"recoverable", scanned.bearable}});
  }
  all["rebuilt"] = rebuilt;
  all["problems"] = scan.problems;
  const auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", all.dump(2, ' ', false, replace));
}

// Ranks that are missing and should not be after the rebuild: all, or those of the set asked for.
inline std::vector<int> wanted_ranks(const flush::Scan& scan, std::optional<int> set) {
  std::vector<int> ranks;
  if (set) {
    for (const redundancy::Member& member : scan.sets.at(*set).set.members) {
      if (!member.guest && scan.missing.contains(member.rank)) ranks.push_back(member.rank);
    }
    return ranks;
  }
  for (int rank = 0; rank < scan.dataset().ranks; ++rank) {
    if (scan.missing.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

inline Result<int> rebuild(const RebuildArguments& arguments, redundancy::Scheme scheme,
                           const char* command) {
  FileSystem& fs = file_system();
  SCR_ASSIGN_OR_RETURN(const std::string prefix, normalize(arguments.prefix));
  SCR_ASSIGN_OR_RETURN(const flush::Scan scan,
                       flush::scan_dataset(fs, prefix, arguments.directory));
  for (const std::string& problem : scan.problems)
    fmt::print(stderr, "{}: {}\n", command, text::escape(problem));
  // Of a dataset that is whole no sets are read.
  if (arguments.set && !scan.complete() && !scan.sets.contains(*arguments.set)) {
    return not_found(fmt::format("dataset {} ('{}') has no redundancy set {}", scan.dataset().id,
                                 text::escape(scan.dataset().name), *arguments.set));
  }
  std::vector<int> rebuilt;
  if (!arguments.dry_run) {
    flush::RebuildOptions options;
    options.scheme = scheme;
    options.set = arguments.set;
    SCR_ASSIGN_OR_RETURN(rebuilt,
                         flush::rebuild_missing(fs, prefix, arguments.directory, scan, options));
  }
  if (arguments.json) {
    print_json(scan, rebuilt);
  } else {
    fmt::print("dataset {} '{}': {}\n", scan.dataset().id, text::escape(scan.dataset().name),
               scan.complete() ? "no rank is missing"
                               : "ranks " + scan.missing.to_text() + " are missing");
    if (!arguments.dry_run) fmt::print("ranks rebuilt: {}\n", fmt::join(rebuilt, ","));
    if (!scan.recoverable()) fmt::print("unrecoverable: {}\n", scan.why_unrecoverable);
  }
  if (!scan.recoverable()) return 3;
  if (arguments.dry_run || scan.complete()) return 0;
  for (const int rank : wanted_ranks(scan, arguments.set)) {
    if (std::ranges::find(rebuilt, rank) != rebuilt.end()) continue;
    return failed_precondition(
        fmt::format("rank {} is still missing: its set is not {}, so another scr_rebuild_* command "
                    "is needed",
                    rank, redundancy::scheme_name(scheme)));
  }
  return 0;
}

inline int rebuild_main(int argc, char** argv, redundancy::Scheme scheme, const char* command) {
  CLI::App app{fmt::format("Rebuilds files of lost ranks from {} data that scr_copy has brought to "
                           "the prefix directory.",
                           redundancy::scheme_name(scheme)),
               command};
  app.footer(
      "scr_scavenge does the same by itself; this is for a scavenge that was cut. One process, "
      "without MPI.\nscr_scavenge then adds the dataset to the index.\n"
      "Exit codes: 0 nothing is missing any more (of the set, with --set), or with --dry-run: what "
      "is missing can\nbe rebuilt; 1 failed, or the set has another scheme; 2 wrong use; 3 "
      "unrecoverable: too much is lost.");
  RebuildArguments arguments;
  app.add_option("-p,--prefix", arguments.prefix,
                 "Prefix directory (default: the working directory)");
  app.add_option("DIR", arguments.directory, "Directory of the dataset below .scr")->required();
  app.add_option("-s,--set", arguments.set, "Only the redundancy set with this id");
  app.add_flag("-n,--dry-run", arguments.dry_run, "Only say what is missing");
  app.add_flag("-j,--json", arguments.json, "Print JSON");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto code = rebuild(arguments, scheme, command);
  if (code.ok()) return *code;
  const bool lost = code.status().code() == StatusCode::kUnrecoverable;
  return fail(command, code.status(), lost ? 3 : kFailure);
}

}  // namespace scr::tools
