// scr_copy: on one node, brings the cached files of a dataset to the prefix directory.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/base/byte_size.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "core/job/host_list.hpp"
#include "core/job/job_settings.hpp"
#include "flush/node_command.hpp"
#include "tools/command.hpp"

namespace {

using scr::Status;
using scr::flush::NodeCommand;
using scr::flush::NodeReport;

constexpr const char* kName = "scr_copy";
constexpr const char* kFooter =
    "scr_scavenge runs this on every node of a job; files keep temporary names until it has seen "
    "that all\nare there. Without --id it says what is in the cache of this node. Killed and "
    "started again, it goes on\nwhere it was.\n"
    "Exit codes: 0 done; 1 failed, or some files are missing or damaged (they are named); 2 wrong "
    "use.";

struct Arguments {
  std::string control;
  std::string prefix;
  std::string host = scr::log::host_name();
  int id = 0;
  std::string directory;
  std::vector<std::string> down;
  std::string partner;
  std::vector<std::string> only;
  std::string buffer = "1MB";
  std::string umask;
  std::string report;
  bool mark = false, json = false;
};

void define(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.add_option("-c,--cntldir", arguments.control,
                 "Control directory of the job on this node (default: scr_cntl_dir)");
  app.add_option("-p,--prefix", arguments.prefix, "Prefix directory (default: SCR_PREFIX)");
  app.add_option("--host", arguments.host,
                 "Name of this node in the list of scr_scavenge (default: its host name)")
      ->type_name("NAME")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return scr::job::is_host_name(name) ? "" : "it is no name of a host";
          },
          ""));
  app.add_option("-i,--id", arguments.id, "Dataset to copy")->check(scr::tools::positive_number());
  app.add_option("-d,--dir", arguments.directory,
                 "Directory of the dataset below .scr in the prefix directory");
  app.add_option("--down", arguments.down,
                 "A node that is lost: the redundancy data of its sets is copied, too")
      ->expected(1)
      ->take_all();
  app.add_option(
      "--partner", arguments.partner,
      "Ranks that are missing (0-3,7): the redundancy data of their sets is copied, too");
  app.add_option("--only", arguments.only,
                 "RANK=HOST: of all nodes only HOST (--host) copies that rank")
      ->expected(1)
      ->take_all();
  app.add_option("-b,--buf", arguments.buffer, "Bytes to copy at a time")->capture_default_str();
  app.add_option("--umask", arguments.umask, "For new files, in octal digits");
  app.add_option("--report", arguments.report, "Directory to write a report to, for scr_scavenge");
  app.add_flag("-j,--json", arguments.json, "Print JSON");
  app.add_flag("--mark", arguments.mark,
               "Copy nothing: say in the flush file that the dataset is in the prefix directory");
}

scr::Status read_only(const std::string& text, std::map<int, std::string>& assigned) {
  const std::size_t equals = text.find('=');
  const auto rank = scr::text::parse_uint(text.substr(0, equals));
  if (equals == std::string::npos || !rank || *rank > std::numeric_limits<int>::max())
    return scr::invalid_argument("--only " + text + ": it is not RANK=HOST");
  assigned[static_cast<int>(*rank)] = text.substr(equals + 1);
  return {};
}

scr::Result<NodeCommand> read(const Arguments& arguments) {
  NodeCommand command;
  command.job = {arguments.control, arguments.prefix};
  if (arguments.control.empty() || arguments.prefix.empty()) {
    SCR_ASSIGN_OR_RETURN(const auto job, scr::job::JobSettings::load(scr::file_system()));
    if (arguments.control.empty()) command.job.control = job.control_directory();
    if (arguments.prefix.empty()) command.job.prefix = job.prefix();
  }
  SCR_ASSIGN_OR_RETURN(command.job.control, scr::normalize(command.job.control));
  SCR_ASSIGN_OR_RETURN(command.job.prefix, scr::normalize(command.job.prefix));
  command.report = arguments.report;
  if (arguments.id == 0) return command;
  command.kind = arguments.mark ? NodeCommand::Kind::kMark : NodeCommand::Kind::kCopy;
  command.copy.dataset = arguments.id;
  command.copy.directory = arguments.directory;
  command.copy.failed_hosts = {arguments.down.begin(), arguments.down.end()};
  SCR_ASSIGN_OR_RETURN(command.copy.missing, scr::flush::RankRanges::from_text(arguments.partner));
  for (const std::string& text : arguments.only)
    SCR_RETURN_IF_ERROR(read_only(text, command.copy.assigned));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t buffer, scr::parse_byte_size(arguments.buffer));
  if (buffer == 0) return scr::invalid_argument("--buf 0: nothing can be copied so");
  command.copy.copy.buffer = static_cast<std::size_t>(buffer);
  if (!arguments.mark && arguments.directory.empty())
    return scr::invalid_argument("--id needs --dir, which scr_scavenge makes");
  return command;
}

