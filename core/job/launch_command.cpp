#include "core/job/launch_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/text.hpp"
#include "core/job/launcher_options.hpp"

namespace scr::job {
namespace {

using Kind = LaunchCommand::Kind;

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

bool is_mpi(Kind kind) { return kind == Kind::kOpenMpi || kind == Kind::kHydra; }

// mpirun and mpiexec are the names of many launchers; only they themselves tell which they are.
// Open MPI 4's mpirun calls itself "Open MPI", its mpiexec and orterun "OpenRTE".
Kind kind_of_mpirun(const std::string& program) {
  const ProcessResult told =
      run_program({program, "--version"}, {.timeout = std::chrono::seconds(30)});
  const std::string text = told.output + told.errors;
  for (const std::string_view name : {"Open MPI", "OpenRTE", "prte"}) {
    if (text.find(name) != std::string::npos) return Kind::kOpenMpi;
  }
  const bool hydra =
      text.find("HYDRA") != std::string::npos || text.find("Intel(R) MPI") != std::string::npos;
  return hydra ? Kind::kHydra : Kind::kNone;
}

Result<Kind> kind_of(const Words& words) {
  const std::string_view name = base_name(words.front());
  if (name == "srun") return Kind::kSrun;
  if (name == "flux" && words.size() > 1 && words[1] == "run") return Kind::kFlux;
  if (!name.starts_with("mpirun") && !name.starts_with("mpiexec") && name != "prterun" &&
      name != "orterun") {
    return Kind::kNone;
  }
  const Kind kind = kind_of_mpirun(words.front());
  if (kind != Kind::kNone) return kind;
  return invalid_argument(fmt::format(
      "'{}' is neither Open MPI's nor Hydra's, or does not start: its --version does not tell",
      words.front()));
}

// "-host X", "--host X", "--host=X" name the option "host".
std::string_view option_name(Kind kind, std::string_view word) {
  if (!is_mpi(kind) && !word.starts_with("--")) return word.substr(0, 2);  // -N4
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word.substr(0, word.find('='));
}

// "n1:2" of a list for mpirun.
std::string host_of_entry(std::string_view entry) {
  return std::string(text::trim(entry.substr(0, entry.find(':'))));
}

// The name of the host in a line of a hostfile ("n1 slots=2", "n1:2"), empty in a comment.
std::string host_of_line(std::string_view line) {
  line = text::trim(line.substr(0, line.find('#')));
  std::string_view name = line.substr(0, line.find_first_of(" \t:"));
  if (const std::size_t at = name.find('@'); at != std::string_view::npos) {
    name.remove_prefix(at + 1);  // user@host
  }
  return std::string(name);
}

Result<std::vector<std::string>> lines_of(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const auto bytes, fs.read_file(path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> lines;
  for (std::string_view line : text::split(text, '\n')) lines.emplace_back(line);
  return lines;
}

// The position behind the option at `i` and its values. An option that is not known reaches to the
// "--" before the program.
Result<std::size_t> end_of_option(Kind kind, const Words& words, std::size_t i) {
  if (const auto values = values_of_option(kind, words[i])) {
    return std::min(i + 1 + *values, words.size());
  }
  const auto end = std::find(words.begin() + static_cast<std::ptrdiff_t>(i), words.end(), "--");
  if (end != words.end()) return static_cast<std::size_t>(end - words.begin());
  return invalid_argument(fmt::format(
      "the option '{}' of {} is not known here, so it is not clear where the program begins; put "
      "-- before the program",
      text::escape(words[i]), base_name(words.front())));
}

const std::vector<std::string> kHostOptions = {"host", "H", "hosts"};
const std::vector<std::string> kHostfileOptions = {"hostfile", "machinefile", "f",
                                                   "default-hostfile"};

}  // namespace

Result<LaunchCommand> LaunchCommand::parse(const Words& words) {
  if (words.empty()) return invalid_argument("there is no program to start");
  LaunchCommand command;
  SCR_ASSIGN_OR_RETURN(command.kind_, kind_of(words));
  if (command.kind_ == Kind::kNone) {
    command.apps_.push_back({{}, words});
    return command;
  }
  const std::size_t own = command.kind_ == Kind::kFlux ? 2 : 1;
  command.launcher_.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(own));
  std::size_t i = own;
  do {
    App app;
    while (i < words.size() && is_option(words[i]) && words[i] != "--") {
      SCR_ASSIGN_OR_RETURN(const std::size_t end, end_of_option(command.kind_, words, i));
      while (i < end) app.options.push_back(words[i++]);
    }
    if (i < words.size() && words[i] == "--") ++i;
    while (i < words.size() && !(is_mpi(command.kind_) && words[i] == ":")) {
      app.program.push_back(words[i++]);
    }
    command.apps_.push_back(std::move(app));
  } while (i++ < words.size());
  command.programs_in_file_ = !command.find({"multi-prog", "app", "configfile"}).empty();
  for (const App& app : command.apps_) {
    if (app.program.empty() && !command.programs_in_file_) {
      return invalid_argument(fmt::format("there is no program after '{}'", words.front()));
    }
  }
  return command;
}

std::string LaunchCommand::kind_name() const {
  switch (kind_) {
    case Kind::kNone:
      return "none";
    case Kind::kOpenMpi:
      return "mpirun of Open MPI";
    case Kind::kHydra:
      return "mpiexec of Hydra";
    case Kind::kSrun:
      return "srun";
    case Kind::kFlux:
      return "flux run";
  }
  return {};
}

Status LaunchCommand::replace_program(const Words& program) {
  if (program.empty()) return invalid_argument("the restart command is empty");
  if (several_programs() || programs_in_file_) {
    return invalid_argument("a restart command can take the place of one program, not of several");
  }
  apps_.front().program = program;
  return {};
}

void LaunchCommand::set_environment(const std::map<std::string, std::string>& variables) {
  const bool launcher_too = kind_ == Kind::kNone || programs_in_file_;
  for (const auto& [name, value] : variables) {
    if (launcher_too) {
      launcher_environment_[name] = value;
    } else {
      environment_[name] = value;
    }
  }
}

Words LaunchCommand::words() const {
  Words result = launcher_;
  for (std::size_t i = 0; i < apps_.size(); ++i) {
    if (i > 0) result.emplace_back(":");
    result.insert(result.end(), apps_[i].options.begin(), apps_[i].options.end());
    // env(1) is on every node and works with any launcher, unlike their own options for variables.
    if (!environment_.empty()) {
      result.emplace_back("/usr/bin/env");
      for (const auto& [name, value] : environment_) result.push_back(name + "=" + value);
    }
    result.insert(result.end(), apps_[i].program.begin(), apps_[i].program.end());
  }
  return result;
}

// ---- options that name nodes

std::vector<LaunchCommand::Option> LaunchCommand::find(
    const std::vector<std::string>& names) const {
  std::vector<Option> found;
  for (std::size_t a = 0; a < apps_.size(); ++a) {
    const Words& options = apps_[a].options;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::string& word = options[i];
      const std::size_t values = values_of_option(kind_, word).value_or(0);
      const std::string name(option_name(kind_, word));
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        const std::size_t equals = word.find('=');
        const bool is_short = !is_mpi(kind_) && !word.starts_with("--");
        if (values > 0) {
          found.push_back({a, i, i + 1, 0});
        } else if (is_short) {
          found.push_back({a, i, i, 2});
        } else {
          found.push_back({a, i, i, equals == std::string::npos ? word.size() : equals + 1});
        }
      }
      i += values;
    }
  }
  return found;
}

