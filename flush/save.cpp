#include "flush/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/byte_size.hpp"
#include "core/base/job_owner.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/roll_forward.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kReportsStart = "scavenge.";

// A directory for the reports of one round, removed with what is in it. Every round has one of its
// own: a network file system may remember that a name was not there.
class ReportDirectory {
 public:
  static Result<ReportDirectory> make(FileSystem& fs, const std::string& prefix) {
    for (int i = 0; i < 10000; ++i) {
      std::string path = fmt::format("{}/.scr/{}{}", prefix, kReportsStart, i);
      const Status made = fs.make_directory(path, 0700);
      if (made.ok()) return ReportDirectory(fs, std::move(path));
      if (made.errno_value() != EEXIST) return made;
    }
    return failed_precondition(
        fmt::format("'{}/.scr' is full of '{}*': remove them", prefix, kReportsStart));
  }
  ~ReportDirectory() {
    if (!path_.empty()) remove(*fs_, path_);
  }
  ReportDirectory(ReportDirectory&& other) noexcept
      : fs_(other.fs_), path_(std::exchange(other.path_, {})) {}
  ReportDirectory& operator=(ReportDirectory&&) = delete;

  const std::string& path() const { return path_; }

  // What a killed scavenge left.
  static void remove_all(FileSystem& fs, const std::string& prefix) {
    const auto entries = fs.list(prefix + "/.scr");
    if (!entries.ok()) return;
    for (const DirectoryEntry& entry : *entries) {
      if (entry.type != FileInfo::Type::kDirectory || !entry.name.starts_with(kReportsStart) ||
          !text::parse_uint(entry.name.substr(kReportsStart.size())))
        continue;
      remove(fs, prefix + "/.scr/" + entry.name);
    }
  }

 private:
  ReportDirectory(FileSystem& fs, std::string path) : fs_(&fs), path_(std::move(path)) {}

  static void remove(FileSystem& fs, const std::string& path) {
    const auto directory = fs.open_directory(path);
    const auto entries = fs.list(path);
    if (!directory.ok() || !entries.ok()) return;
    for (const DirectoryEntry& entry : *entries)
      (void)fs.remove_if_exists(At(**directory, entry.name));
    (void)fs.remove_directory(path);
  }

  FileSystem* fs_;
  std::string path_;
};

// --- which datasets

struct Choice {
  std::vector<CandidateDataset> outputs;      // newest first
  std::vector<CandidateDataset> checkpoints;  // newest first: the first that can be saved is enough
};

int newest_checkpoint(const Index& index) {
  int newest = 0;
  for (const IndexEntry& entry : index.entries()) {
    if (entry.complete && entry.dataset.is_checkpoint() && entry.failed.empty())
      newest = std::max(newest, entry.id());
  }
  return newest;
}

// What a user took out of the prefix directory is not brought back. The mark of a node alone says
// nothing: the prefix directory may have been wiped out since.
bool is_settled(const Index& index, const CandidateDataset& candidate) {
  return index.find_dataset(candidate.dataset) != nullptr ||
         (candidate.in_prefix && index.has_left(candidate.dataset));
}

Choice choose(const std::vector<CandidateDataset>& candidates, const Index& index) {
  Choice choice;
  const int newest = newest_checkpoint(index);
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    const DatasetDescriptor& dataset = candidate->dataset;
    if (!dataset.complete || is_settled(index, *candidate)) continue;
    if (dataset.output) {
      choice.outputs.push_back(*candidate);
    } else if (dataset.is_checkpoint() && dataset.id > newest) {
      choice.checkpoints.push_back(*candidate);
    }
  }
  return choice;
}

