// scr_clean: removes what dead jobs left in cache and control directories.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/config.hpp"
#include "core/base/job_cleaner.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/index.hpp"
#include "tools/command.hpp"

namespace {

constexpr int kDone = 0;
constexpr int kError = 1;
constexpr int kUsage = 2;
constexpr int kKept = 3;

constexpr const char* kFooter =
    "A job is dead if none of its processes on this node is running. Only files that the job's "
    "own\n"
    "filemaps list are removed, and its state files; anything else is left and named.\n"
    "A job whose newest checkpoint, or an output, is not yet in the prefix is kept without "
    "--force.\n"
    "\n"
    "Exit codes:\n"
    "  0  no dead job is left (jobs that run, or are too recent, are not touched)\n"
    "  1  something could not be read or removed\n"
    "  2  wrong arguments\n"
    "  3  a dead job was kept: not flushed, made by another host, or with files of unknown origin";

struct Arguments {
  scr::CleanOptions clean;
  std::vector<std::string> bases;
  bool all_users = false;
  bool json = false;
};

void define(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.add_option("--base", arguments.bases,
                 "Directory that holds <user>/scr.<jobid>; may be given several times "
                 "(default: SCR_CNTL_BASE, SCR_CACHE_BASE and all STORE lines)");
  app.add_option(
      "--job", arguments.clean.job_id,
      "Only the job with this id, with what its processes outside of MPI left (ID.sN, ID.pN)");
  app.add_option("--older-than", arguments.clean.older_than,
                 "Only jobs whose last sign of life is so many seconds old")
      ->check(scr::tools::number_not_negative());
  app.add_flag("--all-users", arguments.all_users, "Jobs of all users (administrators only)");
  app.add_flag("--other-hosts", arguments.clean.other_hosts,
               "Also directories on shared storage that another host made");
  app.add_flag("-f,--force", arguments.clean.force,
               "Also jobs with datasets that are not in the prefix: these are lost");
  app.add_flag("-n,--dry-run", arguments.clean.dry_run, "Only say what would be removed");
  app.add_flag("-j,--json", arguments.json, "Print JSON");
}

// The index as it is now; none if it cannot be read, or the prefix directory is not there, as on a
// node that has not mounted it. An administrator reads what users wrote: no pipe, no huge file.
std::optional<scr::flush::Index> read_index_of(const std::string& prefix) {
  constexpr std::uint64_t kLargest = std::uint64_t{256} << 20U;
  scr::FileSystem& fs = scr::file_system();
  if (!fs.info(prefix, /*follow=*/true).ok()) return std::nullopt;
  const auto info = fs.info(prefix + "/.scr/index.scr");
  if (!info.ok() && info.status().code() != scr::StatusCode::kNotFound) return std::nullopt;
  if (info.ok() && (info->type != scr::FileInfo::Type::kRegular || info->size > kLargest))
    return std::nullopt;
  auto index = scr::flush::read_index(fs, prefix);
  return index.ok() ? std::optional(*std::move(index)) : std::nullopt;
}

// Of one prefix directory after the other.
class PrefixReader {
 public:
  scr::InPrefix look(const std::string& prefix, const scr::DatasetDescriptor& dataset,
                     bool marked) {
    if (prefix != prefix_) {
      prefix_ = prefix;
      index_ = read_index_of(prefix);
    }
    if (!index_) return scr::InPrefix::kUnknown;
    if (index_->find_dataset(dataset) != nullptr) return scr::InPrefix::kYes;
    if (!marked || !index_->has_left(dataset)) return scr::InPrefix::kNo;
    const auto newer = [&](const scr::flush::IndexEntry* entry) {
      return entry->dataset.created > dataset.created;
    };
    return std::ranges::any_of(index_->restart_candidates(), newer) ? scr::InPrefix::kYes
                                                                    : scr::InPrefix::kTakenAway;
  }

