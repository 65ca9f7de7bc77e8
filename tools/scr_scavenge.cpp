// scr_scavenge: brings datasets from the caches of a job's nodes to the prefix directory.
#include "tools/save_command.hpp"

namespace {

constexpr const char* kName = "scr_scavenge";
constexpr const char* kFooter =
    "The job's program must have ended. Every node copies what it has (scr_copy, started by srun, "
    "pdsh, ssh\nor mpirun; SCR_REMOTE_SHELL); files of nodes that are lost are rebuilt from "
    "redundancy data. Without --id\nthe newest checkpoint and every output are taken that are not "
    "in the prefix directory yet.\n"
    "Exit codes: 0 all of it is safe; 1 failed, or no node that answered has a dataset and others "
    "did not\nanswer; 2 wrong use; 3 unrecoverable: too much is lost.";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Saves datasets from the caches of a job's nodes.", kName};
  app.footer(kFooter);
  scr::tools::SaveArguments arguments;
  scr::tools::define(app, arguments);
  std::optional<int> dataset;
  app.add_option("-i,--id", dataset, "Only this dataset")->check(scr::tools::positive_number());
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  auto options = scr::tools::options_of(arguments, kName);
  if (!options.ok()) return scr::tools::fail(kName, options.status(), scr::tools::kUsage);
  options->dataset = dataset;
  const auto job = scr::job::JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  const auto outcome = scr::job::save_job(*job, *options);
  if (!outcome.ok()) return scr::tools::fail(kName, outcome.status());
  return scr::tools::tell(*outcome, arguments, kName);
}