std::string LaunchCommand::value_of(const Option& option) const {
  const Words& options = apps_[option.app].options;
  return option.value < options.size() ? options[option.value].substr(option.value_offset) : "";
}

void LaunchCommand::set_value(const Option& option, const std::string& value) {
  std::string& word = apps_[option.app].options.at(option.value);
  word = word.substr(0, option.value_offset) + value;
}

void LaunchCommand::insert_options(const Words& words) {
  for (App& app : apps_) app.options.insert(app.options.begin(), words.begin(), words.end());
}

Result<Hosts> LaunchCommand::hosts(FileSystem& fs) const {
  Hosts hosts;
  if (!is_mpi(kind_)) return hosts;
  for (const Option& option : find(kHostfileOptions)) {
    SCR_ASSIGN_OR_RETURN(const auto lines, lines_of(fs, value_of(option)));
    for (const std::string& line : lines) {
      if (const std::string host = host_of_line(line); !host.empty()) hosts.push_back(host);
    }
  }
  for (const Option& option : find(kHostOptions)) {
    const std::string list = value_of(option);
    for (std::string_view entry : text::split(list, ',')) {
      if (const std::string host = host_of_entry(entry); !host.empty()) hosts.push_back(host);
    }
  }
  for (const std::string& host : hosts) {
    if (!is_host_name(host)) {
      return invalid_argument(fmt::format("'{}' is not the name of a host", text::escape(host)));
    }
  }
  return unique_hosts(hosts);
}

std::optional<std::size_t> LaunchCommand::node_count() const {
  if (kind_ != Kind::kSrun && kind_ != Kind::kFlux) return std::nullopt;
  const auto options = find({"nodes", "-N"});
  if (options.empty()) return std::nullopt;
  const std::string value = value_of(options.back());  // "4", or "2-4" of srun
  return text::parse_uint(value.substr(0, value.find('-')));
}