 private:
  std::string prefix_;
  std::optional<scr::flush::Index> index_;
};

std::string login_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

// Bases and user name from the configuration, as far as the command line does not say them.
scr::Status configure(Arguments& arguments) {
  std::string user;
  auto sources = scr::config::read_files(scr::file_system(), scr::config::Environment::current());
  auto config = sources.ok() ? scr::config::Config::build(*std::move(sources))
                             : scr::Result<scr::config::Config>(sources.status());
  if (config.ok()) {
    user = config->get_string("SCR_USER_NAME");
    if (arguments.bases.empty()) {
      arguments.bases = {config->get_path("SCR_CNTL_BASE"), config->get_path("SCR_CACHE_BASE")};
      for (const auto& store : config->stores()) arguments.bases.push_back(store.directory);
    }
  } else if (arguments.bases.empty()) {
    return config.status();
  }
  for (const std::string& base : arguments.bases) {
    SCR_ASSIGN_OR_RETURN(std::string path, scr::normalize(base));
    auto& bases = arguments.clean.bases;
    if (std::find(bases.begin(), bases.end(), path) == bases.end()) bases.push_back(path);
  }
  if (!arguments.all_users) arguments.clean.user = user.empty() ? login_name() : user;
  return {};
}

void print_text(const scr::CleanReport& report, bool dry_run) {
  for (const scr::CleanedJob& job : report.jobs) {
    const bool removed = job.state == scr::CleanState::kRemoved;
    const bool started = job.files > 0 || removed;
    const std::string what = fmt::format("{} job {} of {} in {}",
                                         started ? (dry_run ? "would remove" : "removed") : "kept",
                                         scr::text::escape(job.job_id), scr::text::escape(job.user),
                                         scr::text::escape(scr::text::join(job.directories, ", ")));
    std::string line = what;
    if (started) line += fmt::format(": {} files, {} bytes", job.files, job.bytes);
    if (!job.reason.empty()) line += ": " + scr::text::escape(job.reason);
    std::printf("%s\n", line.c_str());
    for (const std::string& path : job.left) {
      std::printf("  left: %s\n", scr::text::escape(path).c_str());
    }
    if (job.left_count > job.left.size()) {
      std::printf("  left: %llu more\n",
                  static_cast<unsigned long long>(job.left_count - job.left.size()));
    }
  }
}

void print_json(const scr::CleanReport& report, bool dry_run) {
  nlohmann::ordered_json all;
  all["dry_run"] = dry_run;
  all["jobs"] = nlohmann::ordered_json::array();
  for (const scr::CleanedJob& job : report.jobs) {
    all["jobs"].push_back({{"user", job.user},
                           {"job_id", job.job_id},
                           {"directories", job.directories},
                           {"state", scr::clean_state_name(job.state)},
                           {"reason", job.reason},
                           {"files", job.files},
                           {"bytes", job.bytes},
                           {"left", job.left},
                           {"left_count", job.left_count}});
  }
  all["problems"] = report.problems;
  const auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", all.dump(2, ' ', false, replace).c_str());
}

int exit_code(const scr::CleanReport& report) {
  const auto any = [&report](std::initializer_list<scr::CleanState> states) {
    return std::any_of(report.jobs.begin(), report.jobs.end(), [&](const scr::CleanedJob& job) {
      return std::find(states.begin(), states.end(), job.state) != states.end();
    });
  };
  using enum scr::CleanState;
  if (!report.problems.empty() || any({kFailed})) return kError;
  return any({kUnflushed, kPartly, kOtherHost}) ? kKept : kDone;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Removes the caches that dead jobs left on this node."};
  Arguments arguments;
  define(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (arguments.all_users && ::geteuid() != 0) {
    std::fprintf(stderr, "scr_clean: --all-users is for administrators (root)\n");
    return kUsage;
  }
  if (const scr::Status configured = configure(arguments); !configured.ok()) {
    std::fprintf(stderr, "scr_clean: %s\n", std::string(configured.message()).c_str());
    return kError;
  }
  arguments.clean.now = std::time(nullptr);
  arguments.clean.host = scr::log::host_name();
  PrefixReader reader;
  arguments.clean.look = [&reader](const std::string& prefix, const scr::DatasetDescriptor& dataset,
                                   bool marked) { return reader.look(prefix, dataset, marked); };

  const scr::CleanReport report = scr::clean_jobs(scr::file_system(), arguments.clean);
  for (const std::string& problem : report.problems) {
    std::fprintf(stderr, "scr_clean: %s\n", problem.c_str());
  }
  arguments.json ? print_json(report, arguments.clean.dry_run)
                 : print_text(report, arguments.clean.dry_run);
  return exit_code(report);
}
