#include "core/runtime/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

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

// The name that the last run on this node left; empty if there is none.
std::string recorded_program(const Context& context) {
  auto hash = read_hash_file(context.fs(), At(context.control(), std::string(kProgramFileName)));
  if (!hash.ok()) return {};
  return std::string(hash->value("PROGRAM").value_or(""));
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

Status claim_cache(Context& c, bool cache_is_empty) {
  const std::string mine = c.world().broadcast_string(program_name(), 0);
  std::string other = cache_is_empty ? "" : recorded_program(c);
  if (other == mine) other.clear();
  const std::int64_t none = c.size();
  const std::int64_t first = c.world().all_reduce(other.empty() ? none : c.rank(), ReduceOp::kMin);
  if (first != none) {
    other = c.world().broadcast_string(other, static_cast<int>(first));
    return failed_precondition(
        fmt::format("the cache holds datasets of another program ('{}', this is '{}'), which are "
                    "left alone; SCR_CACHE_PURGE=1 deletes them",
                    other, mine));
  }
  Status status;
  if (c.node().rank() == 0) {
    Hash hash;
    hash.set_value("PROGRAM", mine);
    status = write_hash_file(c.fs(), At(c.control(), std::string(kProgramFileName)), hash,
                             Durability::kVolatile, 0600);
  }
  return agree(c.world(), status, "writing to the control directory");
}

}  // namespace scr
