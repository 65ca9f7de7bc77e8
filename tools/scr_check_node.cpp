// scr_check_node: is this node fit to run a job.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/job/down_nodes.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::NeededDirectory;

constexpr const char* kName = "scr_check_node";
constexpr const char* kFooter =
    "DIR must exist, a file must be writable in it, and its storage must be as large as BYTES, "
    "such as 100GB.\n"
    "Without --cntl and --cache the directories of the configuration are tested. Prints PASS, or "
    "FAIL and the\nreasons. Exit codes: 0 the node can be used; 1 it cannot; 2 wrong use; 3 it "
    "cannot be told: the\nconfiguration has errors.";
constexpr int kCannotTell = 3;

struct Arguments {
  std::vector<std::string> control, cache, make;
  bool free = false;
  bool json = false;
};

scr::Result<std::vector<NeededDirectory>> configured() {
  SCR_ASSIGN_OR_RETURN(const auto job, scr::job::JobSettings::load(scr::file_system()));
  return scr::job::needed_directories(job);
}

scr::Result<std::vector<NeededDirectory>> given(const Arguments& arguments) {
  std::vector<NeededDirectory> result;
  for (const auto& list : {arguments.control, arguments.cache}) {
    for (const std::string& text : list) {
      SCR_ASSIGN_OR_RETURN(NeededDirectory directory, NeededDirectory::parse(text));
      directory.make = std::find(arguments.make.begin(), arguments.make.end(), directory.path) !=
                       arguments.make.end();
      result.push_back(std::move(directory));
    }
  }
  return result;
}

void print(const std::vector<std::string>& problems, bool json) {
  if (json) {
    const nlohmann::ordered_json told = {
        {"host", scr::log::host_name()}, {"ok", problems.empty()}, {"problems", problems}};
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", told.dump(2, ' ', false, replace));
  } else if (problems.empty()) {
    fmt::print("{}: PASS\n", kName);
  } else {
    fmt::print("{}: FAIL: {}\n", kName,
               scr::text::escape(scr::text::join(std::span<const std::string>(problems), "; ")));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tests whether the directories of a job can be used on this node.", kName};
  app.footer(kFooter);
  Arguments arguments;
  app.add_option("--cntl", arguments.control, "Base of the control directory")
      ->type_name("DIR[:BYTES]")
      ->delimiter(',');
  app.add_option("--cache", arguments.cache, "Base of a cache directory")
      ->type_name("DIR[:BYTES]")
      ->delimiter(',');
  app.add_option("--mkdir", arguments.make, "Make this one of the directories if it is missing")
      ->type_name("DIR")
      ->delimiter(',');
  app.add_flag("--free", arguments.free, "BYTES must be free, and not only be there in all");
  app.add_flag("-j,--json", arguments.json, "Print a JSON object");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const bool named = !arguments.control.empty() || !arguments.cache.empty();
  const auto directories = named ? given(arguments) : configured();
  if (!directories.ok())
    return scr::tools::fail(kName, directories.status(), named ? scr::tools::kUsage : kCannotTell);
  const auto test = arguments.free ? scr::job::SpaceTest::kFree : scr::job::SpaceTest::kCapacity;
  const auto problems = scr::job::check_node(scr::file_system(), *directories, test);
  print(problems, arguments.json);
  return problems.empty() ? scr::tools::kSuccess : scr::tools::kFailure;
}