// Of one process that worked alone: its numbers say nothing about datasets of others in the index.
Choice choose_of_one(const std::vector<CandidateDataset>& candidates, const Index& index) {
  Choice choice;
  bool newest_is_safe = false;
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    const DatasetDescriptor& dataset = candidate->dataset;
    if (!dataset.complete) continue;
    const bool safe = is_settled(index, *candidate);
    if (dataset.output) {
      if (!safe) choice.outputs.push_back(*candidate);
    } else if (dataset.is_checkpoint()) {
      newest_is_safe = newest_is_safe || safe;
      if (!newest_is_safe) choice.checkpoints.push_back(*candidate);
    }
  }
  return choice;
}

// --- one dataset

class Saver {
 public:
  Saver(FileSystem& fs, const SaveRequest& request, SaveOutcome& outcome)
      : fs_(fs), request_(request), outcome_(outcome), nodes_(request.nodes), down_(request.down) {}

  // Asks the nodes what they have. Those that do not answer are down from here on.
  Result<std::vector<CandidateDataset>> survey() {
    SCR_ASSIGN_OR_RETURN(const auto reports, run({}));
    for (const std::string& node : outcome_.silent) {
      down_.insert(node);
      std::erase(nodes_, node);
    }
    auto candidates = merge_surveys(reports);
    SCR_RETURN_IF_ERROR(check_prefix(reports, candidates.empty()));
    if (candidates.empty()) explain_nothing(reports);
    return candidates;
  }

  SavedDataset save(const CandidateDataset& candidate) {
    SavedDataset saved;
    saved.dataset = candidate.dataset;
    const Status status = save(candidate, saved);
    if (status.ok()) return saved;
    saved.state = status.code() == StatusCode::kUnrecoverable ? SaveState::kUnrecoverable
                                                              : SaveState::kFailed;
    saved.message = std::string(status.message());
    return saved;
  }

 private:
  Result<std::map<std::string, NodeReport>> run(NodeCommand command) {
    command.job = request_.job;
    SCR_ASSIGN_OR_RETURN(const ReportDirectory reports,
                         ReportDirectory::make(fs_, request_.job.prefix));
    command.report = reports.path();
    SCR_RETURN_IF_ERROR(request_.run(nodes_, command));
    SCR_ASSIGN_OR_RETURN(auto read, read_node_reports(fs_, reports.path()));
    for (const std::string& node : nodes_) {
      if (!read.contains(node) && std::ranges::find(outcome_.silent, node) == outcome_.silent.end())
        outcome_.silent.push_back(node);
    }
    for (const auto& [host, report] : read) {
      if (!report.error.empty()) note(host, report.error);
      for (const std::string& problem : report.problems) note(host, problem);
    }
    return read;
  }

  // A node that was away may have what is of an earlier run elsewhere; if none has anything of a
  // run here, this is not the job's prefix directory.
  Status check_prefix(const std::map<std::string, NodeReport>& reports, bool nothing) {
    for (const auto& [host, report] : reports) {
      if (report.other_prefix.empty()) continue;
      Status status = not_of_prefix(request_.job, report.other_prefix);
      if (nothing) return status;
      note(host, std::string(status.message()));
    }
    return {};
  }

  // Nodes that cannot be asked may have what the others have not: "nothing" is then not known.
  void explain_nothing(const std::map<std::string, NodeReport>& reports) {
    std::size_t mute = outcome_.silent.size();
    bool nowhere = true;
    for (const auto& [host, report] : reports) {
      if (!report.error.empty() || !report.problems.empty()) ++mute;
      nowhere = nowhere && report.absent;
    }
    if (mute > 0) {
      outcome_.unknown = fmt::format(
          "no dataset was found, but {} of {} node(s) did not answer or could not tell what they "
          "have, so it is not known whether there is something to save: try again when they can",
          mute, request_.nodes.size());
    } else if (nowhere) {
      outcome_.why_nothing =
          fmt::format("no node has the job's control directory '{}'", request_.job.control);
    }
  }

  void say(const std::string& line) const {
    if (request_.say) request_.say(line);
  }
  void note(const std::string& host, const std::string& problem) {
    std::string line = fmt::format("{}: {}", text::escape(host), text::escape(problem));
    if (std::ranges::find(outcome_.problems, line) == outcome_.problems.end())
      outcome_.problems.push_back(std::move(line));
  }

