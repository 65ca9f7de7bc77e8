// scr_test_runtime: will h5scr work for a program here.
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/job/runtime_check.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::Finding;

constexpr const char* kName = "scr_test_runtime";
constexpr const char* kFooter =
    "Tests: the HDF5 plug-in loads; the program's HDF5 and MPI are such as h5scr was built for; "
    "the\n"
    "configuration has no errors; control, cache and prefix directories can be used; commands can "
    "be run on\nother nodes. Exit codes: 0 all is well; 1 something is not; 2 wrong use.";

std::string_view state_name(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kNote:
      return "note";
    case Finding::State::kFailed:
      return "FAILED";
  }
  return {};
}

void print_json(const scr::job::RuntimeReport& report) {
  nlohmann::ordered_json told = {{"ok", report.ok()},
                                 {"hdf5", scr::job::hdf5_way_name(report.hdf5)},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : report.findings) {
    told["findings"].push_back({{"subject", finding.subject},
                                {"state", state_name(finding.state)},
                                {"text", finding.text}});
  }
  const auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", told.dump(2, ' ', false, replace));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tests whether h5scr will work for a program on this host.", kName};
  app.footer(kFooter);
  std::string program;
  scr::job::JobOverrides overrides;
  bool json = false;
  bool quiet = false;
  app.add_option("PROGRAM", program, "The program (default: only h5scr itself is tested)");
  app.add_option("-p,--prefix", overrides.prefix, "Prefix directory of the job");
  app.add_flag("-q,--quiet", quiet, "Print only what is not well");
  app.add_flag("-j,--json", json, "Print a JSON object");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto job = scr::job::JobSettings::load(scr::file_system(), overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  const auto report = scr::job::check_runtime(*job, program);
  if (json) {
    print_json(report);
    return report.ok() ? scr::tools::kSuccess : scr::tools::kFailure;
  }
  for (const Finding& finding : report.findings) {
    if (quiet && finding.state == Finding::State::kOk) continue;
    fmt::print("{:<6} {}: {}\n", state_name(finding.state), finding.subject,
               scr::text::escape(finding.text));
  }
  return report.ok() ? scr::tools::kSuccess : scr::tools::kFailure;
}
