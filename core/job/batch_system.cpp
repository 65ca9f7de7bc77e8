#include "core/job/batch_system.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/process.hpp"

namespace scr::job {
namespace {

using config::Environment;

std::string variable(const Environment& environment, std::string_view name) {
  return environment.get(name).value_or("");
}

// Output of a command of the batch system, or nothing with a line for those who look closer.
std::optional<std::string> ask(const Words& words) {
  const ProcessResult result = run_program(words, {.timeout = std::chrono::seconds(30)});
  if (result.ok()) return result.output;
  log::info("'{}' does not tell: {}", shell_quoted(words), result.summary());
  return std::nullopt;
}

std::optional<std::int64_t> now_plus(std::optional<std::uint64_t> seconds) {
  if (!seconds || *seconds > std::uint64_t{1} << 40U) return std::nullopt;
  return std::time(nullptr) + static_cast<std::int64_t>(*seconds);
}

// "[[D-]HH:]MM:SS" as Slurm and PBS write spans of time, or "HH:MM" as LSF does.
enum class SpanUnit : std::uint8_t { kSeconds = 1, kMinutes = 60 };
std::optional<std::uint64_t> parse_span(std::string_view text, SpanUnit last_unit) {
  std::uint64_t hours = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto days = text::parse_uint(text.substr(0, dash));
    text.remove_prefix(dash + 1);
    if (!days || *days > 100'000 || text::split(text, ':').size() != 3) return std::nullopt;
    hours = *days * 24;
  }
  std::uint64_t rest = 0;
  const auto pieces = text::split(text, ':');
  for (std::string_view piece : pieces) {
    const auto number = text::parse_uint(piece);
    if (!number || *number > 1'000'000 || pieces.size() > 3) return std::nullopt;
    rest = rest * 60 + *number;
  }
  return (hours * 3600 + rest) * static_cast<std::uint64_t>(last_unit);
}

// A file with a host a line, which PBS and LSF name in a variable.
Result<Hosts> hosts_of_file(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const auto bytes, fs.read_file(path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto hosts = expand_hosts(text);
  if (!hosts.ok()) return hosts.status().with_context(fmt::format("'{}'", path));
  return hosts;
}

// "host1 4 host2 4" of LSB_MCPU_HOSTS.
Result<Hosts> hosts_with_counts(std::string_view text) {
  SCR_ASSIGN_OR_RETURN(const Hosts words, expand_hosts(text));
  Hosts hosts;
  for (std::size_t i = 0; i < words.size(); i += 2) hosts.push_back(words[i]);
  return hosts;
}

Result<Hosts> hosts_of_slurm(const Environment& environment) {
  for (std::string_view name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (const std::string list = variable(environment, name); !list.empty()) {
      return expand_hosts(list);
    }
  }
  const auto told = ask(
      {"squeue", "--noheader", "--jobs=" + variable(environment, "SLURM_JOB_ID"), "--format=%N"});
  if (!told) return not_found("Slurm does not tell the nodes of the job; set SCR_NODELIST");
  return expand_hosts(text::trim(*told));
}

Result<Hosts> hosts_of_lsf(FileSystem& fs, const Environment& environment) {
  if (const auto list = environment.get("LSB_MCPU_HOSTS")) return hosts_with_counts(*list);
  if (const auto list = environment.get("LSB_HOSTS")) return expand_hosts(*list);
  if (const auto file = environment.get("LSB_DJOB_HOSTFILE")) return hosts_of_file(fs, *file);
  return not_found("LSF does not tell the nodes of the job; set SCR_NODELIST");
}

Result<Hosts> hosts_of_flux() {
  if (const auto told = ask({"flux", "getattr", "hostlist"})) {
    return expand_hosts(text::trim(*told));
  }
  return not_found("Flux does not tell the nodes of the job; set SCR_NODELIST");
}

Result<Hosts> hosts_of_batch_system(FileSystem& fs, const Environment& environment) {
  switch (detect_batch_system(environment)) {
    case BatchSystem::kSlurm:
      return hosts_of_slurm(environment);
    case BatchSystem::kPbs:
      if (const auto file = environment.get("PBS_NODEFILE")) return hosts_of_file(fs, *file);
      return not_found("PBS does not tell the nodes of the job; set SCR_NODELIST");
    case BatchSystem::kLsf:
      return hosts_of_lsf(fs, environment);
    case BatchSystem::kFlux:
      return hosts_of_flux();
    case BatchSystem::kNone:
      break;
  }
  return Hosts{log::host_name()};
}

std::optional<std::int64_t> end_of_slurm_job(const Environment& environment) {
  if (const auto end = text::parse_int(variable(environment, "SLURM_JOB_END_TIME"))) return end;
  const auto told = ask(
      {"squeue", "--noheader", "--jobs=" + variable(environment, "SLURM_JOB_ID"), "--format=%L"});
  if (!told) return std::nullopt;
  return now_plus(parse_span(text::trim(*told), SpanUnit::kSeconds));  // "UNLIMITED" is no span
}

// PBS tells limits only; "qstat -f" has what was used of them.
std::optional<std::int64_t> end_of_pbs_job(const Environment& environment) {
  const auto told = ask({"qstat", "-f", variable(environment, "PBS_JOBID")});
  if (!told) return std::nullopt;
  std::optional<std::uint64_t> limit;
  std::uint64_t used = 0;
  for (std::string_view line : text::split(*told, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = text::trim(line.substr(0, equals));
    const auto value = parse_span(text::trim(line.substr(equals + 1)), SpanUnit::kSeconds);
    if (key == "Resource_List.walltime") limit = value;
    if (key == "resources_used.walltime") used = value.value_or(0);
  }
  if (!limit) return std::nullopt;
  return now_plus(*limit - std::min(used, *limit));
}

std::optional<std::int64_t> end_of_lsf_job(const Environment& environment) {
  const auto told =
      ask({"bjobs", "-noheader", "-o", "time_left", variable(environment, "LSB_JOBID")});
  if (!told) return std::nullopt;
  const std::string_view text = text::trim(*told);  // "0:42 L"
  return now_plus(parse_span(text.substr(0, text.find(' ')), SpanUnit::kMinutes));
}

std::optional<std::int64_t> end_of_flux_job() {
  const auto told = ask({"flux", "job", "timeleft"});
  if (!told) return std::nullopt;
  const auto seconds = text::parse_double(text::trim(*told));
  if (!seconds || *seconds < 0 || *seconds > 1e12) return std::nullopt;
  return now_plus(static_cast<std::uint64_t>(*seconds));
}

std::string answer_of(BatchSystem system, const Hosts& nodes) {
  switch (system) {
    case BatchSystem::kSlurm:
      // Not nodes that are draining: they run what they have.
      return ask({"sinfo", "--noheader", "--Node", "--nodes=" + compress_hosts(nodes),
                  "--states=down,fail,no_respond,power_down", "--format=%N"})
          .value_or("");
    case BatchSystem::kFlux:
      return ask({"flux", "resource", "list", "--states=down", "--no-header",
                  "--format={nodelist}"})
          .value_or("");
    case BatchSystem::kPbs: {
      // "name  down,offline": one line for each node that is not up.
      std::string names;
      const std::string told = ask({"pbsnodes", "-l"}).value_or("");
      for (std::string_view line : text::split(told, '\n')) {
        line = text::trim(line);
        if (line.find("down") == std::string_view::npos) continue;
        names += fmt::format("{} ", line.substr(0, line.find_first_of(" \t")));
      }
      return names;
    }
    case BatchSystem::kLsf: {
      std::string names;
      const std::string told = ask({"bhosts", "-noheader", "-o", "host_name status"}).value_or("");
      for (std::string_view line : text::split(told, '\n')) {
        line = text::trim(line);
        if (!line.ends_with("unavail") && !line.ends_with("unreach")) continue;
        names += fmt::format("{} ", line.substr(0, line.find_first_of(" \t")));
      }
      return names;
    }
    case BatchSystem::kNone:
      break;
  }
  return {};
}

}  // namespace

std::string_view batch_system_name(BatchSystem system) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "Slurm", "PBS", "LSF", "Flux"};
  return kNames.at(static_cast<std::size_t>(system));
}

BatchSystem detect_batch_system(const Environment& environment) {
  const auto has = [&](std::string_view name) { return !variable(environment, name).empty(); };
  // Flux first: it often runs inside a job of another batch system.
  if (has("FLUX_JOB_ID")) return BatchSystem::kFlux;
  if (has("SLURM_JOB_ID") || has("SLURM_JOBID")) return BatchSystem::kSlurm;
  if (has("PBS_JOBID")) return BatchSystem::kPbs;
  if (has("LSB_JOBID")) return BatchSystem::kLsf;
  return BatchSystem::kNone;
}

Result<Hosts> job_nodes(FileSystem& fs, const config::Config& config,
                        const Environment& environment) {
  const std::string list = config.get_string("SCR_NODELIST");
  auto hosts = list.empty() ? hosts_of_batch_system(fs, environment) : expand_hosts(list);
  if (!hosts.ok()) return hosts.status();
  if (hosts->empty()) return invalid_argument("the list of the job's nodes is empty");
  return unique_hosts(*hosts);
}

std::optional<std::int64_t> job_end_time(const config::Config& config,
                                         const Environment& environment) {
  if (const auto end = config.get_uint("SCR_END_TIME"); end > 0) {
    return static_cast<std::int64_t>(end);
  }
  switch (detect_batch_system(environment)) {
    case BatchSystem::kSlurm:
      return end_of_slurm_job(environment);
    case BatchSystem::kPbs:
      return end_of_pbs_job(environment);
    case BatchSystem::kLsf:
      return end_of_lsf_job(environment);
    case BatchSystem::kFlux:
      return end_of_flux_job();
    case BatchSystem::kNone:
      break;
  }
  return std::nullopt;
}

Hosts nodes_known_as_down(const Environment& environment, const Hosts& nodes) {
  const auto down = expand_hosts(answer_of(detect_batch_system(environment), nodes));
  if (!down.ok()) {
    log::warning("the batch system's list of nodes that are down: {}", down.status().message());
    return {};
  }
  Hosts names;
  for (const std::string& host : *down) {
    if (const std::string name = name_in_list(nodes, host); !name.empty()) names.push_back(name);
  }
  return unique_hosts(names);
}

}  // namespace scr::job
