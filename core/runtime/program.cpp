#include "core/runtime/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/flush_file.hpp"
#include "core/base/hash_file.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace scr {

namespace {

constexpr std::string_view kProgramFileName = "program.scrinfo";

std::string base_name(std::string_view path) {
  return std::filesystem::path(path).filename().string();
}

bool is_interpreter(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kInterpreters = {
      "python", "perl", "ruby", "julia", "bash", "sh", "lua"};
  // python3.11 is python; shmem_solver is no shell.
  const auto end = name.find_first_of("0123456789.-");
  const std::string_view word = name.substr(0, end);
  return std::find(kInterpreters.begin(), kInterpreters.end(), word) != kInterpreters.end();
}

constexpr std::string_view kRunLockName = "run.scrinfo.lock";
// A run that was killed may take a while to end.
constexpr std::chrono::seconds kPatience{10};

// What the last run on this node left; empty if there is none.
Hash recorded(FileSystem& fs, const Directory& control) {
  auto hash = read_hash_file(fs, At(control, std::string(kProgramFileName)));
  return hash.ok() ? *std::move(hash) : Hash();
}

// Without symbolic links, so that a directory has one name.
std::string real_prefix(FileSystem& fs, const std::string& prefix) {
  auto real = fs.real_path(prefix);
  return real.ok() ? *std::move(real) : prefix;
}

// False if another run has it. A forked child of a program that died may hold it, too.
bool try_lock(const Context& c, RunLock& lock) {
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  options.mode = 0600;
  auto file = c.fs().open(At(c.control(), std::string(kRunLockName)), options);
  if (!file.ok()) return true;  // nothing is gained by stopping here
  if ((*file)->lock(LockMode::kExclusive, /*wait=*/false).code() == StatusCode::kUnavailable)
    return false;
  lock = *std::move(file);
  return true;
}

Status run_at_work(const Context& c, const std::string& other) {
  return failed_precondition(fmt::format(
      "a run in the prefix directory '{}' is at work in this job on this node: to run two programs "
      "at the same time, give this one an SCR_JOB_ID of its own (job {})",
      other, c.job().job_id));
}

// By the first process of a node: what it finds there.
Result<Claim> claim_node(const Context& c, bool purge, RunLock& lock) {
  bool locked = try_lock(c, lock);
  std::string other = other_prefix(c.fs(), c.control(), c.job().prefix);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!locked && !other.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    locked = try_lock(c, lock);
    other = other_prefix(c.fs(), c.control(), c.job().prefix);
  }
  if (other.empty()) return Claim::kOurs;
  if (!locked) return run_at_work(c, other);
  if (!purge) SCR_RETURN_IF_ERROR(check_saved(c.fs(), c.control(), c.job().prefix));
  return Claim::kOutdated;
}

}  // namespace

std::string program_name(std::string_view executable, std::span<const std::string> arguments) {
  std::string name = base_name(executable);
  if (!is_interpreter(name)) return name;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-m" && i + 1 < arguments.size()) continue;  // python -m module
    if (argument == "-c") break;                                 // no script
    if (argument.empty() || argument.front() == '-') continue;
    return name + " " + base_name(argument);
  }
  return name;
}

std::string program_name() {
  const auto executable = file_system().read_symlink("/proc/self/exe");
  auto text = file_system().open(std::string("/proc/self/cmdline"), OpenOptions::read());
  std::vector<std::string> arguments;
  if (text.ok()) {
    std::string line(4096, '\0');
    auto length = (*text)->read(std::as_writable_bytes(std::span(line)), 0);
    line.resize(length.ok() ? *length : 0);
    for (std::string_view argument : text::split(line, '\0')) arguments.emplace_back(argument);
  }
  return program_name(executable.ok() ? *executable : "", arguments);
}

std::string other_prefix(FileSystem& fs, const Directory& control, const std::string& prefix) {
  const Hash record = recorded(fs, control);
  const std::string other(record.value("PREFIX").value_or(""));
  return other == real_prefix(fs, prefix) ? std::string() : other;
}

Status check_saved(FileSystem& fs, const Directory& control, const std::string& prefix) {
  auto flush = read_flush_file(fs, At(control, std::string(kFlushFileName)));
  if (flush.status().code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(flush.status());
  const std::vector<int> unsaved = flush->datasets_to_save();
  if (unsaved.empty()) return {};
  const std::string other = other_prefix(fs, control, prefix);
  return failed_precondition(fmt::format(
      "the cache holds dataset {} ('{}') of a run in another prefix directory ('{}', this is '{}') "
      "that is not there yet: save it with 'scr_postrun --prefix {}', or give this run an "
      "SCR_JOB_ID of its own, or delete it with SCR_CACHE_PURGE=1",
      unsaved.back(), flush->get(unsaved.back())->name, other, prefix, other));
}

Result<Claim> claim_cache(Context& c, bool purge, RunLock& lock) {
  Result<Claim> claim = Claim::kOurs;
  if (c.node().rank() == 0) claim = claim_node(c, purge, lock);
  SCR_RETURN_IF_ERROR(agree(c.world(), claim.status(), "looking at the cache"));
  return c.world().any_true(*claim == Claim::kOutdated) ? Claim::kOutdated : Claim::kOurs;
}

Status check_program(Context& c) {
  const std::string mine = c.world().broadcast_string(program_name(), 0);
  const Hash record = recorded(c.fs(), c.control());
  std::string other(record.value("PROGRAM").value_or(""));
  if (other == mine) other.clear();
  const std::int64_t none = c.size();
  const std::int64_t first = c.world().all_reduce(other.empty() ? none : c.rank(), ReduceOp::kMin);
  if (first == none) return {};
  other = c.world().broadcast_string(other, static_cast<int>(first));
  return failed_precondition(
      fmt::format("the cache holds datasets of another program ('{}', this is '{}'), which are "
                  "left alone; SCR_CACHE_PURGE=1 deletes them",
                  other, mine));
}

Status record_claim(Context& c) {
  Status status;
  const std::string mine = c.world().broadcast_string(program_name(), 0);
  if (c.node().rank() == 0) {
    Hash hash = recorded(c.fs(), c.control());
    if (c.transparent()) hash.set_value("PROGRAM", mine);
    hash.set_value("PREFIX", real_prefix(c.fs(), c.job().prefix));
    status = write_hash_file(c.fs(), At(c.control(), std::string(kProgramFileName)), hash,
                             Durability::kVolatile, 0600);
  }
  return agree(c.world(), status, "writing to the control directory");
}

}  // namespace scr
