// scr_postrun: after the last run of an allocation, saves what would be lost with the caches.
#include "flush/index.hpp"
#include "tools/save_command.hpp"

namespace {

constexpr const char* kName = "scr_postrun";
constexpr const char* kFooter =
    "Saves the newest checkpoint and every output that are in the caches of the nodes and not in "
    "the prefix\ndirectory, as scr_scavenge does, and makes the checkpoint current. One of which "
    "too much is lost is\nunrecoverable; then an older one of the caches is tried, and the current "
    "checkpoint stays what it was\nif there is none. Does nothing if SCR_ENABLE=0.\n"
    "Exit codes: 0 all of it is safe, or there was nothing to save; 1 failed, or no node that "
    "answered has a\ndataset and others did not answer; 2 wrong use; 3 unrecoverable.";

// What a restart will begin with, in words.
std::string restart_from(const scr::job::JobSettings& job) {
  const auto index = scr::flush::read_index(job.fs(), job.prefix());
  if (!index.ok()) return fmt::format("the index cannot be read: {}", index.status().message());
  const auto candidates = index->restart_candidates();
  if (candidates.empty()) return "there is no checkpoint to restart from";
  const scr::flush::IndexEntry* entry = candidates.front();
  return fmt::format("a restart will begin with checkpoint {} '{}'", entry->id(),
                     scr::text::escape(entry->dataset.name));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Saves what a job would lose with the caches of its nodes.", kName};
  app.footer(kFooter);
  scr::tools::SaveArguments arguments;
  scr::tools::define(app, arguments);
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto options = scr::tools::options_of(arguments, kName);
  if (!options.ok()) return scr::tools::fail(kName, options.status(), scr::tools::kUsage);
  const auto job = scr::job::JobSettings::load(scr::file_system(), arguments.overrides);
  if (!job.ok()) return scr::tools::fail(kName, job.status());
  if (!job->config().get_bool("SCR_ENABLE")) return scr::tools::kSuccess;
  const auto outcome = scr::job::save_job(*job, *options);
  if (!outcome.ok()) return scr::tools::fail(kName, outcome.status());
  const int code = scr::tools::tell(*outcome, arguments, kName);
  if (!arguments.quiet) fmt::print(stderr, "{}: {}\n", kName, restart_from(*job));
  return code;
}
