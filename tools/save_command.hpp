// What scr_scavenge and scr_postrun share: options, and how the outcome is told.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/byte_size.hpp"
#include "core/base/text.hpp"
#include "core/job/save_job.hpp"
#include "tools/command.hpp"

namespace scr::tools {

inline constexpr int kUnrecoverableCode = 3;

struct SaveArguments {
  job::JobOverrides overrides;
  std::string nodes;
  std::string down;
  double timeout = 60;
  double copy_timeout = 0;
  double wait = 30;
  bool json = false;
  bool quiet = false;
};

inline void define(CLI::App& app, SaveArguments& arguments) {
  app.add_option("-p,--prefix", arguments.overrides.prefix,
                 "Prefix directory (default: SCR_PREFIX)");
  app.add_option("-j,--jobid", arguments.overrides.job_id, "Job id (default: scr_env --jobid)");
  app.add_option("-u,--user", arguments.overrides.user, "User (default: scr_env --user)");
  app.add_option("-n,--nodes,--jobset", arguments.nodes,
                 "Nodes of the job (default: scr_env --nodes)")
      ->type_name("LIST");
  app.add_option("-x,--down", arguments.down, "Nodes that are down")->type_name("LIST");
  app.add_option("--timeout", arguments.timeout, "Seconds to wait for a node's first answer")
      ->check(scr::tools::number_between(0.1, 1e6))
      ->capture_default_str();
  app.add_option("--copy-timeout", arguments.copy_timeout,
                 "Seconds that the copy of a node may take (0: any time)")
      ->check(scr::tools::number_between(0, 1e9))
      ->capture_default_str();
  app.add_option("--wait", arguments.wait,
                 "Seconds to wait for the program to let go of the prefix directory")
      ->check(scr::tools::number_between(0, 1e6))
      ->capture_default_str();
  app.add_flag("--json", arguments.json, "Print what was done as JSON");
  app.add_flag("-q,--quiet", arguments.quiet, "Do not tell what happens on the way");
}

inline Result<job::SaveJobOptions> options_of(const SaveArguments& arguments, const char* command) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  job::SaveJobOptions options;
  if (!arguments.nodes.empty()) {
    SCR_ASSIGN_OR_RETURN(options.nodes, job::expand_hosts(arguments.nodes));
  }
  SCR_ASSIGN_OR_RETURN(options.down, job::expand_hosts(arguments.down));
  options.answer_timeout = milliseconds(arguments.timeout);
  options.copy_timeout = milliseconds(arguments.copy_timeout);
  options.patience = milliseconds(arguments.wait);
  if (!arguments.quiet)
    options.say = [command](const std::string& line) {
      fmt::print(stderr, "{}: {}\n", command, line);
    };
  return options;
}

inline void print_json(const flush::SaveOutcome& outcome) {
  nlohmann::ordered_json all;
  all["datasets"] = nlohmann::ordered_json::array();
  for (const flush::SavedDataset& saved : outcome.datasets) {
    all["datasets"].push_back({{"id", saved.dataset.id},
                               {"job", saved.job_id},
                               {"name", saved.dataset.name},
                               {"state", flush::save_state_name(saved.state)},
                               {"directory", saved.directory},
                               {"bytes", saved.dataset.size},
                               {"files", saved.dataset.files},
                               {"rebuilt_ranks", saved.rebuilt},
                               {"message", saved.message}});
  }
  all["error"] = outcome.unknown;
  all["silent_nodes"] = outcome.silent;
  all["problems"] = outcome.problems;
  const auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", all.dump(2, ' ', false, replace));
}

inline void print_text(const flush::SaveOutcome& outcome) {
  for (const flush::SavedDataset& saved : outcome.datasets) {
    std::string what =
        fmt::format("dataset {} '{}'", saved.dataset.id, text::escape(saved.dataset.name));
    if (!saved.job_id.empty()) what += fmt::format(" of job {}", text::escape(saved.job_id));
    switch (saved.state) {
      case flush::SaveState::kSaved:
        fmt::print("{}: saved, {} in {} file(s), {} rank(s) rebuilt\n", what,
                   format_byte_size(saved.dataset.size), saved.dataset.files, saved.rebuilt.size());
        break;
      case flush::SaveState::kThere:
        fmt::print("{}: is in the prefix directory already\n", what);
        break;
      case flush::SaveState::kUnrecoverable:
      case flush::SaveState::kFailed:
        fmt::print("{}: NOT saved: {}\n", what, saved.message);
        break;
    }
  }
  if (!outcome.datasets.empty() || !outcome.unknown.empty()) return;
  const std::string& why = outcome.why_nothing;
  fmt::print("nothing to save{}{}\n", why.empty() ? "" : ": ", text::escape(why));
}

// 0 all is safe, 1 something failed or is not known, 3 something is lost.
inline int exit_code(const flush::SaveOutcome& outcome) {
  if (!outcome.unknown.empty()) return kFailure;
  int code = kSuccess;
  for (const flush::SavedDataset& saved : outcome.datasets) {
    if (saved.state == flush::SaveState::kFailed) return kFailure;
    if (saved.state == flush::SaveState::kUnrecoverable) code = kUnrecoverableCode;
  }
  return code;
}

inline int tell(const flush::SaveOutcome& outcome, const SaveArguments& arguments,
                const char* command) {
  for (const std::string& node : outcome.silent)
    fmt::print(stderr, "{}: no answer from {}\n", command, text::escape(node));
  for (const std::string& problem : outcome.problems)
    fmt::print(stderr, "{}: {}\n", command, problem);
  if (!outcome.unknown.empty()) fmt::print(stderr, "{}: {}\n", command, outcome.unknown);
  arguments.json ? print_json(outcome) : print_text(outcome);
  return exit_code(outcome);
}

}  // namespace scr::tools