  // Ranks that several nodes have: one of them copies, another in each round.
  static std::map<int, std::string> assign(const CandidateDataset& candidate, std::size_t round) {
    std::map<int, std::vector<std::string>> several;
    for (auto one = candidate.holders.begin(); one != candidate.holders.end(); ++one) {
      for (auto other = std::next(one); other != candidate.holders.end(); ++other) {
        for (const auto& [first, last] : one->second.ranges()) {
          for (int rank = first; rank <= last; ++rank) {
            if (!other->second.contains(rank)) continue;
            auto& hosts = several[rank];
            for (const std::string& host : {one->first, other->first}) {
              if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
            }
          }
        }
      }
    }
    std::map<int, std::string> assigned;
    for (const auto& [rank, hosts] : several) assigned[rank] = hosts[round % hosts.size()];
    return assigned;
  }

  void remember_failures(const std::map<std::string, NodeReport>& reports) {
    failed_.clear();
    for (const std::string& node : nodes_) {
      const auto found = reports.find(node);
      if (found == reports.end() || !found->second.error.empty()) failed_.push_back(node);
    }
  }

  // Nodes that are up, but whose copy failed, may have what is missing: nothing is lost yet.
  Status not_lost_yet(const Status& status) const {
    if (status.code() != StatusCode::kUnrecoverable || failed_.empty()) return status;
    return {StatusCode::kUnavailable,
            fmt::format("{}; but scr_copy failed on {}, where it may be: try again",
                        status.message(), text::join(failed_, ", "))};
  }

  // The first round copies what every node has of its own, and the redundancy data of sets that
  // have lost a node. If more turns out to be missing, the second brings the redundancy data for
  // that, and tries what failed once more.
  Result<Scan> copy(const CandidateDataset& candidate, const std::string& directory) {
    constexpr std::size_t kRounds = 3;
    NodeCommand command;
    command.kind = NodeCommand::Kind::kCopy;
    command.copy.dataset = candidate.dataset.id;
    command.copy.directory = directory;
    command.copy.failed_hosts = down_;
    command.copy.copy = request_.copy;
    for (std::size_t round = 0;; ++round) {
      command.copy.assigned = assign(candidate, round);
      SCR_ASSIGN_OR_RETURN(const auto reports, run(command));
      remember_failures(reports);
      SCR_ASSIGN_OR_RETURN(Scan scan, scan_dataset(fs_, request_.job.prefix, directory));
      const bool asked_for_all = round > 0 && scan.missing == command.copy.missing;
      const bool more_copies = !command.copy.assigned.empty() && round + 1 < kRounds;
      if (scan.complete() || scan.recoverable() || (asked_for_all && !more_copies) ||
          round + 1 == kRounds) {
        for (const std::string& problem : scan.problems) note("prefix directory", problem);
        return scan;
      }
      say(fmt::format("dataset {}: files of rank {} are missing; asking for redundancy data",
                      candidate.dataset.id, scan.missing.to_text()));
      command.copy.missing = scan.missing;
    }
  }

  Status save(const CandidateDataset& candidate, SavedDataset& saved) {
    const std::string& prefix = request_.job.prefix;
    SCR_ASSIGN_OR_RETURN(
        const auto directory,
        begin_scavenge(fs_, prefix, candidate.dataset, candidate.layout, candidate.keep_newer));
    if (!directory) {
      saved.state = SaveState::kThere;
      mark(candidate);
      return {};
    }
    saved.directory = *directory;
    say(fmt::format("dataset {} ('{}'): copying {} from {} node(s)", candidate.dataset.id,
                    text::escape(candidate.dataset.name), format_byte_size(candidate.dataset.size),
                    request_.nodes.size()));
    SCR_ASSIGN_OR_RETURN(const Scan scan, copy(candidate, *directory));
    if (!scan.complete()) {
      RebuildOptions options;
      options.progress = request_.progress;
      auto rebuilt = rebuild_missing(fs_, prefix, *directory, scan, options);
      SCR_RETURN_IF_ERROR(not_lost_yet(rebuilt.status()));
      saved.rebuilt = *std::move(rebuilt);
      say(fmt::format("dataset {}: files of {} rank(s) rebuilt", candidate.dataset.id,
                      saved.rebuilt.size()));
    }
    SCR_RETURN_IF_ERROR(commit_scavenge(fs_, prefix, *directory));
    saved.state = SaveState::kSaved;
    mark(candidate);
    return {};
  }

