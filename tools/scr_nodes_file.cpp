// scr_nodes_file: how many nodes the last run used.
#include "core/base/nodes_file.hpp"
#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

constexpr const char* kName = "scr_nodes_file";
constexpr const char* kFooter =
    "Exit codes: 0 the number is printed; 1 there is no nodes file, or it cannot be read; 2 wrong "
    "use.";

scr::Result<int> read(std::string directory) {
  if (directory.empty()) {
    SCR_ASSIGN_OR_RETURN(const auto job, scr::job::JobSettings::load(scr::file_system()));
    directory = job.control_directory();
  }
  return scr::read_nodes_file(scr::file_system(),
                              directory + "/" + std::string(scr::kNodesFileName));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints the number of nodes that the last run on this node had.", kName};
  app.footer(kFooter);
  std::string directory;
  bool json = false;
  app.add_option("-d,--dir", directory, "Control directory (default: scr_cntl_dir cntl)");
  app.add_flag("-j,--json", json, "Print JSON");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto nodes = read(directory);
  if (!nodes.ok()) return scr::tools::fail(kName, nodes.status());
  if (json) {
    fmt::print("{{\"nodes\": {}}}\n", *nodes);
  } else {
    fmt::print("{}\n", *nodes);
  }
  return scr::tools::kSuccess;
}
