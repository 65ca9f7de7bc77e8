#include "core/base/parameters.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/base/text.hpp"

namespace scr::config {
namespace {

constexpr std::int64_t kKilobyte = 1024;
constexpr std::int64_t kGigabyte = kKilobyte * kKilobyte * kKilobyte;

ValueSpec boolean() { return {.type = ValueType::kBool}; }
ValueSpec integer(std::int64_t min, std::int64_t max) {
  return {.type = ValueType::kInt, .min = min, .max = max};
}
ValueSpec count(std::int64_t min, std::int64_t max = 1'000'000'000) {
  return {.type = ValueType::kUint, .min = min, .max = max};
}
ValueSpec bytes(std::int64_t min, std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
  return {.type = ValueType::kBytes, .min = min, .max = max};
}
ValueSpec seconds() { return {.type = ValueType::kSeconds}; }
ValueSpec percent() { return {.type = ValueType::kPercent}; }
ValueSpec word(std::vector<std::string_view> words) {
  return {.type = ValueType::kWord, .words = std::move(words)};
}
ValueSpec text_line() { return {.type = ValueType::kString, .empty_allowed = true}; }
ValueSpec name() { return {.type = ValueType::kName, .empty_allowed = true}; }
ValueSpec path() { return {.type = ValueType::kPath}; }
ValueSpec absolute_path() { return {.type = ValueType::kPath, .absolute = true}; }
ValueSpec optional(ValueSpec spec) {
  spec.empty_allowed = true;
  return spec;
}

using Table = std::vector<Parameter>;

void add_general(Table& table) {
  table.push_back({"SCR_ENABLE", boolean(), "1",
                   "Turns h5scr on; with 0 every file goes where the program puts it, as if h5scr "
                   "were not there."});
  table.push_back(
      {"SCR_DEBUG", count(0, 9), "0",
       "How much is printed about each step: 0 errors and warnings only, 1 each step, 2 "
       "and more details."});
  table.push_back({.name = "SCR_CONF_FILE",
                   .spec = optional(path()),
                   .default_text = "",
                   .description = "User configuration file to read; it must exist if it is named.",
                   .default_note = "`.scrconf` in SCR_PREFIX, if there is one",
                   .set_by = SetBy::kEnvironmentOnly});
  table.push_back({.name = "SCR_PREFIX",
                   .spec = path(),
                   .default_text = "",
                   .description = "Directory on the parallel file system that holds the program's "
                                  "files and h5scr's index of them.",
                   .default_note = "the working directory"});
  table.push_back({.name = "SCR_CNTL_BASE",
                   .spec = absolute_path(),
                   .default_text = "/dev/shm",
                   .description = "Directory on each node below which h5scr keeps its own small "
                                  "files.",
                   .set_by = SetBy::kSystemFirst});
}

void add_cache(Table& table) {
  table.push_back({.name = "SCR_CACHE_BASE",
                   .spec = absolute_path(),
                   .default_text = "/dev/shm",
                   .description = "Directory on each node below which datasets are cached; STORE "
                                  "lines name further ones.",
                   .set_by = SetBy::kSystemFirst});
  table.push_back({"SCR_CACHE_SIZE", count(1), "1",
                   "Number of complete datasets kept in a store; to use no cache set "
                   "SCR_CACHE_BYPASS instead."});
  table.push_back({"SCR_CACHE_DELETE_FIRST", boolean(), "0",
                   "With 1 an old dataset is deleted before the new one is complete if there is no "
                   "room for both, so that a failure in between can lose both."});
  table.push_back({"SCR_CACHE_BYPASS", boolean(), "0",
                   "With 1 datasets are written straight to the prefix and not to the cache."});
  table.push_back({"SCR_CACHE_PURGE", boolean(), "0",
                   "With 1 all datasets in the cache are deleted when the program starts."});
}

void add_redundancy(Table& table) {
  table.push_back(
      {"SCR_COPY_TYPE", word({"SINGLE", "PARTNER", "XOR", "RS", "FILE"}), "XOR",
       "Redundancy scheme of datasets in the cache; FILE means that CKPT lines say it."});
  table.push_back({"SCR_GROUP", name(), "NODE",
                   "Group of processes that are lost together: NODE, WORLD, or a name of a GROUPS "
                   "line."});
  table.back().spec.empty_allowed = false;
  table.push_back({"SCR_SET_SIZE", count(2, 256), "8",
                   "Number of processes in a redundancy set; fewer cost more storage and bear more "
                   "failures."});
  table.push_back({"SCR_SET_FAILURES", count(1, 255), "2",
                   "Number of members that a set of scheme RS can lose."});
  table.push_back({"SCR_HOP_DISTANCE", count(1), "1",
                   "Distance between the failure groups of neighbours in a redundancy set."});
}

void add_checkpoint(Table& table) {
  table.push_back({"SCR_CHECKPOINT_INTERVAL", count(0), "0",
                   "SCR_Need_checkpoint says yes at every n-th call; 0 does not count calls."});
  table.push_back({"SCR_CHECKPOINT_SECONDS", seconds(), "0",
                   "SCR_Need_checkpoint says yes when this time has passed since the last "
                   "checkpoint; 0 does not regard the time."});
  table.push_back({"SCR_CHECKPOINT_OVERHEAD", percent(), "0",
                   "SCR_Need_checkpoint says yes while checkpoints take less than this percentage "
                   "of the run time; 0 does not regard it."});
}

void add_restart(Table& table) {
  table.push_back({"SCR_DISTRIBUTE", boolean(), "1",
                   "Rebuilds and moves datasets found in the cache when the program starts; with 0 "
                   "they are deleted, unless one of them is nowhere else, which is an error."});
  table.push_back(
      {"SCR_FETCH", boolean(), "1",
       "Reads the checkpoint to restart from in the prefix if the cache has none, an older "
       "one, or not the one that a user chose."});
  table.push_back({"SCR_FETCH_BYPASS", boolean(), "0",
                   "With 1 a restart reads the files in the prefix where they are, without copying "
                   "them to the cache."});
  table.push_back({"SCR_FETCH_WIDTH", count(1), "256",
                   "Number of processes that read from the prefix at the same time."});
  table.push_back({"SCR_GLOBAL_RESTART", boolean(), "0",
                   "With 1 the dataset to restart from is flushed first and read from the prefix, "
                   "for programs whose processes read each other's files."});
  table.push_back({"SCR_CURRENT", text_line(), "",
                   "Name of the dataset to restart from instead of the newest one."});
  table.push_back(
      {"SCR_DROP_AFTER_CURRENT", boolean(), "0",
       "With 1 datasets newer than the one restarted from are removed from the index."});
}

void add_flush(Table& table) {
  table.push_back({.name = "SCR_FLUSH",
                   .spec = count(0),
                   .default_text = "10",
                   .description = "Every n-th checkpoint is copied to the prefix, and the last one "
                                  "when the program ends; with 0 none is.",
                   .transparent_default = "1"});
  table.push_back({.name = "SCR_FLUSH_ASYNC",
                   .spec = boolean(),
                   .default_text = "0",
                   .description = "With 1 datasets are copied to the prefix while the program goes "
                                  "on.",
                   .transparent_default = "1"});
  table.push_back({.name = "SCR_FLUSH_TYPE",
                   .spec = word({"SYNC", "PTHREAD", "DAEMON"}),
                   .default_text = "",
                   .description = "Who copies: the program itself, threads of it, or the "
                                  "scr_transfer daemon, which survives the program.",
                   .default_note = "PTHREAD if SCR_FLUSH_ASYNC is 1, else SYNC"});
  table.push_back({"SCR_FLUSH_WIDTH", count(1), "256",
                   "Number of processes that write to the prefix at the same time."});
  table.push_back(
      {"SCR_FLUSH_ASYNC_BW", bytes(0), "0",
       "Bytes per second that all background copies of the job together may write; 0 is "
       "no limit."});
  table.push_back({"SCR_FLUSH_ASYNC_PERCENT", percent(), "0",
                   "Percentage of the time in which background copies may run; 0 is no limit."});
  table.push_back({"SCR_FLUSH_ON_RESTART", boolean(), "0",
                   "With 1 the dataset to restart from is copied to the prefix when the program "
                   "starts."});
  table.push_back({"SCR_PREFIX_SIZE", count(0), "0",
                   "Number of checkpoints kept in the prefix, not counting damaged ones; older "
                   "ones are deleted; 0 keeps all."});
  table.push_back(
      {"SCR_PREFIX_PURGE", boolean(), "0",
       "With 1 all checkpoints in the prefix are deleted when the program starts; output stays."});
}

void add_containers(Table& table) {
  table.push_back({"SCR_USE_CONTAINERS", boolean(), "0",
                   "With 1 many files are packed into few large container files in the prefix."});
  table.push_back({"SCR_CONTAINER_SIZE", bytes(1), "100GB", "Largest size of a container."});
  table.push_back({"SCR_CONTAINER_PARITY", count(0, 128), "0",
                   "Number of parity containers for each 32 containers of a dataset: so many lost "
                   "ones of these can be rebuilt."});
}

void add_checks(Table& table) {
  table.push_back(
      {"SCR_CRC_ON_COPY", boolean(), "1",
       "For configurations of other SCRs: checksums are always computed while redundancy "
       "data is made; 0 gets a warning."});
  table.push_back({"SCR_CRC_ON_FLUSH", boolean(), "1",
                   "For configurations of other SCRs: checksums are always computed and verified "
                   "while datasets are copied to and from the prefix; 0 gets a warning."});
  table.push_back({"SCR_CRC_ON_DELETE", boolean(), "0",
                   "With 1 checksums are verified before a dataset is deleted from the cache, to "
                   "find failing storage."});
}

void add_transparent(Table& table) {
  table.push_back({"SCR_MARKERS", word({"close", "init", "off"}), "close",
                   "When a marker takes the place of a cached file in the prefix: when the file is "
                   "closed, only when the program starts, or never."});
  table.push_back({"SCR_COLLECTIVE_TIMEOUT", seconds(), "0",
                   "Seconds to wait for processes that do not come to a collective point before "
                   "that is an error; with 0 there are only warnings."});
  table.push_back({.name = "SCR_SERVICE_INTERFACE",
                   .spec = text_line(),
                   .default_text = "",
                   .description = "Interface or network (such as `10.1.0.0/16`) over which nodes "
                                  "read from each other's caches.",
                   .default_note = "the one of the host's name"});
  table.push_back({"SCR_COLLECTIVE_WARNING", seconds(), "60",
                   "Seconds to wait for processes that do not come to a collective point before a "
                   "warning names them, and between such warnings; 0 means no warnings."});
  table.push_back({"SCR_VFD_TRACE", text_line(), "",
                   "File to which the HDF5 driver writes one line for each of its calls."});
}

void add_job(Table& table) {
  table.push_back({"SCR_HALT_EXIT", boolean(), "0",
                   "With 1 the program is ended at the next checkpoint if a halt condition holds; "
                   "scr_run sets it."});
  table.push_back({"SCR_HALT_SECONDS", seconds(), "0",
                   "Halts the program when less than this time is left of the job; 0 does not."});
  table.push_back({"SCR_END_TIME", count(0, std::numeric_limits<std::int64_t>::max()), "0",
                   "End of the job in seconds since 1970-01-01 UTC; 0 asks the batch system."});
  table.push_back({"SCR_RUNS", integer(-1, 1'000'000), "1",
                   "Number of times that scr_run starts the program in one job; -1 is no limit."});
  table.push_back({
      .name = "SCR_MIN_NODES",
      .spec = count(0),
      .default_text = "0",
      .description = "Number of healthy nodes that scr_run needs to start the program "
                     "again; 0 is as many as the last run had.",
  });
  table.push_back({.name = "SCR_NODELIST",
                   .spec = text_line(),
                   .default_text = "",
                   .description = "Nodes of the job, as the batch system writes them.",
                   .default_note = "from the batch system"});
  table.push_back({"SCR_EXCLUDE_NODES", text_line(), "",
                   "Nodes that scr_run does not use, as the batch system writes them."});
  table.push_back({.name = "SCR_REMOTE_SHELL",
                   .spec = text_line(),
                   .default_text = "",
                   .description = "Command with which commands are run on other nodes; it gets a "
                                  "host and a line for the shell there, as ssh does.",
                   .default_note = "srun in a job of Slurm, else pdsh, ssh or mpirun, whichever "
                                   "is there"});
  table.push_back({.name = "SCR_JOB_ID",
                   .spec = name(),
                   .default_text = "",
                   .description = "Id of the job; it is part of the names of cache directories.",
                   .default_note = "from the batch system"});
  table.push_back({.name = "SCR_JOB_NAME",
                   .spec = text_line(),
                   .default_text = "",
                   .description = "Name of the job, recorded with each dataset.",
                   .default_note = "from the batch system"});
  table.push_back({.name = "SCR_USER_NAME",
                   .spec = name(),
                   .default_text = "",
                   .description = "Name of the user; it is part of the names of cache directories.",
                   .default_note = "from the operating system"});
  table.push_back(
      {"SCR_CLUSTER_NAME", text_line(), "", "Name of the machine, recorded with each dataset."});
  table.push_back(
      {"SCR_WATCHDOG_TIMEOUT", seconds(), "0",
       "scr_run kills a program that completes no checkpoint for this time; 0 does not."});
  table.push_back({"SCR_WATCHDOG_TIMEOUT_PFS", seconds(), "0",
                   "The same while a dataset is copied to the prefix, which takes longer."});
}

void add_log(Table& table) {
  table.push_back({"SCR_LOG_ENABLE", boolean(), "0", "Writes a log of events."});
  table.push_back({"SCR_LOG_TXT_ENABLE", boolean(), "1",
                   "With SCR_LOG_ENABLE: text to `.scr/log` in the prefix."});
  table.push_back({"SCR_LOG_SYSLOG_ENABLE", boolean(), "1", "With SCR_LOG_ENABLE: to syslog."});
  table.push_back(
      {"SCR_LOG_JSON_ENABLE", boolean(), "1",
       "With SCR_LOG_ENABLE: one JSON object a line to `.scr/log.jsonl` in the prefix."});
}

void add_buffers(Table& table) {
  table.push_back({"SCR_MPI_BUF_SIZE", bytes(kKilobyte, kGigabyte), "1MB",
                   "Size of the pieces in which files are sent from node to node at a restart. "
                   "Redundancy data has its own."});
  table.push_back({"SCR_FILE_BUF_SIZE", bytes(kKilobyte, kGigabyte), "1MB",
                   "Size of the pieces in which files are read and written."});
}

Table make_table() {
  Table table;
  for (auto* add : {add_general, add_cache, add_redundancy, add_checkpoint, add_restart, add_flush,
                    add_containers, add_checks, add_transparent, add_job, add_log, add_buffers}) {
    add(table);
  }
  return table;
}

}  // namespace

// The tables are never destroyed: files may be closed, and flushed, after the end of main().
std::span<const Parameter> parameters() {
  static const auto& table = *new Table(make_table());
  return table;
}

std::span<const std::string_view> parameter_names() {
  static const auto& names = *[] {
    auto* result = new std::vector<std::string_view>;
    for (const Parameter& parameter : parameters()) result->push_back(parameter.name);
    return result;
  }();
  return names;
}

const Parameter* find_parameter(std::string_view name) {
  static const auto& by_name = *[] {
    auto* result = new std::unordered_map<std::string_view, const Parameter*>;
    for (const Parameter& parameter : parameters()) result->emplace(parameter.name, &parameter);
    return result;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

bool is_other_known_variable(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOthers = {"SCR_FAULT", "SCR_RUN_ID", "SCR_RUN_AGAIN",
                                                       "SCR_RUN_TERMINAL"};
  return std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

std::string suggest_names(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kMost = 3;
  // Longer words are no slips of typing, and comparing them takes time.
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  const std::vector<std::string> near = text::nearest_names(word, candidates, kMost);
  if (near.empty()) return "";
  return "; did you mean " + text::join(std::span<const std::string>(near), " or ") + "?";
}

}  // namespace scr::config