  // The nodes' flush files: what is in the prefix directory may leave the caches.
  void mark(const CandidateDataset& candidate) {
    NodeCommand command;
    command.kind = NodeCommand::Kind::kMark;
    command.copy.dataset = candidate.dataset.id;
    const auto marked = run(command);
    if (!marked.ok()) log::warning("{}", marked.status().message());
  }

  FileSystem& fs_;
  const SaveRequest& request_;
  SaveOutcome& outcome_;
  std::vector<std::string> nodes_;  // that answer
  std::set<std::string> down_;
  std::vector<std::string> failed_;  // of nodes_, in the last round of copies
};

}  // namespace

std::vector<CandidateDataset> merge_surveys(const std::map<std::string, NodeReport>& reports) {
  std::map<std::pair<int, std::int64_t>, CandidateDataset> all;
  for (const auto& [host, report] : reports) {
    for (const NodeDataset& there : report.datasets) {
      auto [found, fresh] = all.try_emplace({there.dataset.id, there.dataset.created});
      CandidateDataset& candidate = found->second;
      if (fresh || (there.dataset.complete && !candidate.dataset.complete)) {
        candidate.dataset = there.dataset;
        candidate.layout = there.layout;
        candidate.keep_newer = there.keep_newer;
      }
      candidate.in_prefix = candidate.in_prefix || there.in_prefix;
      candidate.holders[host] = there.ranks;
    }
  }
  std::map<int, CandidateDataset> by_id;
  for (auto& [key, candidate] : all) {  // ascending by time
    const auto found = by_id.find(key.first);
    if (found == by_id.end() || candidate.dataset.complete || !found->second.dataset.complete)
      by_id.insert_or_assign(key.first, std::move(candidate));
  }
  std::vector<CandidateDataset> result;
  for (auto& [id, candidate] : by_id) result.push_back(std::move(candidate));
  return result;
}

std::string_view save_state_name(SaveState state) {
  switch (state) {
    case SaveState::kSaved:
      return "saved";
    case SaveState::kThere:
      return "there";
    case SaveState::kUnrecoverable:
      return "unrecoverable";
    case SaveState::kFailed:
      return "failed";
  }
  return "failed";
}

bool SaveOutcome::all_saved() const {
  const auto is_safe = [](const SavedDataset& dataset) {
    return dataset.state == SaveState::kSaved || dataset.state == SaveState::kThere;
  };
  return unknown.empty() && std::ranges::all_of(datasets, is_safe);
}

Status open_prefix(FileSystem& fs, const std::string& prefix) {
  SCR_ASSIGN_OR_RETURN(const bool there, fs.exists(prefix));
  if (there) return fs.make_directories(prefix + "/.scr");
  return failed_precondition(fmt::format(
      "there is no prefix directory '{}': name that of the job by --prefix, or make it again",
      text::escape(prefix)));
}

