#include "flush/node_command.hpp"

#include <fmt/format.h>

namespace scr::flush {

std::vector<std::string> to_words(const NodeCommand& command, const std::string& host) {
  std::vector<std::string> words = {
      "--cntldir", command.job.control, "--prefix", command.job.prefix, "--host", host};
  const auto add = [&](const char* option, std::string value) {
    words.insert(words.end(), {option, std::move(value)});
  };
  if (!command.report.empty()) add("--report", command.report);
  if (command.kind == NodeCommand::Kind::kSurvey) return words;
  add("--id", std::to_string(command.copy.dataset));
  if (command.kind == NodeCommand::Kind::kMark) {
    words.emplace_back("--mark");
    return words;
  }
  add("--dir", command.copy.directory);
  add("--buf", std::to_string(command.copy.copy.buffer));
  add("--umask", fmt::format("{:o}", command.umask));
  for (const std::string& down : command.copy.failed_hosts) add("--down", down);
  if (!command.copy.missing.empty()) add("--partner", command.copy.missing.to_text());
  for (const auto& [rank, holder] : command.copy.assigned)
    add("--only", fmt::format("{}={}", rank, holder));
  return words;
}

Result<NodeReport> run_node_command(FileSystem& fs, const std::string& host,
                                    const NodeCommand& command) {
  NodeReport report;
  report.host = host;
  Status status;
  if (command.kind == NodeCommand::Kind::kMark) {
    status = mark_flushed(fs, command.job, command.copy.dataset);
  } else {
    auto done = command.kind == NodeCommand::Kind::kSurvey
                    ? survey_node(fs, command.job, host)
                    : copy_node(fs, command.job, host, command.copy);
    status = done.status();
    if (done.ok()) report = *std::move(done);
  }
  if (!status.ok()) report.error = std::string(status.message());
  if (!command.report.empty()) SCR_RETURN_IF_ERROR(write_node_report(fs, command.report, report));
  return report;
}

}  // namespace scr::flush