Status apply_umask(const std::string& text) {
  if (text.empty()) return {};
  constexpr int kOctal = 8;
  std::size_t used = 0;
  unsigned long mask = 0;
  if (text.find_first_not_of("01234567") == std::string::npos && text.size() <= 4)
    mask = std::stoul(text, &used, kOctal);
  if (used != text.size() || mask > 0777) return scr::invalid_argument("--umask " + text);
  ::umask(static_cast<mode_t>(mask));
  return {};
}

void print(const NodeCommand& command, const NodeReport& report) {
  if (report.absent)
    fmt::print("nothing: there is no control directory '{}' here\n",
               scr::text::escape(command.job.control));
  if (!report.other_prefix.empty())
    fmt::print("nothing: what is in the cache is of the prefix directory '{}'\n",
               scr::text::escape(report.other_prefix));
  for (const auto& dataset : report.datasets) {
    fmt::print("dataset {} '{}': {}, ranks {}, {}{}\n", dataset.dataset.id,
               scr::text::escape(dataset.dataset.name),
               dataset.dataset.complete ? "complete" : "not complete", dataset.ranks.to_text(),
               dataset.layout.containers() ? "containers" : "files",
               dataset.in_prefix ? ", in the prefix directory" : "");
  }
  if (command.kind == NodeCommand::Kind::kCopy) {
    fmt::print("{} copied, ranks {} are whole\n", scr::format_byte_size(report.bytes),
               report.copied.empty() ? "none" : report.copied.to_text());
  }
}

void print_json(const NodeCommand& command, const NodeReport& report) {
  using nlohmann::ordered_json;
  ordered_json json;
  json["absent"] = report.absent;
  json["datasets"] = ordered_json::array();
  for (const auto& dataset : report.datasets) {
    json["datasets"].push_back({{"id", dataset.dataset.id},
                                {"name", dataset.dataset.name},
                                {"complete", dataset.dataset.complete},
                                {"ranks", dataset.ranks.to_text()},
                                {"containers", dataset.layout.containers()},
                                {"in_prefix", dataset.in_prefix}});
  }
  if (command.kind == NodeCommand::Kind::kCopy) {
    json["bytes"] = report.bytes;
    json["whole_ranks"] = report.copied.to_text();
  }
  json["problems"] = report.problems;
  if (!report.error.empty()) json["error"] = report.error;
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Copies the cached files of a dataset from this node to the prefix directory.",
               kName};
  Arguments arguments;
  define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  Status status = apply_umask(arguments.umask);
  auto command = status.ok() ? read(arguments) : scr::Result<NodeCommand>(status);
  if (!command.ok()) {
    const bool usage = command.status().code() == scr::StatusCode::kInvalidArgument;
    return scr::tools::fail(kName, command.status(),
                            usage ? scr::tools::kUsage : scr::tools::kFailure);
  }
  const auto report = scr::flush::run_node_command(scr::file_system(), arguments.host, *command);
  if (!report.ok()) return scr::tools::fail(kName, report.status());
  if (arguments.json) {
    print_json(*command, *report);
  } else {
    print(*command, *report);
  }
  for (const std::string& problem : report->problems)
    fmt::print(stderr, "{}: {}\n", kName, scr::text::escape(problem));
  if (!report->error.empty())
    fmt::print(stderr, "{}: {}\n", kName, scr::text::escape(report->error));
  return report->error.empty() && report->problems.empty() ? scr::tools::kSuccess
                                                           : scr::tools::kFailure;
}