Status LaunchCommand::use_nodes_of_mpi(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                                       const std::string& hostfile) {
  const auto files = find(kHostfileOptions);
  const auto lists = find(kHostOptions);
  if (files.size() > 1) {
    return invalid_argument("several hostfiles in one command cannot be changed; use one");
  }
  for (const Option& option : files) {
    SCR_ASSIGN_OR_RETURN(const auto lines, lines_of(fs, value_of(option)));
    std::string text;
    for (const std::string& line : lines) {
      if (!name_in_list(avoid, host_of_line(line)).empty()) continue;
      if (!text::trim(line).empty()) text += line + "\n";
    }
    SCR_RETURN_IF_ERROR(
        fs.write_file_atomically(hostfile, std::as_bytes(std::span(text)), /*durable=*/false));
    set_value(option, hostfile);
  }
  for (const Option& option : lists) {
    std::vector<std::string> kept;
    const std::string list = value_of(option);
    for (std::string_view entry : text::split(list, ',')) {
      if (name_in_list(avoid, host_of_entry(entry)).empty()) kept.emplace_back(entry);
    }
    if (kept.empty()) return failed_precondition("no host of the launch command is left");
    set_value(option, text::join(std::span<const std::string>(kept), ","));
  }
  if (!files.empty() || !lists.empty()) return {};
  // The launcher knows the nodes from the batch system, with their slots: the names choose from
  // them.
  const std::string text = text::join(std::span<const std::string>(use), "\n") + "\n";
  SCR_RETURN_IF_ERROR(
      fs.write_file_atomically(hostfile, std::as_bytes(std::span(text)), /*durable=*/false));
  insert_options({kind_ == Kind::kOpenMpi ? "--hostfile" : "-f", hostfile});
  return {};
}

// srun takes a value with a slash for the name of a file with hosts.
Result<Hosts> LaunchCommand::hosts_of_nodelist(FileSystem& fs, const Option& option) const {
  std::string list = value_of(option);
  if (list.starts_with('=')) list.erase(0, 1);  // -w=n1
  if (list.find('/') == std::string::npos) return expand_hosts(list);
  SCR_ASSIGN_OR_RETURN(const auto lines, lines_of(fs, list));
  return expand_hosts(text::join(std::span<const std::string>(lines), " "));
}

// The list names nodes that the step must have, and srun adds others: without any of it that is up
// some other node of the job takes its place.
Status LaunchCommand::leave_out_of_nodelist(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                                            const std::string& own) {
  for (const Option& option : find({"nodelist", "-w"})) {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, hosts_of_nodelist(fs, option));
    Hosts kept;
    for (const std::string& host : hosts) {
      if (name_in_list(avoid, host).empty()) kept.push_back(host);
    }
    if (kept.size() == hosts.size()) continue;
    if (kept.empty() && use.empty() && own.empty()) {
      return failed_precondition("no host of the launch command is left");
    }
    if (kept.empty()) kept.push_back(own.empty() ? use.front() : own);
    set_value(option, compress_hosts(kept));
  }
  return {};
}

Status LaunchCommand::use_nodes_of_srun(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                                        const std::string& own) {
  SCR_RETURN_IF_ERROR(leave_out_of_nodelist(fs, use, avoid, own));
  Hosts all = avoid;
  bool given = false;
  for (const Option& option : find({"exclude", "-x"})) {
    if (const auto users = expand_hosts(value_of(option)); users.ok()) {
      all.insert(all.end(), users->begin(), users->end());
    }
    set_value(option, compress_hosts(unique_hosts(all)));
    given = true;
  }
  Words words;
  if (!given) words.push_back("--exclude=" + compress_hosts(unique_hosts(all)));
  // srun would ask for all nodes of the job otherwise (SLURM_NNODES).
  if (!node_count()) words.push_back(fmt::format("--nodes={}", use.size()));
  if (!own.empty() && find({"nodelist", "-w", "relative", "-r"}).empty()) {
    words.push_back("--nodelist=" + own);
  }
  insert_options(words);
  return {};
}

Status LaunchCommand::use_nodes(FileSystem& fs, const Hosts& use, const Hosts& avoid,
                                const std::string& own, const std::string& hostfile) {
  if (avoid.empty()) return {};
  switch (kind_) {
    case Kind::kNone:
      return failed_precondition(
          "nodes are to be left out, but the program is started without a launcher");
    case Kind::kOpenMpi:
    case Kind::kHydra:
      return use_nodes_of_mpi(fs, use, avoid, hostfile);
    case Kind::kSrun:
      return use_nodes_of_srun(fs, use, avoid, own);
    case Kind::kFlux:
      insert_options({"--requires=-host:" + compress_hosts(avoid)});
      return {};
  }
  return {};
}

}  // namespace scr::job