Result<SaveOutcome> save_datasets(FileSystem& fs, const SaveRequest& request) {
  SaveOutcome outcome;
  const std::string& prefix = request.job.prefix;
  SCR_RETURN_IF_ERROR(open_prefix(fs, prefix));
  SCR_RETURN_IF_ERROR(roll_forward(fs, prefix, nullptr));
  ReportDirectory::remove_all(fs, prefix);
  Saver saver(fs, request, outcome);
  SCR_ASSIGN_OR_RETURN(const auto candidates, saver.survey());
  if (request.dataset) {
    const auto wanted = std::ranges::find_if(candidates, [&](const CandidateDataset& candidate) {
      return candidate.dataset.id == *request.dataset;
    });
    if (wanted == candidates.end())
      return not_found(fmt::format("no node has dataset {} in its cache{}", *request.dataset,
                                   outcome.silent.empty()
                                       ? std::string()
                                       : "; no answer from " + text::join(outcome.silent, ", ")));
    if (!wanted->dataset.complete)
      return failed_precondition(
          fmt::format("dataset {} was not complete when its run ended", *request.dataset));
    outcome.datasets.push_back(saver.save(*wanted));
    return outcome;
  }
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  const Choice choice = choose(candidates, index);
  for (const CandidateDataset& candidate : choice.checkpoints) {
    outcome.datasets.push_back(saver.save(candidate));
    const SaveState state = outcome.datasets.back().state;
    if (state == SaveState::kSaved || state == SaveState::kThere) break;
  }
  for (const CandidateDataset& candidate : choice.outputs)
    outcome.datasets.push_back(saver.save(candidate));
  return outcome;
}

namespace {

// What is to be saved of one process that worked alone, and by whom.
struct AloneWork {
  const AloneProcess* process = nullptr;
  Saver* saver = nullptr;
  std::vector<CandidateDataset> candidates;  // of which one is enough, best first
};

void save_work(const AloneWork& work, SaveOutcome& outcome) {
  for (const CandidateDataset& candidate : work.candidates) {
    outcome.datasets.push_back(work.saver->save(candidate));
    SavedDataset& saved = outcome.datasets.back();
    saved.job_id = work.process->job_id;
    if (saved.state == SaveState::kSaved || saved.state == SaveState::kThere) return;
  }
}

}  // namespace

Result<SaveOutcome> save_alone_processes(FileSystem& fs,
                                         const std::vector<AloneProcess>& processes) {
  SaveOutcome outcome;
  if (processes.empty()) return outcome;
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, processes.front().request.job.prefix));
  std::vector<std::unique_ptr<Saver>> savers;
  std::vector<AloneWork> works;
  for (const AloneProcess& process : processes) {
    Saver& saver = *savers.emplace_back(std::make_unique<Saver>(fs, process.request, outcome));
    const auto candidates = saver.survey();
    if (!candidates.ok()) {
      outcome.problems.push_back(
          fmt::format("job {}: {}", process.job_id, candidates.status().message()));
      continue;
    }
    Choice choice = choose_of_one(*candidates, index);
    for (CandidateDataset& output : choice.outputs)
      works.push_back({&process, &saver, {std::move(output)}});
    if (!choice.checkpoints.empty())
      works.push_back({&process, &saver, std::move(choice.checkpoints)});
  }
  std::ranges::stable_sort(
      works, {}, [](const AloneWork& work) { return work.candidates.front().dataset.created; });
  for (const AloneWork& work : works) save_work(work, outcome);
  outcome.unknown.clear();  // who asks knows what there should be
  return outcome;
}

Result<std::unique_ptr<File>> lock_prefix(FileSystem& fs, const std::string& prefix,
                                          std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kNap{100};
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(auto lock,
                       fs.open(prefix + "/.scr/" + std::string(kOwnerLockName), options));
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;; std::this_thread::sleep_for(kNap)) {
    const Status status = lock->lock(LockMode::kExclusive, /*wait=*/false);
    if (status.ok()) return lock;
    if (status.code() != StatusCode::kUnavailable) {
      log::warning("cannot lock the prefix directory ({}): make sure that nobody else uses it",
                   status.message());
      return lock;
    }
    if (std::chrono::steady_clock::now() < end) continue;
    return failed_precondition(fmt::format(
        "the prefix directory '{}' is in use: the program, or another command, is still running",
        prefix));
  }
}

}  // namespace scr::flush
